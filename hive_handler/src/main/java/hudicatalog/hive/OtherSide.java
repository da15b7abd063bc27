package hudicatalog.hive;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hive.ql.exec.FilterOperator;
import org.apache.hadoop.hive.ql.exec.Operator;
import org.apache.hadoop.hive.ql.exec.ReduceSinkOperator;
import org.apache.hadoop.hive.ql.exec.TableScanOperator;
import org.apache.hadoop.hive.ql.metadata.Table;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDescUtils;
import org.apache.hadoop.hive.ql.plan.ExprNodeDynamicListDesc;

/** The other side of a join, where all of its values are those of a column of one table. */
final class OtherSide {
  final TableScanOperator scan;
  final ExprNodeColumnDesc key;
  /** Those that stand right above the scan; there may be others, which leave out more values. */
  final List<ExprNodeDesc> conditions;

  private OtherSide(TableScanOperator scan, ExprNodeColumnDesc key, List<ExprNodeDesc> conditions) {
    this.scan = scan;
    this.key = key;
    this.conditions = conditions;
  }

  Table table() {
    return scan.getConf().getTableMetadata();
  }

  /** Of values that an operator sends; null where rows of several operators meet, or the values are computed. */
  static OtherSide of(ExprNodeDynamicListDesc list) {
    ReduceSinkOperator sender = (ReduceSinkOperator) list.getSource();
    ExprNodeDescUtils.ColumnOrigin key =
        ExprNodeDescUtils.findColumnOrigin(sender.getConf().getKeyCols().get(list.getKeyIndex()), sender);
    List<ExprNodeDesc> conditions = new ArrayList<>();
    Operator<?> operator = sender;
    while (!(operator instanceof TableScanOperator)) {
      if (operator.getNumParent() != 1) {
        return null;
      }
      Operator<?> parent = operator.getParentOperators().get(0);
      if (operator instanceof FilterOperator && parent instanceof TableScanOperator) {
        conditions.addAll(RepeatedJoins.fixedConditions((FilterOperator) operator));
      }
      operator = parent;
    }
    return key == null || key.op != operator ? null : new OtherSide((TableScanOperator) operator, key.col, conditions);
  }
}
