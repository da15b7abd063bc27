package hudicatalog.hive;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.hive.ql.exec.FilterOperator;
import org.apache.hadoop.hive.ql.exec.JoinOperator;
import org.apache.hadoop.hive.ql.exec.Operator;
import org.apache.hadoop.hive.ql.exec.ReduceSinkOperator;
import org.apache.hadoop.hive.ql.exec.TableScanOperator;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDynamicListDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDynamicValueDesc;

/**
 * Joins that a query has several times: of the same tables, with the same keys and conditions, as where it names a
 * subquery twice. Hive's SharedWorkOptimizer computes them once.
 */
final class RepeatedJoins {
  /** Numbers of what was met: equal descriptions have equal numbers. */
  private final Map<List<Object>, Integer> numbers = new HashMap<>();

  private final Map<Operator<?>, Integer> described = new IdentityHashMap<>();

  private RepeatedJoins() {}

  /** How often the query of an operator has the join that it sends rows to; 1 where it sends them elsewhere. */
  static int count(Operator<?> sender) {
    if (sender.getNumChild() != 1 || !(sender.getChildOperators().get(0) instanceof JoinOperator)) {
      return 1;
    }
    RepeatedJoins joins = new RepeatedJoins();
    int wanted = joins.number(sender.getChildOperators().get(0));
    int count = 0;
    for (Operator<?> operator : connected(sender)) {
      if (operator instanceof JoinOperator && joins.number(operator) == wanted) {
        count++;
      }
    }
    return count;
  }

  /** All operators of a plan. */
  static Iterable<Operator<?>> connected(Operator<?> start) {
    Map<Operator<?>, Boolean> met = new IdentityHashMap<>();
    Deque<Operator<?>> pending = new ArrayDeque<>();
    pending.push(start);
    while (!pending.isEmpty()) {
      Operator<?> operator = pending.pop();
      if (met.put(operator, true) == null) {
        neighbours(operator.getParentOperators()).forEach(pending::push);
        neighbours(operator.getChildOperators()).forEach(pending::push);
      }
    }
    return met.keySet();
  }

  private static <T> List<T> neighbours(List<T> operators) {
    return operators == null ? Collections.emptyList() : operators;
  }

  /** Of an operator and all that it gets rows from. */
  private int number(Operator<?> operator) {
    Integer known = described.get(operator);
    if (known == null) {
      List<Object> description = new ArrayList<>();
      description.add(operator.getName());
      description.addAll(own(operator));
      for (Operator<?> parent : neighbours(operator.getParentOperators())) {
        description.add(number(parent));
      }
      known = numbers.computeIfAbsent(description, unused -> numbers.size());
      described.put(operator, known);
    }
    return known;
  }

  private static List<String> own(Operator<?> operator) {
    List<String> own = new ArrayList<>();
    if (operator instanceof TableScanOperator) {
      own.add(((TableScanOperator) operator).getConf().getTableMetadata().getFullyQualifiedName());
    } else if (operator instanceof ReduceSinkOperator) {
      ((ReduceSinkOperator) operator).getConf().getKeyCols().forEach(key -> own.add(key.getExprString()));
    } else if (operator instanceof FilterOperator) {
      fixedConditions((FilterOperator) operator).stream().filter(condition -> !KnownValues.isAdded(condition))
          .forEach(condition -> own.add(condition.getExprString()));
      Collections.sort(own);
    }
    return own;
  }

  /** Those that need no values of other operators, which Hive replaces by `true` one after the other. */
  static List<ExprNodeDesc> fixedConditions(FilterOperator filter) {
    return Selectivity.conjuncts(filter.getConf().getPredicate()).stream().filter(RepeatedJoins::isFixed)
        .collect(Collectors.toList());
  }

  private static boolean isFixed(ExprNodeDesc condition) {
    if (condition instanceof ExprNodeDynamicListDesc || condition instanceof ExprNodeDynamicValueDesc) {
      return false;
    }
    boolean isTrue = condition instanceof ExprNodeConstantDesc
        && Boolean.TRUE.equals(((ExprNodeConstantDesc) condition).getValue());
    return !isTrue && neighbours(condition.getChildren()).stream().allMatch(RepeatedJoins::isFixed);
  }
}
