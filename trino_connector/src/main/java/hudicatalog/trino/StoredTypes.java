package hudicatalog.trino;

import io.trino.spi.type.ArrayType;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.DateType;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.MapType;
import io.trino.spi.type.RealType;
import io.trino.spi.type.RowType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TimeType;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.VarbinaryType;
import io.trino.spi.type.VarcharType;
import java.util.List;
import java.util.Optional;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DateLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.EnumLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.StringLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;

/**
 * What Trino's Parquet reader does with a column of a file that has another type than the table's.
 *
 * <p>Of other pairs than these, it refuses most, and reads some wrongly without an error: unsigned numbers wrap,
 * decimals of a smaller scale are rounded. The service reads such files.
 */
final class StoredTypes {
  private StoredTypes() {}

  /** Whether the reader gives the values that the table has. */
  static boolean isReadable(io.trino.spi.type.Type wanted, Type stored) {
    return switch (wanted) {
      case RowType row -> isReadableRow(row, stored);
      case ArrayType array -> element(stored).filter(one -> isReadable(array.getElementType(), one)).isPresent();
      case MapType map -> keyValue(stored).filter(entry -> isReadable(map.getKeyType(), entry.getType(0))
          && isReadable(map.getValueType(), entry.getType(1))).isPresent();
      default -> stored.isPrimitive() && !stored.isRepetition(Type.Repetition.REPEATED)
          && isReadable(wanted, stored.asPrimitiveType());
    };
  }

  /**
   * Whether the reader gives the values of some fields of a row.
   *
   * <p>A field is null where the file lacks it, or a row around it is null: rows that are only on the way to fields may
   * lack all of them.
   *
   * @param paths numbers of fields from the row inward; an empty one is the row itself
   */
  static boolean isReadable(io.trino.spi.type.Type wanted, Type stored, List<List<Integer>> paths) {
    if (!(wanted instanceof RowType row) || paths.stream().anyMatch(List::isEmpty)) {
      return isReadable(wanted, stored);
    }
    if (!isGroup(stored)) {
      return false;
    }
    return RowFields.inner(paths).entrySet().stream().allMatch(entry -> {
      RowType.Field field = row.getFields().get(entry.getKey());
      return field(stored.asGroupType(), field.getName().orElse(""))
          .map(one -> isReadable(field.getType(), one, entry.getValue())).orElse(true);
    });
  }

  private static boolean isGroup(Type stored) {
    return !stored.isPrimitive() && !stored.isRepetition(Type.Repetition.REPEATED)
        && stored.getLogicalTypeAnnotation() == null;
  }

  /**
   * Whether statistics in the file may be compared with values of the table's type.
   *
   * <p>The reader also compares other pairs, such as decimals of two scales, digits with digits: rows go missing.
   *
   * @param wanted of a column that {@link #isReadable}
   */
  static boolean isComparable(io.trino.spi.type.Type wanted, PrimitiveType stored) {
    return switch (wanted) {
      case VarcharType _ -> isText(stored.getLogicalTypeAnnotation());
      case VarbinaryType _, TimeType _ -> false; // not worth a rule of their own
      case TimestampType type -> type.isShort();
      case TimestampWithTimeZoneType type -> type.isShort();
      default -> true;
    };
  }

  /**
   * Whether Parquet's Bloom filters of the file may be asked for values of the table's type.
   *
   * <p>The reader hashes a value as the table has it: a long has other bytes than the file's int, and 0.0 than the -0.0
   * that it equals. Rows would go missing.
   *
   * @param wanted of a column that {@link #isComparable}
   */
  static boolean isHashedAlike(io.trino.spi.type.Type wanted, PrimitiveType stored) {
    return switch (wanted) {
      case BigintType _ -> stored.getPrimitiveTypeName() == PrimitiveTypeName.INT64;
      case RealType _ -> false;
      case DoubleType _ -> false;
      default -> true;
    };
  }

