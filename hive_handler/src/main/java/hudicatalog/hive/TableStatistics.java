package hudicatalog.hive;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.StatsSetupConst;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.metastore.api.ColumnStatisticsData;
import org.apache.hadoop.hive.metastore.api.ColumnStatisticsObj;
import org.apache.hadoop.hive.metastore.api.Date;
import org.apache.hadoop.hive.metastore.api.DateColumnStatsData;
import org.apache.hadoop.hive.metastore.api.Decimal;
import org.apache.hadoop.hive.metastore.api.DecimalColumnStatsData;
import org.apache.hadoop.hive.metastore.api.DoubleColumnStatsData;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.LongColumnStatsData;
import org.apache.hadoop.hive.metastore.api.StringColumnStatsData;
import org.apache.hadoop.hive.metastore.api.Timestamp;
import org.apache.hadoop.hive.metastore.api.TimestampColumnStatsData;
import org.apache.hadoop.hive.ql.metadata.Table;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Statistics of a table for Hive's optimizer, of the snapshot that the query reads. */
final class TableStatistics {
  private static final Logger LOG = LoggerFactory.getLogger(TableStatistics.class);
  private static final int MOST = 1000;
  private static final double MOST_SPREAD = 0.3;
  private static final double MICROSECONDS = 1e6;
  private static final Messages.Statistics NONE = new Messages.Statistics();

  private static final Map<String, Messages.Statistics> KNOWN = new LinkedHashMap<String, Messages.Statistics>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, Messages.Statistics> eldest) {
      return size() > MOST;
    }
  };

  private TableStatistics() {}

  /**
   * Statistics of a table; null where there are none: the service is of an earlier release, or does not answer. The
   * query then has those of the metastore, and if it reads the table, the service's message.
   */
  static Messages.Statistics of(Configuration hive, Table table) {
    CompiledScan scan = CompiledScan.of(hive, table.getMetadata(), table.getFullyQualifiedName());
    try {
      CompiledScan pinned = Pins.pinned(hive, scan);
      String key = pinned.toText();
      Messages.Statistics found;
      synchronized (KNOWN) {
        found = KNOWN.get(key);
      }
      if (found == null) {
        found = new ServiceClient(hive, pinned).statistics();
        synchronized (KNOWN) {
          KNOWN.put(key, found == null ? NONE : found);
        }
      }
      return found == NONE ? null : found;
    } catch (IOException e) {
      LOG.warn("{}: no statistics: {}", scan.table, e.getMessage());
      return null;
    }
  }

  /** Let Hive answer count(*) by the rows of a table, for the query that is compiled, and nothing by its columns. */
  static void answerCounts(Messages.Statistics found, Map<String, String> parameters) {
    parameters.putAll(basic(found));
    StatsSetupConst.setBasicStatsState(parameters, StatsSetupConst.TRUE);
    // Bounds and numbers of nulls may be estimates, or of the commit at which somebody ran ANALYZE.
    StatsSetupConst.clearColumnStatsState(parameters);
  }

  /** As Hive's parameters of a table name them. */
  static Map<String, String> basic(Messages.Statistics found) {
    Map<String, String> basic = new HashMap<>();
    basic.put(StatsSetupConst.NUM_FILES, String.valueOf(found.files));
    basic.put(StatsSetupConst.TOTAL_SIZE, String.valueOf(found.bytes));
    if (found.rows != null) {
      basic.put(StatsSetupConst.ROW_COUNT, String.valueOf(found.rows));
    }
    return basic;
  }

  /** Whether files hold such different values of a column that those of a join's other side leave files out. */
  static boolean isClustered(Messages.Statistics found, String name) {
    for (Messages.Column column : found.columns) {
      if (column.name.equalsIgnoreCase(name)) {
        return column.spread != null && column.spread <= MOST_SPREAD;
      }
    }
    return false;
  }

  /** Statistics of the columns of which the number of distinct values is known; Hive estimates the others. */
  static List<ColumnStatisticsObj> columns(Table table, Messages.Statistics found) {
    Map<String, String> types = new HashMap<>();
    for (FieldSchema field : table.getCols()) {
      types.put(field.getName(), field.getType());
    }
    List<ColumnStatisticsObj> columns = new ArrayList<>();
    for (Messages.Column column : found.columns) {
      String type = types.get(column.name);
      ColumnStatisticsData data = type == null || column.distinct == null ? null : data(type, column);
      if (data != null) {
        columns.add(new ColumnStatisticsObj(column.name, type, data));
      }
    }
    return columns;
  }

  private static ColumnStatisticsData data(String type, Messages.Column column) {
    long nulls = column.nulls == null ? 0 : column.nulls;
    long distinct = column.distinct;
    switch (type.replaceAll("\\(.*", "")) {
      case "tinyint":
      case "smallint":
      case "int":
      case "bigint":
      case "float":
      case "double":
      case "decimal":
      case "date":
      case "timestamp":
        // Hive takes absent bounds of numbers as 0.
        return column.low == null || column.high == null ? null
            : bounded(type, column.low, column.high, nulls, distinct);
      case "string":
      case "char":
      case "varchar":
        double length = column.length == null ? 0 : column.length;
        return column.length == null ? null
            : ColumnStatisticsData.stringStats(new StringColumnStatsData((long) Math.ceil(length), length, nulls, distinct));
      default:
        return null;
    }
  }

  private static ColumnStatisticsData bounded(String type, double low, double high, long nulls, long distinct) {
    if (type.endsWith("int")) {
      LongColumnStatsData data = new LongColumnStatsData(nulls, distinct);
      data.setLowValue((long) low);
      data.setHighValue((long) high);
      return ColumnStatisticsData.longStats(data);
    } else if (type.equals("date")) {
      DateColumnStatsData data = new DateColumnStatsData(nulls, distinct);
      data.setLowValue(new Date((long) low));
      data.setHighValue(new Date((long) high));
      return ColumnStatisticsData.dateStats(data);
    } else if (type.equals("timestamp")) {
      TimestampColumnStatsData data = new TimestampColumnStatsData(nulls, distinct);
      data.setLowValue(new Timestamp((long) (low / MICROSECONDS)));
      data.setHighValue(new Timestamp((long) (high / MICROSECONDS)));
      return ColumnStatisticsData.timestampStats(data);
    } else if (type.startsWith("decimal")) {
      DecimalColumnStatsData data = new DecimalColumnStatsData(nulls, distinct);
      data.setLowValue(decimal(low));
      data.setHighValue(decimal(high));
      return ColumnStatisticsData.decimalStats(data);
    }
    DoubleColumnStatsData data = new DoubleColumnStatsData(nulls, distinct);
    data.setLowValue(low);
    data.setHighValue(high);
    return ColumnStatisticsData.doubleStats(data);
  }

  private static Decimal decimal(double value) {
    HiveDecimal exact = HiveDecimal.create(new BigDecimal(value).setScale(4, RoundingMode.HALF_UP));
    return new Decimal((short) exact.scale(), ByteBuffer.wrap(exact.unscaledValue().toByteArray()));
  }
}
