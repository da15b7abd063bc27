package hudicatalog.trino;

import static io.trino.spi.expression.StandardFunctions.AND_FUNCTION_NAME;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.expression.Call;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.Constant;
import io.trino.spi.expression.FieldDereference;
import io.trino.spi.expression.FunctionName;
import io.trino.spi.expression.Variable;
import io.trino.spi.type.RowType;
import io.trino.spi.type.Type;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Trino's filters that are no ranges of columns, as JSON for the service; docs/reference/connector.md describes it.
 *
 * <p>The engine checks each row by them again, so that those which are too long to send are left out.
 */
final class Conditions {
  private static final int DEEPEST = 100;
  private static final int LONGEST = 100_000;
  private static final int MOST = 50;
  /** What Trino 483 adds for itself to the conjuncts, which say the same; plugins are to leave it alone. */
  private static final FunctionName OF_ENGINE = new FunctionName("$engine_expression");

  private Conditions() {}

  /**
   * The conjuncts of an expression beside those that are known already.
   *
   * @param known as an earlier call returned them
   * @param columns by the names of variables
   */
  static List<String> joined(List<String> known, ConnectorExpression expression, Map<String, ColumnHandle> columns) {
    Set<String> all = new LinkedHashSet<>(known);
    for (ConnectorExpression conjunct : conjuncts(expression)) {
      String text = text(json(conjunct, columns, 0));
      if (all.size() < MOST && text.length() <= LONGEST) {
        all.add(text);
      }
    }
    return List.copyOf(all);
  }

  private static List<ConnectorExpression> conjuncts(ConnectorExpression expression) {
    if (expression.equals(Constant.TRUE)) {
      return List.of();
    }
    if (!(expression instanceof Call call && call.getFunctionName().equals(AND_FUNCTION_NAME))) {
      boolean isOpaque = expression instanceof Call other && other.getFunctionName().equals(OF_ENGINE);
      return isOpaque ? List.of() : List.of(expression);
    }
    List<ConnectorExpression> all = new ArrayList<>();
    call.getArguments().forEach(one -> all.addAll(conjuncts(one)));
    return all;
  }

  /** Conditions as the array of a request. */
  static ArrayNode json(List<String> conditions) {
    ArrayNode array = ServiceClient.object().arrayNode();
    conditions.forEach(one -> array.add(ServiceClient.tree(one)));
    return array;
  }

  private static ObjectNode json(ConnectorExpression expression, Map<String, ColumnHandle> columns, int depth) {
    ObjectNode out = ServiceClient.object().put("type", expression.getType().getDisplayName());
    if (depth > DEEPEST) {
      return out.put("unknown", "a condition that is too deep");
    }
    switch (expression) {
      case Constant constant -> {
        if (constant.getValue() == null) {
          out.putNull("value");
        } else {
          Domains.literal(constant.getType(), constant.getValue())
              .ifPresentOrElse(value -> out.putPOJO("value", value), () -> out.put("unknown", "a literal"));
        }
      }
      case Variable variable -> put(out, (HudiColumn) columns.get(variable.getName()));
      case FieldDereference field ->
          out.put("field", field.getField()).set("of", json(field.getTarget(), columns, depth + 1));
      case Call call when call.getFunctionName().getCatalogSchema().isEmpty() -> {
        ArrayNode arguments = out.put("call", call.getFunctionName().getName()).putArray("args");
        call.getArguments().forEach(one -> arguments.add(json(one, columns, depth + 1)));
      }
      default -> out.put("unknown", "a function that is not Trino's own");
    }
    return out;
  }

  private static void put(ObjectNode out, HudiColumn column) {
    if (column.isWhole()) {
      out.put("column", column.root());
    } else if (column.holdsData()) { // its innermost field, of a column of all others
      int last = column.path().size() - 1;
      Type around = column.rootType();
      for (int number : column.path().subList(0, last)) {
        around = ((RowType) around).getFields().get(number).getType();
      }
      ObjectNode of = ServiceClient.object().put("type", around.getDisplayName());
      put(of, new HudiColumn(column.root(), column.rootType(), column.path().subList(0, last), around, column.kind()));
      out.put("field", column.path().get(last)).set("of", of);
    } else {
      out.put("unknown", column.name() + " is no column of the table");
    }
  }

  private static String text(ObjectNode node) {
    try {
      return ServiceClient.JSON.writeValueAsString(node);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }
}
