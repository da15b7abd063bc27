package hudicatalog.hive;

import java.io.IOException;
import java.util.Properties;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.FileSinkOperator;
import org.apache.hadoop.hive.ql.io.HiveOutputFormat;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordWriter;
import org.apache.hadoop.util.Progressable;

/** Refuses to write, should a statement come as far as this. */
public class HudiOutputFormat implements HiveOutputFormat<Object, Writable> {
  private static final String NAME = "name";

  @Override
  public RecordWriter<Object, Writable> getRecordWriter(FileSystem ignored, JobConf job, String name,
      Progressable progress) throws IOException {
    throw new IOException(ReadOnly.message(job.get(NAME)));
  }

  @Override
  public FileSinkOperator.RecordWriter getHiveRecordWriter(JobConf job, Path path,
      Class<? extends Writable> valueClass, boolean isCompressed, Properties table, Progressable progress)
      throws IOException {
    throw new IOException(ReadOnly.message(table.getProperty(NAME)));
  }

  @Override
  public void checkOutputSpecs(FileSystem ignored, JobConf job) throws IOException {
    throw new IOException(ReadOnly.message(job.get(NAME)));
  }
}
