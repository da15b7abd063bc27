package hudicatalog.hive;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.exec.FilterOperator;
import org.apache.hadoop.hive.ql.exec.Operator;
import org.apache.hadoop.hive.ql.exec.TableScanOperator;
import org.apache.hadoop.hive.ql.parse.ASTNode;
import org.apache.hadoop.hive.ql.parse.SemanticException;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.plan.TableScanDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFIn;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPAnd;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The values of a join's other side, read while the query is compiled, as constants in the filter of the scan that they
 * prune.
 *
 * <p>Nothing waits for them then, and scans that are alike stay so: Hive reads the table once for all of them. They are
 * in the filter of rows, too, since Hive makes one scan of two whose filters of rows are the same, and then takes one's
 * filter of files for both.
 */
final class KnownValues {
  private static final Logger LOG = LoggerFactory.getLogger(KnownValues.class);

  private static final Set<String> TYPES =
      new HashSet<>(Arrays.asList("tinyint", "smallint", "int", "bigint", "date", "string"));

  private KnownValues() {}

  /**
   * Adds {@code column IN (constants)} to the filter of a scan, and to that of its rows.
   *
   * @param predicate {@code column IN (values of an operator)}, in the filter above the scan
   * @param side what the operator gets its rows from
   * @return whether that was done; else the values are not known
   */
  static boolean added(Configuration hive, ExprNodeDesc predicate, OtherSide side) {
    ExprNodeColumnDesc column = (ExprNodeColumnDesc) predicate.getChildren().get(0);
    FilterOperator filter = filterWith(predicate, side.scan);
    if (filter == null || !(side.table().getStorageHandler() instanceof HudiStorageHandler)
        || !column.getTypeInfo().equals(side.key.getTypeInfo()) || !TYPES.contains(column.getTypeString())
        || runsAgain(hive)) {
      return false;
    }
    List<String> values;
    try {
      values = values(hive, side);
    } catch (IOException e) {
      LOG.warn("{}: the values of {} are not known", side.table().getFullyQualifiedName(), side.key.getColumn(), e);
      return false;
    }
    if (values == null) {
      return false;
    }
    try {
      ExprNodeGenericFuncDesc known = in(column, values);
      TableScanDesc scan = ((TableScanOperator) filter.getParentOperators().get(0)).getConf();
      ExprNodeGenericFuncDesc files = scan.getFilterExpr() == null ? known : all(Arrays.asList(scan.getFilterExpr(), known));
      add(filter.getConf().getPredicate(), known);
      scan.setFilterExpr(files);
    } catch (SemanticException e) {
      LOG.warn("{}: values of {} make no filter", side.table().getFullyQualifiedName(), side.key.getColumn(), e);
      return false;
    }
    return true;
  }

  /** A plan of PREPARE is kept for later states of the tables. */
  private static boolean runsAgain(Configuration hive) {
    ASTNode statement = LikeStatement.parsed(HiveConf.getQueryString(hive));
    return statement == null || statement.getText().equals("TOK_PREPARE");
  }

  /** The filter above a scan that has a condition among those that must all be true. */
  private static FilterOperator filterWith(ExprNodeDesc condition, Operator<?> anywhere) {
    for (Operator<?> operator : RepeatedJoins.connected(anywhere)) {
      if (operator instanceof FilterOperator && operator.getNumParent() == 1
          && operator.getParentOperators().get(0) instanceof TableScanOperator) {
        ExprNodeDesc filter = ((FilterOperator) operator).getConf().getPredicate();
        if (filter != condition && Selectivity.conjuncts(filter).stream().anyMatch(one -> one == condition)) {
          return (FilterOperator) operator;
        }
      }
    }
    return null;
  }

  /** To a conjunction, whose other conditions keep their places: Hive replaces one of them after this. */
  private static void add(ExprNodeDesc conjunction, ExprNodeDesc condition) {
    List<ExprNodeDesc> conditions = new ArrayList<>(conjunction.getChildren());
    conditions.add(condition);
    ((ExprNodeGenericFuncDesc) conjunction).setChildren(conditions);
  }

  /** Whether a condition was added here, which tells nothing of what the query asks; or is written as those are. */
  static boolean isAdded(ExprNodeDesc condition) {
    List<ExprNodeDesc> operands = condition.getChildren();
    if (!(condition instanceof ExprNodeGenericFuncDesc) || operands.size() < 3
        || !(((ExprNodeGenericFuncDesc) condition).getGenericUDF() instanceof GenericUDFIn)) {
      return false;
    }
    ExprNodeDesc last = operands.get(operands.size() - 1);
    return last instanceof ExprNodeConstantDesc && last.isSame(operands.get(1));
  }

  /** The values; null where the service does not tell them, as when there are many. */
  private static List<String> values(Configuration hive, OtherSide side) throws IOException {
    CompiledScan scan = Pins.pinned(hive, side.table());
    ScanRequest request = new ScanRequest(scan, scan.queryId, scan.pin);
    request.columns = Collections.singletonList(side.key.getColumn());
    request.inZone(TimeZone.getDefault());
    if (!side.conditions.isEmpty()) {
      request.filter = FilterJson.of(side.conditions.size() == 1 ? side.conditions.get(0) : all(side.conditions));
      if (request.filter == null) {
        return null;
      }
    }
    return new ServiceClient(hive, scan).values(request);
  }

  private static ExprNodeGenericFuncDesc all(List<ExprNodeDesc> conditions) {
    return new ExprNodeGenericFuncDesc(TypeInfoFactory.booleanTypeInfo, new GenericUDFOPAnd(), conditions);
  }

  /** The first value comes again at the end, by which {@link #isAdded} knows the condition. */
  static ExprNodeGenericFuncDesc in(ExprNodeColumnDesc column, List<String> values) throws SemanticException {
    List<ExprNodeDesc> operands = new ArrayList<>();
    operands.add(column);
    for (String value : values) {
      operands.add(new ExprNodeConstantDesc(column.getTypeInfo(), constant(column.getTypeInfo(), value)));
    }
    if (values.isEmpty()) {
      operands.add(new ExprNodeConstantDesc(column.getTypeInfo(), null));
    }
    operands.add(operands.get(1));
    return ExprNodeGenericFuncDesc.newInstance(new GenericUDFIn(), operands);
  }

  /** A value as Hive has it in plans. */
  private static Object constant(TypeInfo type, String text) {
    switch (type.getTypeName()) {
      case "tinyint":
        return Byte.valueOf(text);
      case "smallint":
        return Short.valueOf(text);
      case "int":
        return Integer.valueOf(text);
      case "bigint":
        return Long.valueOf(text);
      case "date":
        return Date.valueOf(text);
      default:
        return text;
    }
  }
}
