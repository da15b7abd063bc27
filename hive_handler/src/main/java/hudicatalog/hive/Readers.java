package hudicatalog.hive;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.io.DataCache;
import org.apache.hadoop.hive.common.io.FileMetadataCache;
import org.apache.hadoop.hive.ql.io.parquet.read.DataWritableReadSupport;
import org.apache.hadoop.hive.ql.io.parquet.read.ParquetRecordReaderWrapper;
import org.apache.hadoop.hive.ql.io.parquet.vector.VectorizedParquetRecordReader;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.hadoop.ParquetInputFormat;
import org.apache.parquet.schema.MessageType;

/**
 * Hive's readers of Parquet files, without their own filter.
 *
 * <p>Hive 4.0.1 casts the literals of a filter to the types of the file, not to those of the table: in files whose
 * integers have become longs, a filter with a number beyond the range of integers then loses every row. The service
 * has skipped row groups already, and Hive filters the rows that it reads.
 */
final class Readers {
  /** Days before 1582 are those that Hudi's writers stored, as the service takes them too. */
  private static final String PROLEPTIC_DATES = "hive.parquet.date.proleptic.gregorian.default";

  private Readers() {}

  /**
   * A job's configuration for reading; the job may have readers of other tables.
   *
   * <p>Hive copies it for each file. It does not have where each setting came from, which takes most of that time.
   */
  static JobConf conf(JobConf job) {
    JobConf own = new JobConf(false);
    own.addResource(job);
    own.setClassLoader(job.getClassLoader());
    own.setCredentials(job.getCredentials());
    own.setBoolean(PROLEPTIC_DATES, true);
    // Files are planned by the names of columns; Hudi's own columns come first in them.
    own.setBoolean(DataWritableReadSupport.PARQUET_COLUMN_INDEX_ACCESS, false);
    own.unset(ParquetInputFormat.FILTER_PREDICATE);
    return own;
  }

  /** A reader row by row. */
  static RecordReader<NullWritable, ArrayWritable> ofRows(InputSplit split, JobConf job, Reporter reporter)
      throws IOException {
    JobConf conf = conf(job);
    return ofParts(split, part -> {
      try {
        return new OfRows(part, conf, reporter);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("the query was cancelled");
      }
    });
  }

  /** Opens the reader of one range of a file. */
  interface Opener<V> {
    RecordReader<NullWritable, V> open(FileSplit part) throws IOException;
  }

  /** The reader of a split: of its one range, or of one range after the other. */
  static <V> RecordReader<NullWritable, V> ofParts(InputSplit split, Opener<V> opener) throws IOException {
    List<FileSplit> parts = CombinedSplit.parts(split);
    return parts.size() == 1 ? opener.open(parts.get(0)) : new OneByOne<>(parts, split.getLength(), opener);
  }

  /** Opens each range when the one before is at its end. */
  private static final class OneByOne<V> implements RecordReader<NullWritable, V> {
    private final List<FileSplit> parts;
    private final long length;
    private final Opener<V> opener;
    private RecordReader<NullWritable, V> current;
    private int opened = 1;
    private long before;

    OneByOne(List<FileSplit> parts, long length, Opener<V> opener) throws IOException {
      this.parts = parts;
      this.length = length;
      this.opener = opener;
      this.current = opener.open(parts.get(0));
    }

    @Override
    public boolean next(NullWritable key, V value) throws IOException {
      while (!current.next(key, value)) {
        if (opened == parts.size()) {
          return false;
        }
        current.close();
        before += parts.get(opened - 1).getLength();
        current = opener.open(parts.get(opened));
        opened++;
      }
      return true;
    }

    @Override
    public NullWritable createKey() {
      return current.createKey();
    }

    @Override
    public V createValue() {
      return current.createValue();
    }

    @Override
    public long getPos() throws IOException {
      return before + current.getPos();
    }

    @Override
    public float getProgress() throws IOException {
      float part = current.getProgress() * parts.get(opened - 1).getLength();
      return length <= 0 ? 0 : Math.min(1, (before + part) / length);
    }

    @Override
    public void close() throws IOException {
      current.close();
    }
  }

  /** A reader of batches. */
  static final class OfVectors extends VectorizedParquetRecordReader {
    OfVectors(InputSplit split, JobConf conf, FileMetadataCache footers, DataCache data, Configuration cacheConf)
        throws IOException {
      super(split, conf, footers, data, cacheConf);
    }

    @Override
    public FilterCompat.Filter setFilter(JobConf conf, MessageType schema) {
      return null;
    }
  }

  private static final class OfRows extends ParquetRecordReaderWrapper {
    OfRows(InputSplit split, JobConf conf, Reporter reporter) throws IOException, InterruptedException {
      super(new ParquetInputFormat<>(DataWritableReadSupport.class), split, conf, reporter);
    }

    @Override
    public FilterCompat.Filter setFilter(JobConf conf, MessageType schema) {
      return null;
    }
  }
}
