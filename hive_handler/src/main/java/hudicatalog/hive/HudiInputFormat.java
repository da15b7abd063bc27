package hudicatalog.hive;

import java.io.IOException;
import org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;

/** Hive's own reading of Parquet, vectorized where Hive vectorizes; which files are read says the service. */
public class HudiInputFormat extends MapredParquetInputFormat {
  @Override
  public InputSplit[] getSplits(JobConf job, int numSplits) throws IOException {
    return ScanSplits.of(job);
  }
}
