package hudicatalog.hive;

import hudicatalog.wire.Protocol;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.SerializationUtilities;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.plan.MapWork;
import org.apache.hadoop.hive.ql.plan.PartitionDesc;
import org.apache.hadoop.hive.ql.plan.TableScanDesc;
import org.apache.hadoop.hive.serde2.ColumnProjectionUtils;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The splits of one scan of a table. */
final class ScanSplits {
  private static final Logger LOG = LoggerFactory.getLogger(ScanSplits.class);
  private static final String SPLIT_BYTES = "mapreduce.input.fileinputformat.split.maxsize";
  private static final String QUERY_ID = "hive.query.id";

  private ScanSplits() {}

  /**
   * Ask the service for the splits that a job reads.
   *
   * @throws IOException when there is no valid answer; no folder is ever listed instead, since that would
   *     show files that later commits replaced
   */
  static InputSplit[] of(JobConf job) throws IOException {
    long start = System.nanoTime();
    CompiledScan scan = CompiledScan.of(job);
    ServiceClient client = new ServiceClient(job, scan);
    ScanRequest request = request(job, scan);
    Messages.Splits answer = client.splits(request);
    List<FileSplit> ranges;
    try {
      ranges = checked(request, answer);
    } catch (IOException e) {
      throw client.failure("the service gave a wrong answer: " + e.getMessage(), e);
    }
    InputSplit[] splits = CombinedSplit.combined(job, ranges);
    LOG.info("Hudi table {}, query {}: {} of {} files in {} splits, {} ms, filter of {} characters", scan.table,
        request.queryId, answer.filesKept, answer.filesTotal, splits.length, (System.nanoTime() - start) / 1_000_000,
        request.filter == null ? 0 : request.filter.length());
    return splits;
  }

  private static ScanRequest request(JobConf job, CompiledScan scan) throws IOException {
    String queryId = job.get(QUERY_ID, "");
    // EXECUTE of a PREPAREd statement may run a plan again, with an old snapshot.
    String pin = queryId.equals(scan.queryId) ? scan.pin : null;
    ScanRequest request = new ScanRequest(scan, queryId, pin);
    if (isAlone(job, scan)) {
      request.filter = filter(job, scan);
      request.columns = columns(job);
    }
    request.inZone(TimeZone.getDefault());
    long most = job.getLong(SPLIT_BYTES, 0);
    request.splitBytes = most > 0 ? most : null;
    return request;
  }

  /**
   * Whether the job's filter and columns are those of this scan alone.
   *
   * <p>If one task reads a table twice, or several tables, as with MapReduce, HiveInputFormat asks once for each
   * folder, and may leave the filter of another scan in the job.
   *
   * @throws IOException when tables that show different rows of the same folder are read by one task
   */
  private static boolean isAlone(JobConf job, CompiledScan scan) throws IOException {
    MapWork work = Utilities.getMapWork(job);
    if (work == null) {
      // A fetch without tasks: it has one scan, and no such plan.
      return true;
    }
    for (PartitionDesc read : work.getAliasToPartnInfo().values()) {
      Map<String, String> properties = read.getTableDesc().getJobProperties();
      String text = properties == null ? null : properties.get(CompiledScan.KEY);
      if (text != null && scan.contradicts(CompiledScan.of(text))) {
        throw new IOException("Hudi table " + scan.table + ": one task reads its folder as another table too, with"
            + " other settings, and Hive tells tables by their folders: SET hive.execution.engine=tez");
      }
    }
    return work.getAliasToWork().size() == 1;
  }

  private static String filter(JobConf job, CompiledScan scan) {
    String serialized = job.get(TableScanDesc.FILTER_EXPR_CONF_STR);
    if (serialized == null) {
      return null;
    }
    try {
      String json = FilterJson.of(SerializationUtilities.deserializeExpression(serialized));
      if (json == null) {
        LOG.warn("Hudi table {}: a filter too long to be sent; all files are read", scan.table);
      }
      return json;
    } catch (RuntimeException | StackOverflowError e) {
      LOG.warn("Hudi table {}: a filter that cannot be read; all files are read", scan.table, e);
      return null;
    }
  }

  private static List<String> columns(JobConf job) {
    if (ColumnProjectionUtils.isReadAllColumns(job)) {
      return null;
    }
    String names = job.get(ColumnProjectionUtils.READ_COLUMN_NAMES_CONF_STR, "");
    LinkedHashSet<String> distinct = new LinkedHashSet<>(Arrays.asList(names.split(",")));
    distinct.remove("");
    return new ArrayList<>(distinct);
  }

  private static List<FileSplit> checked(ScanRequest request, Messages.Splits answer) throws IOException {
    if (answer.version != Protocol.VERSION) {
      throw new IOException("it is of version " + answer.version + ", and hudi-hive-handler.jar knows "
          + Protocol.VERSION + "; use the jar that `hudi-catalog hive-jar` names there");
    }
    if (request.pin != null && !request.pin.equals(answer.pin)) {
      throw new IOException("another snapshot than the one that the query began with");
    }
    TablePath table = new TablePath(request.scan.location);
    List<FileSplit> splits = new ArrayList<>(answer.splits.size());
    for (Messages.Split split : answer.splits) {
      Path path = table.inside(split.path);
      if (split.start < 0 || split.length <= 0 || split.start > Long.MAX_VALUE - split.length) {
        throw new IOException("bytes " + split.start + " and " + split.length + " more of " + split.path);
      }
      splits.add(new FileSplit(path, split.start, split.length, (String[]) null));
    }
    checkDisjoint(splits);
    return splits;
  }

  /** Rows of a range that is read twice would be there twice. */
  private static void checkDisjoint(List<FileSplit> splits) throws IOException {
    FileSplit[] sorted = splits.toArray(new FileSplit[0]);
    Arrays.sort(sorted, (one, other) -> {
      int order = one.getPath().compareTo(other.getPath());
      return order != 0 ? order : Long.compare(one.getStart(), other.getStart());
    });
    for (int i = 1; i < sorted.length; i++) {
      boolean isSame = sorted[i].getPath().equals(sorted[i - 1].getPath());
      if (isSame && sorted[i].getStart() < sorted[i - 1].getStart() + sorted[i - 1].getLength()) {
        throw new IOException("two splits with the same bytes of " + sorted[i].getPath());
      }
    }
  }
}
