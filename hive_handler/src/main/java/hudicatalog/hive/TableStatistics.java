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

/**
 * Statistics of a table for Hive's optimizer, of the snapshot that the query reads.
 *
 * <p>Hive also reduces filters by bounds and numbers of nulls of columns that are marked as accurate, as ANALYZE marks
 * them for good. So the mark is taken from what the query holds in memory, and should it be there nevertheless, bounds
 * are never narrower than the values, and there are no nulls only where that is known.
 */
final class TableStatistics {
  private static final Logger LOG = LoggerFactory.getLogger(TableStatistics.class);
  private static final int MOST = 200;
  private static final double EXACT_DOUBLES = 1L << 53;
  /** Writers may cut times to milliseconds. */
  private static final long TIMES_SLACK_SECONDS = 1;
  private static final double MOST_DECIMAL = 1e30;
  private static final String NOTHING_ACCURATE = "{}";
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
    try {
      CompiledScan pinned = Pins.pinned(hive, table);
      // A pin names one state of the table: its statistics are those of other queries, too.
      String key = pinned.location + "\n" + pinned.pin + "\n" + Settings.forService(pinned.settings);
      Messages.Statistics statistics;
      synchronized (KNOWN) {
        statistics = KNOWN.get(key);
      }
      if (statistics == null) {
        statistics = new ServiceClient(hive, pinned).statistics();
        synchronized (KNOWN) {
          KNOWN.put(key, statistics == null ? NONE : statistics);
        }
      }
      return statistics == NONE ? null : statistics;
    } catch (IOException e) {
      LOG.warn("{}: no statistics: {}", table.getFullyQualifiedName(), e.getMessage());
      return null;
    }
  }

  /** Let Hive answer count(*) by the rows of a table, for the query that is compiled, and nothing by its columns. */
  static void answerCounts(Messages.Statistics statistics, Map<String, String> parameters) {
    parameters.putAll(basic(statistics));
    StatsSetupConst.setBasicStatsState(parameters, StatsSetupConst.TRUE);
  }

  /** Parameters of a table for a query that has no statistics from the service. */
  static Map<String, String> without(Map<String, String> parameters) {
    Map<String, String> known = new HashMap<>(parameters);
    known.put(StatsSetupConst.COLUMN_STATS_ACCURATE, NOTHING_ACCURATE);
    return known;
  }

  /** As Hive's parameters of a table name them; they replace those that the query holds. */
  static Map<String, String> basic(Messages.Statistics statistics) {
    Map<String, String> basic = new HashMap<>();
    basic.put(StatsSetupConst.COLUMN_STATS_ACCURATE, NOTHING_ACCURATE);
    basic.put(StatsSetupConst.NUM_FILES, String.valueOf(statistics.files));
    basic.put(StatsSetupConst.TOTAL_SIZE, String.valueOf(statistics.bytes));
    if (statistics.rows != null) {
      basic.put(StatsSetupConst.ROW_COUNT, String.valueOf(statistics.rows));
    }
    return basic;
  }

  /** A column's statistics; null where there are none. */
  static Messages.Column column(Messages.Statistics statistics, String name) {
    for (Messages.Column column : statistics.columns) {
      if (column.name.equalsIgnoreCase(name)) {
        return column;
      }
    }
    return null;
  }

  /** Statistics of the columns of which the number of distinct values is known; Hive estimates the others. */
  static List<ColumnStatisticsObj> columns(Table table, Messages.Statistics statistics) {
    Map<String, String> types = new HashMap<>();
    for (FieldSchema field : table.getCols()) {
      types.put(field.getName(), field.getType());
    }
    List<ColumnStatisticsObj> columns = new ArrayList<>();
    for (Messages.Column column : statistics.columns) {
      String type = types.get(column.name);
      ColumnStatisticsData data = type == null || column.distinct == null ? null
          : data(type, column, nulls(statistics, column), distinct(statistics, column));
      if (data != null) {
        columns.add(new ColumnStatisticsObj(column.name, type, data));
      }
    }
    return columns;
  }

  /** 0 only if there are none for certain, and never all rows. */
  private static long nulls(Messages.Statistics statistics, Messages.Column column) {
    if (column.nulls == null) {
      return 1;
    }
    long rows = statistics.rows == null ? Long.MAX_VALUE : statistics.rows;
    return column.nulls == 0 ? 0 : Math.max(1, Math.min(column.nulls, rows - 1));
  }

  /** Less than the rows: Hive takes a column with as many values for a key, and these are estimates. */
  private static long distinct(Messages.Statistics statistics, Messages.Column column) {
    return statistics.rows == null ? column.distinct : Math.max(1, Math.min(column.distinct, statistics.rows - 1));
  }

  private static ColumnStatisticsData data(String type, Messages.Column column, long nulls, long distinct) {
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
      data.setLowValue((long) Math.floor(below(low)));
      data.setHighValue((long) Math.ceil(above(high)));
      return ColumnStatisticsData.longStats(data);
    } else if (type.equals("date")) {
      DateColumnStatsData data = new DateColumnStatsData(nulls, distinct);
      data.setLowValue(new Date((long) low));
      data.setHighValue(new Date((long) high));
      return ColumnStatisticsData.dateStats(data);
    } else if (type.equals("timestamp")) {
      TimestampColumnStatsData data = new TimestampColumnStatsData(nulls, distinct);
      data.setLowValue(new Timestamp((long) Math.floor(low / MICROSECONDS) - TIMES_SLACK_SECONDS));
      data.setHighValue(new Timestamp((long) Math.ceil(high / MICROSECONDS) + TIMES_SLACK_SECONDS));
      return ColumnStatisticsData.timestampStats(data);
    } else if (type.startsWith("decimal")) {
      DecimalColumnStatsData data = new DecimalColumnStatsData(nulls, distinct);
      if (Math.max(Math.abs(low), Math.abs(high)) > MOST_DECIMAL) {
        return null;
      }
      data.setLowValue(decimal(Math.nextDown(low), RoundingMode.FLOOR));
      data.setHighValue(decimal(Math.nextUp(high), RoundingMode.CEILING));
      return ColumnStatisticsData.decimalStats(data);
    }
    DoubleColumnStatsData data = new DoubleColumnStatsData(nulls, distinct);
    data.setLowValue(low);
    data.setHighValue(high);
    return ColumnStatisticsData.doubleStats(data);
  }

  private static double below(double value) {
    return Math.abs(value) < EXACT_DOUBLES ? value : Math.nextDown(value);
  }

  private static double above(double value) {
    return Math.abs(value) < EXACT_DOUBLES ? value : Math.nextUp(value);
  }

  private static Decimal decimal(double value, RoundingMode mode) {
    HiveDecimal exact = HiveDecimal.create(new BigDecimal(value).setScale(4, mode));
    return new Decimal((short) exact.scale(), ByteBuffer.wrap(exact.unscaledValue().toByteArray()));
  }
}
