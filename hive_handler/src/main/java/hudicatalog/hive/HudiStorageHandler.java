package hudicatalog.hive;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaHook;
import org.apache.hadoop.hive.metastore.api.ColumnStatisticsObj;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe;
import org.apache.hadoop.hive.ql.metadata.DefaultStorageHandler;
import org.apache.hadoop.hive.ql.metadata.Table;
import org.apache.hadoop.hive.ql.parse.SemanticException;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.FileSinkDesc;
import org.apache.hadoop.hive.ql.plan.TableDesc;
import org.apache.hadoop.hive.ql.stats.Partish;
import org.apache.hadoop.hive.serde2.AbstractSerDe;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.OutputFormat;

/**
 * Reads Hudi tables.
 *
 * <p>It takes no filters itself (HiveStoragePredicateHandler), so that Hive passes the whole filter to the input format
 * and applies all of it to the rows again.
 */
public class HudiStorageHandler extends DefaultStorageHandler {
  private static final String PARTITIONS = "partition_columns";
  private static final String BUCKETS = "bucket_count";
  private static final List<String> NO_BUCKETS = Arrays.asList("", "0", "-1");

  @Override
  @SuppressWarnings("rawtypes")
  public Class<? extends InputFormat> getInputFormatClass() {
    return HudiInputFormat.class;
  }

  @Override
  @SuppressWarnings("rawtypes")
  public Class<? extends OutputFormat> getOutputFormatClass() {
    return HudiOutputFormat.class;
  }

  @Override
  public Class<? extends AbstractSerDe> getSerDeClass() {
    return ParquetHiveSerDe.class;
  }

  @Override
  public HiveMetaHook getMetaHook() {
    return new TableHook(getConf());
  }

  /** Hive asks for these when a table is made LIKE one of ours, and at no other time; there are none. */
  @Override
  public Map<String, String> getNativeProperties(Table table) {
    LikeStatement.check(getConf(), table.getFullyQualifiedName());
    return super.getNativeProperties(table);
  }

  @Override
  public boolean canProvideBasicStatistics() {
    return true;
  }

  /** Of the snapshot: what lies in the folder has files that later commits replaced. */
  @Override
  public Map<String, String> getBasicStatistics(Partish partish) {
    Table table = partish.getTable();
    Messages.Statistics statistics = TableStatistics.of(getConf(), table);
    return statistics == null ? TableStatistics.without(table.getParameters()) : TableStatistics.basic(statistics);
  }

  /** Always: those in the metastore are of the commit at which somebody ran ANALYZE. */
  @Override
  public boolean canProvideColStatistics(Table table) {
    return true;
  }

  @Override
  public List<ColumnStatisticsObj> getColStatistics(Table table) {
    Messages.Statistics statistics = TableStatistics.of(getConf(), table);
    return statistics == null ? Collections.emptyList() : TableStatistics.columns(table, statistics);
  }

  /** Whether count(*) is the snapshot's number of rows. */
  @Override
  public boolean canComputeQueryUsingStats(Table table) {
    Messages.Statistics statistics = TableStatistics.of(getConf(), table);
    if (statistics == null || !statistics.exact || statistics.rows == null) {
      return false;
    }
    TableStatistics.answerCounts(statistics, table.getParameters());
    return true;
  }

  /** Whether the values of a join's other side are waited for before splits are made, as {@link SplitPruning} decides. */
  @Override
  public boolean addDynamicSplitPruningEdge(Table table, ExprNodeDesc predicate) {
    return SplitPruning.isWorthwhile(getConf(), table, predicate);
  }

  /** Called in HiveServer2 while a query is compiled: here its snapshot is chosen, for all of its scans. */
  @Override
  public void configureInputJobProperties(TableDesc table, Map<String, String> jobProperties) {
    Configuration hive = getConf();
    Properties properties = table.getProperties();
    check(table.getTableName(), properties);
    CompiledScan scan = CompiledScan.of(hive, properties, table.getTableName());
    try {
      jobProperties.put(CompiledScan.KEY, Pins.pinned(hive, scan).toText());
    } catch (IOException e) {
      throw new HudiQueryException(e.getMessage(), e);
    }
  }

  /** Entries need not be made through Hive, which asks {@link TableHook}. */
  private static void check(String name, Properties properties) {
    String misplaced = Settings.misplaced(properties.keySet());
    String reason = null;
    if (misplaced != null) {
      reason = misplaced + " belongs into Hive's configuration; remove it from the table's properties";
    } else if (!properties.getProperty(PARTITIONS, "").isEmpty()) {
      reason = TableHook.NO_PARTITIONS;
    } else if (!NO_BUCKETS.contains(properties.getProperty(BUCKETS, ""))) {
      reason = TableHook.NO_BUCKETS;
    }
    if (reason != null) {
      throw new HudiQueryException("Hudi table " + name + ": " + reason);
    }
  }

  /** Tasks get the jar of this class. */
  @Override
  public void configureJobConf(TableDesc table, JobConf job) {
    try {
      Utilities.addDependencyJars(job, HudiStorageHandler.class);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void validateSinkDesc(FileSinkDesc sink) throws SemanticException {
    throw new SemanticException(ReadOnly.message(String.valueOf(sink.getTableInfo().getTableName())));
  }
}
