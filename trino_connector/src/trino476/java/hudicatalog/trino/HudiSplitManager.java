package hudicatalog.trino;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import io.trino.spi.NodeManager;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorSplitSource;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.DynamicFilter;
import io.trino.spi.connector.FixedSplitSource;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Gives the splits of a scan, which the service plans. */
record HudiSplitManager(ServiceClient service, NodeManager nodes) implements ConnectorSplitManager {
  @Override
  public ConnectorSplitSource getSplits(ConnectorTransactionHandle transaction, ConnectorSession session,
      ConnectorTableHandle handle, DynamicFilter filter, Constraint constraint) {
    HudiTable table = (HudiTable) handle;
    if (!table.pushed().answered().isEmpty()) {
      return new FixedSplitSource(new AnswerPages.Split(1));
    }
    return new WaitingSplits(service, table, session, nodes, filter);
  }

  /** The splits, of which the first wait for a join's values. */
  private static final class WaitingSplits extends ScanSplits {
    private final DynamicFilter filter;
    private final long waitUntil; // by System.nanoTime

    WaitingSplits(ServiceClient service, HudiTable table, ConnectorSession session, NodeManager nodes,
        DynamicFilter filter) {
      super(service, table, session, nodes);
      this.filter = filter;
      this.waitUntil = System.nanoTime() + MILLISECONDS.toNanos(SessionOptions.waitMillis(session));
    }

    @Override
    public CompletableFuture<ConnectorSplitBatch> getNextBatch(int maxSize) {
      long wait = (waitUntil - System.nanoTime()) / 1_000_000;
      if (wait > 0 && !isPlanned() && filter.isAwaitable()) {
        // After an empty batch the engine asks again at once. The copy keeps the time-out off the engine's own future.
        ConnectorSplitBatch none = new ConnectorSplitBatch(List.of(), false);
        return filter.isBlocked().thenApply(_ -> none).copy().completeOnTimeout(none, wait, MILLISECONDS);
      }
      return take(maxSize, filter::getCurrentPredicate, batch -> new ConnectorSplitBatch(batch, isFinished()));
    }
  }
}
