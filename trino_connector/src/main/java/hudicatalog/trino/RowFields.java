package hudicatalog.trino;

import io.trino.spi.block.Block;
import io.trino.spi.block.RowBlock;
import io.trino.spi.type.RowType;
import io.trino.spi.type.Type;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Single fields of rows: what is read of a column for them, and where they are in it. */
final class RowFields {
  private RowFields() {}

  /** The values of a field, null where a row around it is. */
  static Block of(Block block, List<Integer> path) {
    Block values = block;
    for (int number : path) {
      values = RowBlock.getRowFieldsFromBlock(values).get(number); // a null row has null fields
    }
    return values;
  }

  /**
   * The type with the fields that are asked for alone.
   *
   * @param paths of fields; an empty one asks for the whole
   */
  static Type pruned(Type type, List<List<Integer>> paths) {
    if (!(type instanceof RowType row) || paths.stream().anyMatch(List::isEmpty)) {
      return type;
    }
    List<RowType.Field> fields = new ArrayList<>();
    inner(paths).forEach((number, rest) -> {
      RowType.Field field = row.getFields().get(number);
      fields.add(new RowType.Field(field.getName(), pruned(field.getType(), rest)));
    });
    return RowType.from(fields);
  }

  /** Where a field is in the pruned type. */
  static List<Integer> place(Type type, List<List<Integer>> paths, List<Integer> path) {
    if (path.isEmpty() || !(type instanceof RowType row) || paths.stream().anyMatch(List::isEmpty)) {
      return path;
    }
    Map<Integer, List<List<Integer>>> inner = inner(paths);
    int number = path.getFirst();
    List<Integer> place = new ArrayList<>();
    place.add(List.copyOf(inner.keySet()).indexOf(number));
    place.addAll(place(row.getFields().get(number).getType(), inner.get(number), path.subList(1, path.size())));
    return place;
  }

  /** Paths that go on below each field. */
  static Map<Integer, List<List<Integer>>> inner(List<List<Integer>> paths) {
    Map<Integer, List<List<Integer>>> inner = new LinkedHashMap<>();
    for (List<Integer> path : paths) {
      inner.computeIfAbsent(path.getFirst(), _ -> new ArrayList<>()).add(path.subList(1, path.size()));
    }
    return inner;
  }
}
