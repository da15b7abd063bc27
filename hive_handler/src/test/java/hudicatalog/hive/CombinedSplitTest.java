package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.junit.jupiter.api.Test;

class CombinedSplitTest {
  private static JobConf job(String... keysAndValues) {
    JobConf job = new JobConf(false);
    for (int i = 0; i < keysAndValues.length; i += 2) {
      job.set(keysAndValues[i], keysAndValues[i + 1]);
    }
    return job;
  }

  private static List<FileSplit> files(long... lengths) {
    List<FileSplit> files = new ArrayList<>();
    for (int i = 0; i < lengths.length; i++) {
      files.add(new FileSplit(new Path("file:/t/f" + i), 4, lengths[i], (String[]) null));
    }
    return files;
  }

  private static String lengths(InputSplit[] splits) throws IOException {
    List<String> parts = new ArrayList<>();
    for (InputSplit split : splits) {
      parts.add(CombinedSplit.parts(split).size() + ":" + split.getLength());
    }
    return String.join(" ", parts);
  }

  @Test
  void smallOnesAreCombinedUpToAShareOfTezGroups() throws Exception {
    JobConf job = job("hive.execution.engine", "tez", "tez.grouping.min-size", "400");
    List<FileSplit> files = files(30, 60, 50, 200, 10, 10);
    InputSplit[] splits = CombinedSplit.combined(job, files);
    assertEquals("2:90 1:50 1:200 2:20", lengths(splits));
    assertSame(files.get(3), splits[2], "a range alone stays what it is");
    assertEquals(files.get(0).getPath(), ((FileSplit) splits[0]).getPath());
    assertEquals("", lengths(CombinedSplit.combined(job, files())));
  }

  @Test
  void nothingIsCombinedWhereTheUserChoseTheNumberOfTasks() throws Exception {
    String apart = "1:1 1:2 1:3";
    assertEquals(apart, lengths(CombinedSplit.combined(job("tez.grouping.split-count", "9"), files(1, 2, 3))));
    JobConf each = job("hive.execution.engine", "mr", "hive.input.format", "org.apache.hadoop.hive.ql.io.HiveInputFormat");
    assertEquals(apart, lengths(CombinedSplit.combined(each, files(1, 2, 3))));
    each.set("hive.input.format", "org.apache.hadoop.hive.ql.io.CombineHiveInputFormat");
    assertEquals("3:6", lengths(CombinedSplit.combined(each, files(1, 2, 3))));
    each.set("mapreduce.input.fileinputformat.split.maxsize", "3");
    assertEquals("2:3 1:3", lengths(CombinedSplit.combined(each, files(1, 2, 3))));
  }

  @Test
  void rangesAreTheSameAfterTheirWay() throws Exception {
    InputSplit sent = CombinedSplit.combined(job(), files(1, 2, 3))[0];
    DataOutputBuffer out = new DataOutputBuffer();
    sent.write(out);
    DataInputBuffer in = new DataInputBuffer();
    in.reset(out.getData(), out.getLength());
    CombinedSplit got = new CombinedSplit();
    got.readFields(in);
    assertEquals(6, got.getLength());
    assertEquals(0, in.getLength() - in.getPosition());
    assertEquals(CombinedSplit.parts(sent).toString(), CombinedSplit.parts(got).toString());
    assertEquals(0, got.getLocations().length);
  }
}
