package hudicatalog.hive;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.metadata.Table;
import org.apache.hadoop.hive.ql.plan.ColStatistics;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDynamicListDesc;
import org.apache.hadoop.hive.ql.stats.StatsUtils;
import org.apache.hadoop.hive.serde2.typeinfo.DecimalTypeInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether the values of a join's other side are waited for before a scan's splits are made, and are in their filter then,
 * as {@code column IN (...)}.
 *
 * <p>Not where each file has a large part of the column's values, so that Hive's filtering of rows does better; not for
 * decimals, of whose values Hive 4.0.1 cannot make constants ("Error creating PrimitiveTypeInfo instance for decimal");
 * and not where it costs more than it saves: a whole dimension leaves nothing out, and Hive computes a join that a query
 * has several times once, but not if scans of it wait. {@link KnownValues} need no waiting.
 */
final class SplitPruning {
  private static final Logger LOG = LoggerFactory.getLogger(SplitPruning.class);
  private static final double MOST_SPREAD = 0.3;

  private SplitPruning() {}

  /**
   * Decides for one scan.
   *
   * @param predicate {@code column IN (values of an operator)}.
   */
  static boolean isWorthwhile(Configuration hive, Table table, ExprNodeDesc predicate) {
    List<ExprNodeDesc> parts = predicate.getChildren();
    if (parts == null || parts.isEmpty() || !(parts.get(0) instanceof ExprNodeColumnDesc)
        || parts.get(0).getTypeInfo() instanceof DecimalTypeInfo) {
      return false;
    }
    Messages.Statistics statistics = TableStatistics.of(hive, table);
    Messages.Column column =
        statistics == null ? null : TableStatistics.column(statistics, ((ExprNodeColumnDesc) parts.get(0)).getColumn());
    if (column == null || column.spread == null || column.spread > MOST_SPREAD) {
      return false;
    }
    ExprNodeDesc values = parts.get(parts.size() - 1);
    if (column.distinct == null || !(values instanceof ExprNodeDynamicListDesc)) {
      return true;
    }
    try {
      return isWorthwhile(hive, table.getFullyQualifiedName(), column, predicate);
    } catch (RuntimeException | StackOverflowError e) {
      // Plans have forms that no release promises, and an estimate is no reason to end a query.
      LOG.warn("{}: {}: nothing is known of the other side", table.getFullyQualifiedName(), column.name, e);
      return true;
    }
  }

  private static boolean isWorthwhile(
      Configuration hive, String table, Messages.Column column, ExprNodeDesc predicate) {
    List<ExprNodeDesc> parts = predicate.getChildren();
    ExprNodeDynamicListDesc values = (ExprNodeDynamicListDesc) parts.get(parts.size() - 1);
    int times = RepeatedJoins.count(values.getSource());
    OtherSide side = OtherSide.of(values);
    Sent sent = sent(side);
    double kept = Math.min(1, sent.count / column.distinct + column.spread);
    boolean isLess = !sent.leavesNothingOut(column.distinct);
    boolean isKnown = isLess && times > 1 && side != null && KnownValues.added(hive, predicate, side);
    boolean isWorthwhile = isLess && !isKnown && !isSharingCheaper(times, kept);
    LOG.info("{}: {} in values of {} {}: in the query {} times, expected to keep {}", table, column.name,
        values.getSource(), isWorthwhile ? "is waited for" : isKnown ? "is known" : "is left to the join", times, kept);
    return isWorthwhile;
  }

  /**
   * Whether to read all of a table once, and join once, is cheaper than to read and to join the kept part each time.
   * To join that part is taken to cost as much as to read it. An unknown share (NaN) is taken for a small one.
   */
  static boolean isSharingCheaper(int times, double kept) {
    return times > 1 && 1 + kept <= times * 2 * kept;
  }

  /** What another side is expected to send. */
  private static final class Sent {
    static final Sent UNKNOWN = new Sent(Double.NaN, Double.NaN);

    /** How many values. */
    final double count;
    /** Of those that its table has. */
    final double share;

    Sent(double count, double share) {
      this.count = count;
      this.share = share;
    }

    /** A whole dimension, with as many values as a column has, which are then all in it. */
    boolean leavesNothingOut(double distinct) {
      return share == 1 && count >= distinct;
    }
  }

  private static Sent sent(OtherSide side) {
    if (side == null) {
      return Sent.UNKNOWN;
    }
    Map<String, ColStatistics> columns = statistics(side);
    ColStatistics keys = columns.get(side.key.getColumn());
    double share = new Selectivity(columns).ofAll(side.conditions);
    return keys == null ? Sent.UNKNOWN : new Sent(keys.getCountDistint() * share, share);
  }

  private static Map<String, ColStatistics> statistics(OtherSide side) {
    Set<String> names = new HashSet<>(side.key.getCols());
    side.conditions.forEach(condition -> names.addAll(condition.getCols()));
    Map<String, ColStatistics> columns = new HashMap<>();
    List<ColStatistics> known = StatsUtils.getTableColumnStats(side.table(), side.scan.getSchema().getSignature(),
        new ArrayList<>(names), null, true);
    for (ColStatistics column : known == null ? Collections.<ColStatistics>emptyList() : known) {
      columns.put(column.getColumnName(), column);
    }
    return columns;
  }
}
