package hudicatalog.hive;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;

/**
 * Ranges of several small files, read one after the other by one task.
 *
 * <p>Hive's CombineHiveInputFormat combines splits of its own tables only, and Tez groups what it gets but opens each
 * split by itself. Its path is that of the first range, by which Hive identifies the table.
 */
public class CombinedSplit extends FileSplit {
  private static final String ENGINE = "hive.execution.engine";
  private static final String MAPREDUCE = "mr";
  private static final String MAPREDUCE_FORMAT = "hive.input.format";
  private static final String COMBINING = "CombineHiveInputFormat";
  private static final String MOST_BYTES = "mapreduce.input.fileinputformat.split.maxsize";
  private static final long DEFAULT_MOST_BYTES = 256_000_000L;
  private static final String TEZ_COUNT = "tez.grouping.split-count";
  private static final String TEZ_LEAST_BYTES = "tez.grouping.min-size";
  private static final long DEFAULT_TEZ_LEAST_BYTES = 50L << 20;
  /** Tez groups these further; smaller ones let it choose its groups' sizes. */
  private static final int PARTS_OF_A_TEZ_GROUP = 4;

  private List<FileSplit> parts = Collections.emptyList();

  /** For Hadoop, which reads the fields then. */
  public CombinedSplit() {}

  private CombinedSplit(List<FileSplit> parts, long length) {
    super(parts.get(0).getPath(), parts.get(0).getStart(), length, (String[]) null);
    this.parts = parts;
  }

  /** The ranges of a split that Hive hands to a reader: several, or the split itself. */
  static List<FileSplit> parts(InputSplit split) {
    return split instanceof CombinedSplit ? ((CombinedSplit) split).parts : Collections.singletonList((FileSplit) split);
  }

  /**
   * The splits with small ones combined, in their order.
   *
   * @param job says how large a combined split may be; in a job where a user chose one task a split, none is combined
   */
  static InputSplit[] combined(JobConf job, List<FileSplit> splits) {
    long most = mostBytes(job);
    List<InputSplit> combined = new ArrayList<>();
    List<FileSplit> open = new ArrayList<>();
    long bytes = 0;
    for (FileSplit split : splits) {
      if (!open.isEmpty() && bytes + split.getLength() > most) {
        combined.add(closed(open, bytes));
        open = new ArrayList<>();
        bytes = 0;
      }
      open.add(split);
      bytes += split.getLength();
    }
    if (!open.isEmpty()) {
      combined.add(closed(open, bytes));
    }
    return combined.toArray(new InputSplit[0]);
  }

  private static InputSplit closed(List<FileSplit> open, long bytes) {
    return open.size() == 1 ? open.get(0) : new CombinedSplit(open, bytes);
  }

  /** Bytes of a combined split; 0 where none is wanted. */
  private static long mostBytes(JobConf job) {
    if (MAPREDUCE.equals(job.get(ENGINE, ""))) {
      boolean combines = job.get(MAPREDUCE_FORMAT, "").endsWith(COMBINING);
      return combines ? positive(job.getLong(MOST_BYTES, 0), DEFAULT_MOST_BYTES) : 0;
    }
    if (job.getInt(TEZ_COUNT, 0) > 0) {
      return 0;
    }
    return positive(job.getLong(TEZ_LEAST_BYTES, 0), DEFAULT_TEZ_LEAST_BYTES) / PARTS_OF_A_TEZ_GROUP;
  }

  private static long positive(long value, long otherwise) {
    return value > 0 ? value : otherwise;
  }

  @Override
  public void write(DataOutput out) throws IOException {
    super.write(out);
    out.writeInt(parts.size());
    for (FileSplit part : parts) {
      part.write(out);
    }
  }

  @Override
  public void readFields(DataInput in) throws IOException {
    super.readFields(in);
    int count = in.readInt();
    List<FileSplit> read = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      FileSplit part = new Range();
      part.readFields(in);
      read.add(part);
    }
    parts = read;
  }

  /** A range before its fields are read. */
  private static final class Range extends FileSplit {}
}
