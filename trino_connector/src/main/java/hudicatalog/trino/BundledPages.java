package hudicatalog.trino;

import io.trino.plugin.base.metrics.LongCount;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.SourcePage;
import io.trino.spi.metrics.Metrics;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** The pages of several files, one after the other; a file is opened when the one before has been read. */
final class BundledPages implements ConnectorPageSource {
  private final Queue<HudiSplit> left;
  private final Function<HudiSplit, ConnectorPageSource> open;
  private ConnectorPageSource current;
  private Metrics metrics = Metrics.EMPTY;
  private long bytes;
  private long rows;
  private long nanos;

  BundledPages(List<HudiSplit> parts, Function<HudiSplit, ConnectorPageSource> open) {
    this.left = new ArrayDeque<>(parts);
    this.open = open;
    this.metrics = new Metrics(Map.of("files read beside others", new LongCount(parts.size())));
    next();
  }

  private void next() {
    current = left.isEmpty() ? null : open.apply(left.poll());
  }

  @Override
  public SourcePage getNextSourcePage() {
    if (current == null) {
      return null;
    }
    if (!current.isFinished()) {
      SourcePage page = current.getNextSourcePage();
      if (page != null || !current.isFinished()) {
        return page;
      }
    }
    bytes = getCompletedBytes();
    rows = getCompletedPositions().orElse(0);
    nanos = getReadTimeNanos();
    metrics = getMetrics();
    ConnectorPageSource finished = current;
    current = null;
    close(finished);
    next();
    return null;
  }

  @Override
  public CompletableFuture<?> isBlocked() {
    return current == null ? NOT_BLOCKED : current.isBlocked();
  }

  @Override
  public long getCompletedBytes() {
    return bytes + (current == null ? 0 : current.getCompletedBytes());
  }

  @Override
  public OptionalLong getCompletedPositions() {
    return OptionalLong.of(rows + (current == null ? 0 : current.getCompletedPositions().orElse(0)));
  }

  @Override
  public long getReadTimeNanos() {
    return nanos + (current == null ? 0 : current.getReadTimeNanos());
  }

  @Override
  public boolean isFinished() {
    return current == null;
  }

  @Override
  public long getMemoryUsage() {
    return current == null ? 0 : current.getMemoryUsage();
  }

  @Override
  public Metrics getMetrics() {
    return current == null ? metrics : metrics.mergeWith(current.getMetrics());
  }

  @Override
  public void close() {
    left.clear();
    ConnectorPageSource open = current;
    current = null;
    if (open != null) {
      close(open);
    }
  }

  private static void close(ConnectorPageSource pages) {
    try {
      pages.close();
    } catch (IOException e) {
      throw HudiErrorCode.BAD_FILE.exception("a file could not be closed: " + e.getMessage(), e);
    }
  }
}
