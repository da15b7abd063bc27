package hudicatalog.trino;

import com.fasterxml.jackson.databind.JsonNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorPartitioningHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTablePartitioning;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Says by which buckets tables may be joined and grouped, where the engine asks for it.
 *
 * <p>Said unasked, each scan would run in as many tasks as there are buckets, and splits could not wait for the values
 * of a broadcast join. Used by one thread at a time.
 */
final class Bucketing {
  private final ServiceClient service;
  private final Map<List<Object>, Optional<HudiBuckets>> known = new HashMap<>();

  Bucketing(ServiceClient service) {
    this.service = service;
  }

  /** What a table that was asked for its buckets tells of them. */
  static Optional<ConnectorTablePartitioning> of(HudiTable table) {
    return table.buckets().map(buckets ->
        new ConnectorTablePartitioning(buckets.partitioning(), List.copyOf(buckets.columns())));
  }

  /**
   * The table read by buckets; none if its buckets are no answer to what is asked.
   *
   * @param wanted the rule that its own has to agree with; none for any rule over some of the columns
   * @param all columns of the table
   */
  Optional<ConnectorTableHandle> apply(ConnectorSession session, HudiTable table,
      Optional<ConnectorPartitioningHandle> wanted, List<ColumnHandle> columns, Map<String, ColumnHandle> all) {
    if (!SessionOptions.isBucketed(session) || !table.pushed().answered().isEmpty()) {
      return Optional.empty();
    }
    Optional<HudiBuckets> buckets = known.computeIfAbsent(List.of(table.name(), table.pin(), table.queryType()),
        _ -> ask(session, table, all));
    if (wanted.isEmpty()) {
      return buckets.filter(own -> columns.containsAll(own.columns())).map(table::with);
    }
    if (!(wanted.get() instanceof HudiPartitioning rule)) {
      return Optional.empty();
    }
    // With fewer buckets than are asked for the engine then asks the other side for as many.
    return buckets
        .filter(own -> isDivisible(own.count(), rule.buckets()) && own.types().equals(rule.types())
            && columns.equals(own.columns()))
        .map(own -> table.with(own.with(Math.min(own.count(), rule.buckets()))));
  }

  private static boolean isDivisible(int one, int two) {
    return Math.max(one, two) % Math.min(one, two) == 0;
  }

  private Optional<HudiBuckets> ask(ConnectorSession session, HudiTable table, Map<String, ColumnHandle> all) {
    JsonNode answer = service.ask("hudiBuckets", table.request(session.getQueryId()));
    List<HudiColumn> columns = new ArrayList<>();
    for (JsonNode name : answer.path("columns")) {
      if (!(all.get(name.asText()) instanceof HudiColumn column) || !BucketHash.isHashed(column.type())) {
        return Optional.empty();
      }
      columns.add(column);
    }
    int count = answer.path("count").asInt();
    return columns.isEmpty() || count < 1 ? Optional.empty() : Optional.of(new HudiBuckets(count, count, columns));
  }

  /** Of counts one of which divides the other the smaller one: {@code hash % 8 % 4} is {@code hash % 4}. */
  static Optional<ConnectorPartitioningHandle> common(ConnectorPartitioningHandle left,
      ConnectorPartitioningHandle right) {
    if (!(left instanceof HudiPartitioning one && right instanceof HudiPartitioning two)
        || !one.types().equals(two.types())) {
      return Optional.empty();
    }
    return isDivisible(one.buckets(), two.buckets())
        ? Optional.of(one.buckets() <= two.buckets() ? one : two)
        : Optional.empty();
  }
}
