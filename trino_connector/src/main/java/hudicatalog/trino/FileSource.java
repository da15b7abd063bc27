package hudicatalog.trino;

import io.airlift.slice.Slice;
import io.trino.filesystem.TrinoInput;
import io.trino.filesystem.TrinoInputFile;
import io.trino.parquet.AbstractParquetDataSource;
import io.trino.parquet.ParquetDataSourceId;
import io.trino.parquet.ParquetReaderOptions;
import java.io.IOException;
import java.util.Set;

/**
 * A file of Trino's file systems as its Parquet reader wants it. A small one is read whole by one request, unless it lies
 * on a file system that the node mounts.
 */
final class FileSource extends AbstractParquetDataSource {
  private static final Set<String> MOUNTED = Set.of("file", "local");

  private final TrinoInput input;
  private final boolean isSmall;
  private Slice whole;

  FileSource(TrinoInputFile file, ParquetReaderOptions options) throws IOException {
    super(new ParquetDataSourceId(file.location().toString()), file.length(), options);
    this.input = file.newInput();
    this.isSmall = getEstimatedSize() <= options.getSmallFileThreshold().toBytes()
        && file.location().scheme().filter(MOUNTED::contains).isEmpty();
  }

  @Override
  protected Slice readTailInternal(int length) throws IOException {
    return isSmall ? whole().slice(whole().length() - length, length) : input.readTail(length);
  }

  @Override
  protected void readInternal(long position, byte[] buffer, int offset, int length) throws IOException {
    if (isSmall) {
      whole().getBytes(Math.toIntExact(position), buffer, offset, length);
    } else {
      input.readFully(position, buffer, offset, length);
    }
  }

  private Slice whole() throws IOException {
    if (whole == null) {
      whole = input.readFully(0, Math.toIntExact(getEstimatedSize()));
    }
    return whole;
  }

  @Override
  public void close() throws IOException {
    input.close();
  }
}
