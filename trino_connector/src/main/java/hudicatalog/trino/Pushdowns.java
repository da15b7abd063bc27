package hudicatalog.trino;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.AggregateFunction;
import io.trino.spi.connector.AggregationApplicationResult;
import io.trino.spi.connector.Assignment;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.LimitApplicationResult;
import io.trino.spi.connector.ProjectionApplicationResult;
import io.trino.spi.connector.SortItem;
import io.trino.spi.connector.TopNApplicationResult;
import io.trino.spi.expression.Call;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.FieldDereference;
import io.trino.spi.expression.Variable;
import io.trino.spi.type.RowType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** What of a query beside its filter reaches the service: limits, orders, aggregates, fields of rows. */
final class Pushdowns {
  private static final Set<String> AGGREGATES = Set.of("count", "min", "max");

  private final ServiceClient service;

  Pushdowns(ServiceClient service) {
    this.service = service;
  }

  /** Files beyond the first rows are not read; each call but the first changes nothing. */
  Optional<LimitApplicationResult<ConnectorTableHandle>> limit(HudiTable table, long limit) {
    boolean isKnown = !table.pushed().isNone() && (table.pushed().limit() <= limit || !table.pushed().order().isEmpty()
        || !table.pushed().answered().isEmpty());
    return isKnown || limit <= 0 ? Optional.empty()
        : Optional.of(new LimitApplicationResult<>(table.with(Pushed.limit(limit)), false, false));
  }

  /** Files that cannot have the first rows of an order are not read. */
  Optional<TopNApplicationResult<ConnectorTableHandle>> topN(HudiTable table, long count, List<SortItem> items,
      Map<String, ColumnHandle> assignments) {
    HudiColumn first = (HudiColumn) assignments.get(items.getFirst().getName());
    if (!table.pushed().isNone() || count <= 0 || !first.isWhole()) {
      return Optional.empty();
    }
    Pushed pushed = new Pushed(count, first.name(), items.getFirst().getSortOrder().isAscending(),
        items.getFirst().getSortOrder().isNullsFirst(), List.of(), "[]");
    return Optional.of(new TopNApplicationResult<>(table.with(pushed), false, false));
  }

  /** Aggregates over the whole table, where statistics give all of them for certain. */
  Optional<AggregationApplicationResult<ConnectorTableHandle>> aggregation(ConnectorSession session, HudiTable table,
      List<AggregateFunction> aggregates, Map<String, ColumnHandle> assignments, List<List<ColumnHandle>> groups) {
    if (!groups.equals(List.of(List.of())) || aggregates.isEmpty() || !table.pushed().isNone()
        || !table.queryType().equals("snapshot") || !table.constraint().getDomains().orElse(Map.of()).keySet().stream()
            .allMatch(HudiColumn::isWhole) || !table.conditions().isEmpty()) {
      return Optional.empty();
    }
    ObjectNode request = table.request(session.getQueryId(), List.of(table.constraint()));
    ArrayNode functions = request.putArray("aggregates");
    for (AggregateFunction aggregate : aggregates) {
      if (!put(functions.addObject(), aggregate, assignments)) {
        return Optional.empty();
      }
    }
    JsonNode values = service.ask("hudiAggregates", request).path("values");
    if (!values.isArray() || values.size() != aggregates.size()) {
      return Optional.empty();
    }
    List<HudiColumn> columns = new ArrayList<>();
    List<ConnectorExpression> projections = new ArrayList<>();
    List<Assignment> made = new ArrayList<>();
    for (AggregateFunction aggregate : aggregates) {
      String name = "$aggregate_" + columns.size();
      HudiColumn column = HudiColumn.of(name, aggregate.getOutputType(), HudiColumn.Kind.ANSWER);
      columns.add(column);
      projections.add(new Variable(name, aggregate.getOutputType()));
      made.add(new Assignment(name, column, aggregate.getOutputType()));
    }
    HudiTable answered = table.withoutBuckets().with(Pushed.answer(columns, values.toString()));
    return Optional.of(new AggregationApplicationResult<>(answered, projections, made, Map.of(), false));
  }

  private static boolean put(ObjectNode out, AggregateFunction aggregate, Map<String, ColumnHandle> assignments) {
    boolean isPlain = AGGREGATES.contains(aggregate.getFunctionName()) && aggregate.getFilter().isEmpty()
        && !aggregate.isDistinct() && aggregate.getSortItems().isEmpty() && aggregate.getArguments().size() <= 1;
    if (!isPlain) {
      return false;
    }
    out.put("function", aggregate.getFunctionName());
    if (aggregate.getArguments().isEmpty()) {
      return aggregate.getFunctionName().equals("count");
    }
    if (!(aggregate.getArguments().getFirst() instanceof Variable variable)
        || !(assignments.get(variable.getName()) instanceof HudiColumn column) || !column.isWhole()) {
      return false;
    }
    out.put("column", column.name());
    return true;
  }

  /** Single fields of rows as columns of their own, so that only they are read. */
  static Optional<ProjectionApplicationResult<ConnectorTableHandle>> projection(HudiTable table,
      List<ConnectorExpression> projections, Map<String, ColumnHandle> assignments) {
    Map<String, Assignment> made = new LinkedHashMap<>();
    boolean[] changed = {false};
    List<ConnectorExpression> rewritten =
        projections.stream().map(one -> rewritten(one, assignments, made, changed)).toList();
    return changed[0] && table.pushed().answered().isEmpty()
        ? Optional.of(new ProjectionApplicationResult<>(table, rewritten, List.copyOf(made.values()), false))
        : Optional.empty();
  }

  private static ConnectorExpression rewritten(ConnectorExpression expression, Map<String, ColumnHandle> assignments,
      Map<String, Assignment> made, boolean[] changed) {
    Optional<HudiColumn> field = expression instanceof FieldDereference ? field(expression, assignments) : Optional.empty();
    if (field.isPresent()) {
      changed[0] = true;
      String name = nameOf(field.get(), assignments);
      made.put(name, new Assignment(name, field.get(), expression.getType()));
      return new Variable(name, expression.getType());
    }
    return switch (expression) {
      case Variable variable -> {
        made.put(variable.getName(),
            new Assignment(variable.getName(), assignments.get(variable.getName()), variable.getType()));
        yield variable;
      }
      case FieldDereference one -> new FieldDereference(one.getType(),
          rewritten(one.getTarget(), assignments, made, changed), one.getField());
      case Call call -> new Call(call.getType(), call.getFunctionName(),
          call.getArguments().stream().map(one -> rewritten(one, assignments, made, changed)).toList());
      default -> expression;
    };
  }

  /** The variable that a column has already, for a scan gives each column once; else the column's own name. */
  private static String nameOf(HudiColumn column, Map<String, ColumnHandle> assignments) {
    return assignments.entrySet().stream().filter(one -> one.getValue().equals(column)).map(Map.Entry::getKey)
        .findFirst().orElse(column.name());
  }

  private static Optional<HudiColumn> field(ConnectorExpression expression, Map<String, ColumnHandle> assignments) {
    if (expression instanceof Variable variable) {
      return Optional.of((HudiColumn) assignments.get(variable.getName())).filter(HudiColumn::holdsData);
    }
    return expression instanceof FieldDereference one && one.getTarget().getType() instanceof RowType
        ? field(one.getTarget(), assignments).map(column -> column.field(one.getField())) : Optional.empty();
  }
}
