package hudicatalog.trino;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import io.trino.spi.NodeManager;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorSplitSource;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.DynamicFilter;
import io.trino.spi.connector.FixedSplitSource;
import io.trino.spi.metrics.Metrics;
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
    ScanSplits splits = new ScanSplits(service, table, session.getQueryId(), nodes.getRequiredWorkerNodes().size());
    return new Source(splits, filter, System.nanoTime() + MILLISECONDS.toNanos(SessionOptions.waitMillis(session)));
  }

  /**
   * The splits, of which the first wait for a join's values.
   *
   * @param waitUntil by {@link System#nanoTime}
   */
  private record Source(ScanSplits splits, DynamicFilter filter, long waitUntil) implements ConnectorSplitSource {
    @Override
    public CompletableFuture<ConnectorSplitBatch> getNextBatch(int maxSize) {
      long wait = (waitUntil - System.nanoTime()) / 1_000_000;
      if (wait > 0 && !splits.isPlanned() && filter.isAwaitable()) {
        // After an empty batch the engine asks again at once. The copy keeps the time-out off the engine's own future.
        ConnectorSplitBatch none = new ConnectorSplitBatch(List.of(), false);
        return filter.isBlocked().thenApply(_ -> none).copy().completeOnTimeout(none, wait, MILLISECONDS);
      }
      return splits.take(maxSize, filter::getCurrentPredicate)
          .thenApply(batch -> new ConnectorSplitBatch(batch, splits.isFinished()));
    }

    @Override
    public boolean isFinished() {
      return splits.isFinished();
    }

    @Override
    public Metrics getMetrics() {
      return splits.metrics();
    }

    @Override
    public void close() {
      // nothing is open between batches
    }
  }
}
