package hudicatalog.trino;

import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.type.RowType;
import io.trino.spi.type.Type;
import java.util.ArrayList;
import java.util.List;

/**
 * A column: of the table, or one that says something of the file that a row comes from.
 *
 * @param root name of the table's column
 * @param rootType its type
 * @param path numbers of fields, from the column inward; empty for the whole column
 * @param type of the values
 */
public record HudiColumn(String root, Type rootType, List<Integer> path, Type type, Kind kind) implements ColumnHandle {
  public enum Kind {
    /** Of the table, or a field of it. */
    DATA,
    /** {@code $path}: the base file. */
    PATH,
    /** {@code $file_size}: its bytes. */
    FILE_SIZE,
    /** {@code $partition}: the partition's path. */
    PARTITION,
    /** An aggregate that statistics answered. */
    ANSWER
  }

  static HudiColumn of(String name, Type type, Kind kind) {
    return new HudiColumn(name, type, List.of(), type, kind);
  }

  /** A field of this column, which is a row. */
  HudiColumn field(int number) {
    List<Integer> longer = new ArrayList<>(path);
    longer.add(number);
    return new HudiColumn(root, rootType, List.copyOf(longer), ((RowType) type).getFields().get(number).getType(), kind);
  }

  /** Different for different columns; of a column of the table its name. */
  String name() {
    StringBuilder text = new StringBuilder(root);
    path.forEach(number -> text.append('#').append(number));
    return text.toString();
  }

  boolean holdsData() {
    return kind == Kind.DATA;
  }

  /** Whether it is a column of the table, not one of its fields. */
  boolean isWhole() {
    return kind == Kind.DATA && path.isEmpty();
  }

  @Override
  public String toString() {
    return name() + ":" + type;
  }
}
