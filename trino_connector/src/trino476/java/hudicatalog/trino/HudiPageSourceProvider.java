package hudicatalog.trino;

import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.ConnectorPageSourceProvider;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.DynamicFilter;
import java.util.List;

/** Reads splits. */
record HudiPageSourceProvider(SplitPages pages) implements ConnectorPageSourceProvider {
  @Override
  public ConnectorPageSource createPageSource(ConnectorTransactionHandle transaction, ConnectorSession session,
      ConnectorSplit split, ConnectorTableHandle table, List<ColumnHandle> columns, DynamicFilter filter) {
    return pages.open(session, split, table, columns, filter);
  }
}
