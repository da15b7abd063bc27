package hudicatalog.trino;

import static io.trino.memory.context.AggregatedMemoryContext.newSimpleAggregatedMemoryContext;

import io.trino.parquet.Column;
import io.trino.parquet.ParquetDataSource;
import io.trino.parquet.ParquetReaderOptions;
import io.trino.parquet.predicate.TupleDomainParquetPredicate;
import io.trino.parquet.reader.ParquetReader;
import io.trino.parquet.reader.RowGroupInfo;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.joda.time.DateTimeZone;

/** What differs between releases of Trino besides interfaces; the other folders of sources have their own. */
final class Release {
  /** The version of Trino that this build is for, and tested with. */
  static final String TRINO = "476";
  static final boolean READS_INSTANTS_OF_NANOSECONDS = false;

  private Release() {}

  /**
   * The nulls of a block, where true is null.
   *
   * @param flags a byte for each position, not 0 for null
   */
  static Optional<boolean[]> nulls(Optional<byte[]> flags) {
    return flags.map(bytes -> {
      boolean[] nulls = new boolean[bytes.length];
      for (int i = 0; i < bytes.length; i++) {
        nulls[i] = bytes[i] != 0;
      }
      return nulls;
    });
  }

  /**
   * A reader of columns, without regard to the case of their names.
   *
   * @param writer what the footer says wrote the file; null for nothing
   * @param errors what an exception is told as
   */
  static ParquetReader reader(String writer, List<Column> columns, List<RowGroupInfo> groups, ParquetDataSource source,
      ParquetReaderOptions options, Function<Exception, RuntimeException> errors, TupleDomainParquetPredicate predicate)
      throws IOException {
    return new ParquetReader(Optional.ofNullable(writer), columns, false, groups, source, DateTimeZone.UTC,
        newSimpleAggregatedMemoryContext(), options, errors, Optional.of(predicate), Optional.empty());
  }
}
