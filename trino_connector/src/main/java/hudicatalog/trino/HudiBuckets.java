package hudicatalog.trino;

import io.trino.spi.type.Type;
import java.util.List;

/**
 * The buckets by which a table is read, where the engine asked for it.
 *
 * @param count of the table's buckets
 * @param used of those that the engine knows; it divides the count
 * @param columns that are hashed, in this order
 */
public record HudiBuckets(int count, int used, List<HudiColumn> columns) {
  HudiBuckets with(int other) {
    return new HudiBuckets(count, other, columns);
  }

  List<Type> types() {
    return columns.stream().map(HudiColumn::type).toList();
  }

  HudiPartitioning partitioning() {
    return new HudiPartitioning(used, types());
  }
}
