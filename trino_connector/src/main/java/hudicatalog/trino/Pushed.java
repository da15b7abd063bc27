package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;

/**
 * What of a query beside its filter the service plans with, or has answered.
 *
 * @param limit rows that are taken, 0 for all; the engine counts them again
 * @param order column by which they are sorted before, empty for none
 * @param answered columns of the one row that the scan has: aggregates that statistics answered; empty for none
 * @param values of this row, as JSON
 */
public record Pushed(long limit, String order, boolean ascending, boolean nullsFirst, List<HudiColumn> answered,
    String values) {
  static final Pushed NONE = new Pushed(0, "", true, false, List.of(), "[]");

  static Pushed limit(long count) {
    return new Pushed(count, "", true, false, List.of(), "[]");
  }

  static Pushed answer(List<HudiColumn> columns, String values) {
    return new Pushed(0, "", true, false, columns, values);
  }

  boolean isNone() {
    return equals(NONE);
  }

  void put(ObjectNode request) {
    if (limit > 0) {
      request.put("limit", limit);
    }
    if (!order.isEmpty()) {
      request.putObject("order").put("column", order).put("ascending", ascending).put("nulls_first", nullsFirst);
    }
  }
}
