package hudicatalog.hive;

import java.io.IOException;
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
    boolean bounded = column.low != null && column.high != null;
    switch (type.replaceAll("\\(.*", "")) {
      case "tinyint":
      case "smallint":
      case "int":
      case "bigint":
        LongColumnStatsData numbers = new LongColumnStatsData(nulls, distinct);
        if (bounded) {
          numbers.setLowValue(column.low.longValue());
          numbers.setHighValue(column.high.longValue());
        }
        return ColumnStatisticsData.longStats(numbers);
      case "float":
      case "double":
        DoubleColumnStatsData doubles = new DoubleColumnStatsData(nulls, distinct);
        if (bounded) {
          doubles.setLowValue(column.low);
          doubles.setHighValue(column.high);
        }
        return ColumnStatisticsData.doubleStats(doubles);
      case "decimal":
        DecimalColumnStatsData decimals = new DecimalColumnStatsData(nulls, distinct);
        if (bounded) {
          decimals.setLowValue(decimal(column.low));
          decimals.setHighValue(decimal(column.high));
        }
        return ColumnStatisticsData.decimalStats(decimals);
      case "date":
        DateColumnStatsData dates = new DateColumnStatsData(nulls, distinct);
        if (bounded) {
          dates.setLowValue(new Date(column.low.longValue()));
          dates.setHighValue(new Date(column.high.longValue()));
        }
        return ColumnStatisticsData.dateStats(dates);
      case "timestamp":
        TimestampColumnStatsData times = new TimestampColumnStatsData(nulls, distinct);
        if (bounded) {
          times.setLowValue(new Timestamp(column.low.longValue()));
          times.setHighValue(new Timestamp(column.high.longValue()));
        }
        return ColumnStatisticsData.timestampStats(times);
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

  private static Decimal decimal(double value) {
    HiveDecimal exact = HiveDecimal.create(new java.math.BigDecimal(value).setScale(4, java.math.RoundingMode.HALF_UP));
    return new Decimal(java.nio.ByteBuffer.wrap(exact.unscaledValue().toByteArray()), (short) exact.scale());
  }
}
