package hudicatalog.hive;

import java.io.IOException;
import java.io.InterruptedIOException;
import org.apache.hadoop.hive.ql.io.parquet.read.DataWritableReadSupport;
import org.apache.hadoop.hive.ql.io.parquet.read.ParquetRecordReaderWrapper;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.parquet.hadoop.ParquetInputFormat;

/**
 * Reads row by row, for tables with lists, maps or structs.
 *
 * <p>Hive knows which nested columns its vectorized reader cannot read only for its own input format, by its name; a
 * format that does not offer vectors is read by rows.
 */
public class HudiRowInputFormat extends FileInputFormat<NullWritable, ArrayWritable> {
  @Override
  public InputSplit[] getSplits(JobConf job, int numSplits) throws IOException {
    return ScanSplits.of(job);
  }

  @Override
  public RecordReader<NullWritable, ArrayWritable> getRecordReader(InputSplit split, JobConf job, Reporter reporter)
      throws IOException {
    try {
      return new ParquetRecordReaderWrapper(new ParquetInputFormat<>(DataWritableReadSupport.class), split, job,
          reporter);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("the query was cancelled");
    }
  }
}
