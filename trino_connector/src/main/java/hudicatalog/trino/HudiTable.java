package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.SchemaTableName;
import io.trino.spi.predicate.TupleDomain;
import java.util.List;
import java.util.Optional;

/**
 * A table in a query.
 *
 * @param pin of the snapshot, chosen when the name was resolved, so that all phases of a query see one
 * @param instant of the snapshot, for people
 * @param constraint that the service knows; the engine applies it again
 * @param conditions that the service knows, as JSON; the engine applies them again
 * @param pushed what else the service plans with
 * @param buckets by which it is read, where the engine asked for that
 */
public record HudiTable(SchemaTableName name, String pin, String instant, String queryType, TupleDomain<HudiColumn> constraint,
    List<String> conditions, Pushed pushed, Optional<HudiBuckets> buckets) implements ConnectorTableHandle {
  HudiTable with(TupleDomain<HudiColumn> domains, List<String> others) {
    return new HudiTable(name, pin, instant, queryType, domains, others, pushed, buckets);
  }

  HudiTable with(Pushed other) {
    return new HudiTable(name, pin, instant, queryType, constraint, conditions, other, buckets);
  }

  HudiTable with(HudiBuckets other) {
    return new HudiTable(name, pin, instant, queryType, constraint, conditions, pushed, Optional.of(other));
  }

  HudiTable withoutBuckets() {
    return new HudiTable(name, pin, instant, queryType, constraint, conditions, pushed, Optional.empty());
  }

  /** The members of a request that name the table and its snapshot. */
  ObjectNode request(String queryId) {
    return ServiceClient.object().put("schema", name.getSchemaName()).put("table", name.getTableName())
        .put("pin", pin).put("query_type", queryType).put("query", queryId);
  }

  /** The members of a request that name the table, and the filter that all rows pass which the engine wants. */
  ObjectNode request(String queryId, List<TupleDomain<HudiColumn>> domains) {
    ObjectNode request = request(queryId);
    request.set("domains", Domains.json(domains));
    if (!conditions.isEmpty()) {
      request.set("conditions", Conditions.json(conditions));
    }
    return request;
  }

  @Override
  public String toString() {
    return name + "@" + instant;
  }
}
