package hudicatalog.trino;

import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.ConnectorPageSourceProvider;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorTableCredentials;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.DynamicFilter;
import io.trino.spi.connector.MemoryContext;
import io.trino.spi.connector.MemoryUsageReportingPageSource;
import java.util.List;
import java.util.Optional;

/** Reads splits. */
record HudiPageSourceProvider(SplitPages pages) implements ConnectorPageSourceProvider {
  @Override
  public ConnectorPageSource createPageSource(ConnectorTransactionHandle transaction, ConnectorSession session,
      ConnectorSplit split, ConnectorTableHandle table, Optional<ConnectorTableCredentials> credentials,
      List<ColumnHandle> columns, DynamicFilter filter, MemoryContext memory) {
    return new MemoryUsageReportingPageSource(pages.open(session, split, table, columns, filter), memory);
  }
}
