package hudicatalog.trino;

import io.trino.spi.NodeManager;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorSplitSource;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.DynamicFilterSnapshot;
import io.trino.spi.connector.FixedSplitSource;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** Gives the splits of a scan, which the service plans. */
record HudiSplitManager(ServiceClient service, NodeManager nodes) implements ConnectorSplitManager {
  @Override
  public ConnectorSplitSource getSplits(ConnectorTransactionHandle transaction, ConnectorSession session,
      ConnectorTableHandle handle, Set<ColumnHandle> filtered, Constraint constraint) {
    HudiTable table = (HudiTable) handle;
    if (!table.pushed().answered().isEmpty()) {
      return new FixedSplitSource(new AnswerPages.Split(1));
    }
    return new AwaitedSplits(service, table, session, nodes);
  }

  /** The splits; the engine waits for a join's values before it asks for the first. */
  private static final class AwaitedSplits extends ScanSplits {
    private final long waitMillis;

    AwaitedSplits(ServiceClient service, HudiTable table, ConnectorSession session, NodeManager nodes) {
      super(service, table, session, nodes);
      this.waitMillis = SessionOptions.waitMillis(session);
    }

    @Override
    public long getRequestedDynamicFilterWaitTimeoutMillis() {
      return waitMillis;
    }

    @Override
    public CompletableFuture<List<ConnectorSplit>> getNextBatch(int maxSize, DynamicFilterSnapshot filter) {
      return take(maxSize, filter::currentPredicate, Function.identity());
    }
  }
}
