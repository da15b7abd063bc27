package hudicatalog.hive;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.io.DataCache;
import org.apache.hadoop.hive.common.io.FileMetadataCache;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat;
import org.apache.hadoop.io.ArrayWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** Hive's own reading of Parquet, vectorized where Hive vectorizes; the service says which files are read. */
public class HudiInputFormat extends MapredParquetInputFormat {
  private transient FileMetadataCache footers;
  private transient DataCache data;
  private transient Configuration cacheConf;

  @Override
  public InputSplit[] getSplits(JobConf job, int numSplits) throws IOException {
    return ScanSplits.of(job);
  }

  @Override
  @SuppressWarnings({"unchecked", "rawtypes"})
  public RecordReader<NullWritable, ArrayWritable> getRecordReader(InputSplit split, JobConf job, Reporter reporter)
      throws IOException {
    if (Utilities.getIsVectorized(job)) {
      // Hive then expects batches.
      JobConf conf = Readers.conf(job);
      return (RecordReader) Readers.ofParts(split, part -> new Readers.OfVectors(part, conf, footers, data, cacheConf));
    }
    return Readers.ofRows(split, job, reporter);
  }

  /** LLAP keeps what was read. */
  @Override
  public void injectCaches(FileMetadataCache footers, DataCache data, Configuration cacheConf) {
    this.footers = footers;
    this.data = data;
    this.cacheConf = cacheConf;
    super.injectCaches(footers, data, cacheConf);
  }
}
