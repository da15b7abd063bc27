package hudicatalog.trino;

import io.trino.spi.Page;
import io.trino.spi.block.Block;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.SourcePage;
import io.trino.spi.metrics.Metrics;
import io.trino.spi.type.Type;
import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/**
 * The pages of a file that is read as one bucket: a row of another bucket fails the query. A join by buckets would leave
 * it out without a word.
 */
final class BucketCheckedPages implements ConnectorPageSource {
  private final ConnectorPageSource pages;
  private final HudiSplit split;
  private final HudiBuckets buckets;
  private final List<Type> types;
  private final int[] channels;

  private BucketCheckedPages(ConnectorPageSource pages, HudiSplit split, HudiBuckets buckets, int[] channels) {
    this.pages = pages;
    this.split = split;
    this.buckets = buckets;
    this.types = buckets.types();
    this.channels = channels;
  }

  /** Pages of a split that are checked where they have the hashed columns. */
  static ConnectorPageSource of(ConnectorPageSource pages, HudiSplit split, HudiBuckets buckets,
      List<HudiColumn> columns) {
    int[] channels = buckets.columns().stream().mapToInt(columns::indexOf).toArray();
    for (int channel : channels) {
      if (channel < 0) {
        return pages;
      }
    }
    return new BucketCheckedPages(pages, split, buckets, channels);
  }

  @Override
  public SourcePage getNextSourcePage() {
    SourcePage page = pages.getNextSourcePage();
    return page == null ? null : new Checked(page);
  }

  private void check(SourcePage page) {
    Block[] blocks = new Block[channels.length];
    for (int i = 0; i < blocks.length; i++) {
      blocks[i] = page.getBlock(channels[i]);
    }
    int own = split.bucket();
    for (int position = 0; position < page.getPositionCount(); position++) {
      int bucket = BucketHash.bucket(types, blocks, position, buckets.count());
      if (bucket != own) {
        throw HudiErrorCode.BAD_FILE.exception(split.path() + " of bucket " + own + " has a row of bucket " + bucket
            + ": the table's files are not in the buckets that its properties say. Have its rows written anew, or set the"
            + " session property " + SessionOptions.BUCKETED + " to false", null);
      }
    }
  }

  /** Checked when one of the hashed columns is asked for, after filters on others have chosen positions. */
  private final class Checked extends WrappedPage {
    private boolean isChecked;

    Checked(SourcePage page) {
      super(page);
    }

    private void checkOnce() {
      if (!isChecked) {
        check(page);
        isChecked = true;
      }
    }

    @Override
    public Block getBlock(int channel) {
      for (int one : channels) {
        if (one == channel) {
          checkOnce();
        }
      }
      return page.getBlock(channel);
    }

    @Override
    public Page getPage() {
      checkOnce();
      return page.getPage();
    }

    @Override
    public int getChannelCount() {
      return page.getChannelCount();
    }
  }

  @Override
  public long getCompletedBytes() {
    return pages.getCompletedBytes();
  }

  @Override
  public OptionalLong getCompletedPositions() {
    return pages.getCompletedPositions();
  }

  @Override
  public long getReadTimeNanos() {
    return pages.getReadTimeNanos();
  }

  @Override
  public boolean isFinished() {
    return pages.isFinished();
  }

  @Override
  public CompletableFuture<?> isBlocked() {
    return pages.isBlocked();
  }

  @Override
  public long getMemoryUsage() {
    return pages.getMemoryUsage();
  }

  @Override
  public Metrics getMetrics() {
    return pages.getMetrics();
  }

  @Override
  public void close() throws IOException {
    pages.close();
  }
}
