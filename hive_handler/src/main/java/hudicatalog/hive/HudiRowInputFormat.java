package hudicatalog.hive;

import java.io.IOException;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

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
    return Readers.ofRows(split, job, reporter);
  }
}
