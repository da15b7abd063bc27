package hudicatalog.trino;

import io.trino.parquet.reader.ParquetReader;
import io.trino.spi.Page;
import io.trino.spi.TrinoException;
import io.trino.spi.block.Block;
import io.trino.spi.block.RunLengthEncodedBlock;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.SourcePage;
import io.trino.spi.metrics.Metrics;
import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Function;

/** The pages of a Parquet file, with columns between its own that have one value for all rows. */
final class ParquetPages implements ConnectorPageSource {
  /** Where a column's values come from. */
  sealed interface Output {
    /** A column of the reader, or a field of it. */
    record Read(int channel, List<Integer> path) implements Output {}

    /** A block of one position, for all rows. */
    record Same(Block value) implements Output {}
  }

  private final ParquetReader reader;
  private final List<Output> outputs;
  private final Function<Exception, TrinoException> errors;
  private long rows;
  private boolean closed;

  /**
   * Pages of a reader.
   *
   * @param errors what an exception of the reader is told as
   */
  ParquetPages(ParquetReader reader, List<Output> outputs, Function<Exception, TrinoException> errors) {
    this.reader = reader;
    this.outputs = outputs;
    this.errors = errors;
  }

  @Override
  public SourcePage getNextSourcePage() {
    if (closed) {
      return null;
    }
    try {
      SourcePage page = reader.nextPage();
      if (page == null) {
        close();
        return null;
      }
      rows += page.getPositionCount();
      return new Arranged(page, outputs, errors);
    } catch (IOException | RuntimeException e) {
      TrinoException error = errors.apply(e);
      try {
        close();
      } catch (RuntimeException suppressed) {
        error.addSuppressed(suppressed);
      }
      throw error;
    }
  }

  @Override
  public long getCompletedBytes() {
    return reader.getDataSource().getReadBytes();
  }

  @Override
  public OptionalLong getCompletedPositions() {
    return OptionalLong.of(rows);
  }

  @Override
  public long getReadTimeNanos() {
    return reader.getDataSource().getReadTimeNanos();
  }

  @Override
  public boolean isFinished() {
    return closed;
  }

  @Override
  public long getMemoryUsage() {
    return reader.getMemoryContext().getBytes();
  }

  @Override
  public Metrics getMetrics() {
    return reader.getMetrics();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      try {
        reader.close();
      } catch (IOException e) {
        throw errors.apply(e);
      }
    }
  }

  /** Blocks are decoded when they are asked for, after filters on other columns have chosen positions. */
  private static final class Arranged extends WrappedPage {
    private final List<Output> outputs;
    private final Function<Exception, TrinoException> errors;

    Arranged(SourcePage page, List<Output> outputs, Function<Exception, TrinoException> errors) {
      super(page);
      this.outputs = outputs;
      this.errors = errors;
    }

    @Override
    public Block getBlock(int channel) {
      return switch (outputs.get(channel)) {
        case Output.Read read -> RowFields.of(decoded(read.channel()), read.path());
        case Output.Same same -> RunLengthEncodedBlock.create(same.value(), page.getPositionCount());
      };
    }

    private Block decoded(int channel) {
      try {
        return page.getBlock(channel);
      } catch (RuntimeException e) { // the reader does not tell damaged pages by its own exception
        throw errors.apply(e);
      }
    }

    @Override
    public Page getPage() {
      Block[] blocks = new Block[outputs.size()];
      for (int i = 0; i < blocks.length; i++) {
        blocks[i] = getBlock(i);
      }
      return new Page(page.getPositionCount(), blocks);
    }

    @Override
    public int getChannelCount() {
      return outputs.size();
    }
  }
}