  private static boolean isReadable(io.trino.spi.type.Type wanted, PrimitiveType stored) {
    LogicalTypeAnnotation annotation = stored.getLogicalTypeAnnotation();
    PrimitiveTypeName physical = stored.getPrimitiveTypeName();
    return switch (wanted) {
      case BooleanType _ -> physical == PrimitiveTypeName.BOOLEAN;
      case TinyintType _ -> isWhole(stored, 8);
      case SmallintType _ -> isWhole(stored, 16);
      case IntegerType _ -> isWhole(stored, 32);
      case BigintType _ -> isWhole(stored, 64);
      case RealType _ -> physical == PrimitiveTypeName.FLOAT;
      case DoubleType _ -> physical == PrimitiveTypeName.DOUBLE;
      case DateType _ -> annotation instanceof DateLogicalTypeAnnotation;
      case VarcharType _ -> physical == PrimitiveTypeName.BINARY && isText(annotation);
      case VarbinaryType _ -> isBytes(physical) && annotation == null;
      case DecimalType decimal -> physical != PrimitiveTypeName.BINARY
          && annotation instanceof DecimalLogicalTypeAnnotation one
          && one.getScale() == decimal.getScale() && one.getPrecision() <= decimal.getPrecision();
      case TimeType time -> annotation instanceof TimeLogicalTypeAnnotation one
          && digits(one.getUnit()) == time.getPrecision();
      case TimestampType stamp -> annotation instanceof TimestampLogicalTypeAnnotation one
          && !one.isAdjustedToUTC() && digits(one.getUnit()) == stamp.getPrecision();
      case TimestampWithTimeZoneType stamp -> annotation instanceof TimestampLogicalTypeAnnotation one
          && one.isAdjustedToUTC() && digits(one.getUnit()) == stamp.getPrecision()
          && (one.getUnit() != TimeUnit.NANOS || Release.READS_INSTANTS_OF_NANOSECONDS);
      default -> false;
    };
  }

  /** Signed, and of no more bits. */
  private static boolean isWhole(PrimitiveType stored, int bits) {
    LogicalTypeAnnotation annotation = stored.getLogicalTypeAnnotation();
    int width = switch (stored.getPrimitiveTypeName()) {
      case INT32 -> 32;
      case INT64 -> 64;
      default -> Integer.MAX_VALUE;
    };
    if (annotation instanceof IntLogicalTypeAnnotation whole && whole.isSigned()) {
      width = Math.min(width, whole.getBitWidth());
    } else if (annotation != null) {
      return false;
    }
    return width <= bits;
  }

  private static boolean isText(LogicalTypeAnnotation annotation) {
    return annotation instanceof StringLogicalTypeAnnotation || annotation instanceof EnumLogicalTypeAnnotation;
  }

  private static boolean isBytes(PrimitiveTypeName physical) {
    return physical == PrimitiveTypeName.BINARY || physical == PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY;
  }

  private static int digits(TimeUnit unit) {
    return switch (unit) {
      case MILLIS -> 3;
      case MICROS -> 6;
      case NANOS -> 9;
    };
  }

  /** A row of which the file has no field is null for the reader, also where it is there. */
  private static boolean isReadableRow(RowType row, Type stored) {
    if (!isGroup(stored)) {
      return false;
    }
    boolean any = false;
    for (RowType.Field field : row.getFields()) {
      Optional<Type> one = field(stored.asGroupType(), field.getName().orElse(""));
      if (one.isPresent() && !isReadable(field.getType(), one.get())) {
        return false;
      }
      any |= one.isPresent();
    }
    return any;
  }

  private static Optional<Type> field(GroupType group, String name) {
    return group.getFields().stream().filter(field -> field.getName().equalsIgnoreCase(name)).findFirst();
  }

  /** The elements of a list of three levels, or of two as older writers have them. */
  private static Optional<Type> element(Type stored) {
    if (stored.isPrimitive() || stored.isRepetition(Type.Repetition.REPEATED)
        || stored.asGroupType().getFieldCount() != 1) {
      return Optional.empty();
    }
    Type repeated = stored.asGroupType().getType(0);
    if (!repeated.isRepetition(Type.Repetition.REPEATED) || repeated.isPrimitive()) {
      return Optional.empty();
    }
    boolean isElement = repeated.asGroupType().getFieldCount() != 1 || repeated.getName().equals("array")
        || repeated.getName().equals(stored.getName() + "_tuple");
    return isElement ? Optional.empty() : Optional.of(repeated.asGroupType().getType(0));
  }

  private static Optional<GroupType> keyValue(Type stored) {
    if (stored.isPrimitive() || stored.isRepetition(Type.Repetition.REPEATED)
        || stored.asGroupType().getFieldCount() != 1) {
      return Optional.empty();
    }
    Type repeated = stored.asGroupType().getType(0);
    boolean isEntry = repeated.isRepetition(Type.Repetition.REPEATED) && !repeated.isPrimitive()
        && repeated.asGroupType().getFieldCount() == 2;
    return isEntry ? Optional.of(repeated.asGroupType()) : Optional.empty();
  }
}
