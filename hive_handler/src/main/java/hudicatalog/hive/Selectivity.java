package hudicatalog.hive;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.ql.plan.ColStatistics;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDF;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFBetween;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFIn;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPAnd;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqual;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqualOrGreaterThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqualOrLessThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPGreaterThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPLessThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPNotNull;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPOr;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFStruct;

/**
 * The share of a table's rows that a condition is expected to keep, by the statistics of its columns; NaN where they say
 * nothing. Values are taken for evenly spread, and columns for independent.
 *
 * <p>Hive has its own estimates only after it asked a storage handler about split pruning.
 */
final class Selectivity {
  private final Map<String, ColStatistics> columns;

  Selectivity(Map<String, ColStatistics> columns) {
    this.columns = columns;
  }

  double of(ExprNodeDesc condition) {
    if (condition instanceof ExprNodeConstantDesc) {
      return Boolean.TRUE.equals(((ExprNodeConstantDesc) condition).getValue()) ? 1 : 0;
    }
    if (!(condition instanceof ExprNodeGenericFuncDesc)) {
      return Double.NaN;
    }
    GenericUDF function = ((ExprNodeGenericFuncDesc) condition).getGenericUDF();
    List<ExprNodeDesc> operands = condition.getChildren();
    if (function instanceof GenericUDFOPAnd) {
      return ofAll(conjuncts(condition));
    } else if (function instanceof GenericUDFOPOr) {
      return Math.min(1, operands.stream().mapToDouble(this::of).sum());
    } else if (function instanceof GenericUDFOPNotNull) {
      return 1;
    } else if (function instanceof GenericUDFOPEqual) {
      return values(operands, 1);
    } else if (function instanceof GenericUDFIn) {
      return values(operands.subList(0, 1), operands.size() - 1);
    } else if (function instanceof GenericUDFBetween) {
      boolean isPlain = Boolean.FALSE.equals(((ExprNodeConstantDesc) operands.get(0)).getValue());
      return isPlain ? between(operands.get(1), operands.get(2), operands.get(3)) : Double.NaN;
    } else if (function instanceof GenericUDFOPGreaterThan || function instanceof GenericUDFOPEqualOrGreaterThan) {
      return between(operands.get(0), operands.get(1), null);
    } else if (function instanceof GenericUDFOPLessThan || function instanceof GenericUDFOPEqualOrLessThan) {
      return between(operands.get(0), null, operands.get(1));
    }
    return Double.NaN;
  }

  /** Of a conjunction. Conditions on the same columns say the same again, as those do that Hive derives from an OR. */
  double ofAll(List<ExprNodeDesc> conditions) {
    List<Set<String>> named = new ArrayList<>();
    List<Double> shares = new ArrayList<>();
    for (ExprNodeDesc condition : conditions) {
      Set<String> names = new HashSet<>(condition.getCols());
      double share = of(condition);
      int place = 0;
      while (place < named.size() && !named.get(place).containsAll(names) && !names.containsAll(named.get(place))) {
        place++;
      }
      if (place == named.size()) {
        named.add(names);
        shares.add(share);
      } else {
        named.get(place).addAll(names);
        shares.set(place, Math.min(shares.get(place), share));
      }
    }
    return shares.stream().mapToDouble(share -> share).reduce(1, (one, other) -> one * other);
  }

  /** The conditions that a condition is the conjunction of. */
  static List<ExprNodeDesc> conjuncts(ExprNodeDesc condition) {
    if (!(condition instanceof ExprNodeGenericFuncDesc)
        || !(((ExprNodeGenericFuncDesc) condition).getGenericUDF() instanceof GenericUDFOPAnd)) {
      return Collections.singletonList(condition);
    }
    return condition.getChildren().stream().flatMap(child -> conjuncts(child).stream()).collect(Collectors.toList());
  }

  /** Of a number of values of a column, or of a struct of columns. */
  private double values(List<ExprNodeDesc> operands, int count) {
    double distinct = 1;
    boolean hasColumn = false;
    for (ExprNodeDesc operand : operands) {
      if (operand instanceof ExprNodeConstantDesc) {
        continue;
      }
      for (ExprNodeDesc field : fields(operand)) {
        ColStatistics column = column(field);
        distinct *= column == null ? Double.NaN : Math.max(1, column.getCountDistint());
        hasColumn = true;
      }
    }
    return hasColumn ? Math.min(1, count / distinct) : Double.NaN;
  }

  private static List<ExprNodeDesc> fields(ExprNodeDesc operand) {
    boolean isStruct = operand instanceof ExprNodeGenericFuncDesc
        && ((ExprNodeGenericFuncDesc) operand).getGenericUDF() instanceof GenericUDFStruct;
    return isStruct ? operand.getChildren() : Collections.singletonList(operand);
  }

  private double between(ExprNodeDesc value, ExprNodeDesc low, ExprNodeDesc high) {
    ColStatistics column = column(value);
    if (column == null || column.getRange() == null || column.getRange().minValue == null
        || column.getRange().maxValue == null) {
      return Double.NaN;
    }
    double least = column.getRange().minValue.doubleValue();
    double most = column.getRange().maxValue.doubleValue();
    double from = low == null ? least : Math.max(least, number(low));
    double until = high == null ? most : Math.min(most, number(high));
    return Math.min(1, Math.max(0, until - from + 1) / Math.max(1, most - least + 1));
  }

  /** Days, for dates: so their bounds are given. */
  private static double number(ExprNodeDesc constant) {
    Object value = constant instanceof ExprNodeConstantDesc ? ((ExprNodeConstantDesc) constant).getValue() : null;
    if (value instanceof Date) {
      return ((Date) value).toEpochDay();
    }
    return value instanceof Number ? ((Number) value).doubleValue() : Double.NaN;
  }

  private ColStatistics column(ExprNodeDesc node) {
    return node instanceof ExprNodeColumnDesc ? columns.get(((ExprNodeColumnDesc) node).getColumn()) : null;
  }
}
