package hudicatalog.trino;

import io.trino.spi.block.Block;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.DateType;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.Type;
import io.trino.spi.type.VarcharType;
import java.time.LocalDate;
import java.util.List;

/**
 * The hash of Hudi's simple bucket index (RFC-29): that of a Java list of the columns' texts, in which null counts as 0.
 */
final class BucketHash {
  private BucketHash() {}

  /** Whether the hash of a type's values is known here. */
  static boolean isHashed(Type type) {
    return type instanceof BigintType || type instanceof IntegerType || type instanceof SmallintType
        || type instanceof TinyintType || type instanceof DateType || type instanceof VarcharType;
  }

  /**
   * The bucket of a row.
   *
   * @param blocks of the hashed columns
   */
  static int bucket(List<Type> types, Block[] blocks, int position, int count) {
    int hash = 1;
    for (int i = 0; i < blocks.length; i++) {
      hash = 31 * hash + hash(types.get(i), blocks[i], position);
    }
    return (hash & Integer.MAX_VALUE) % count;
  }

  private static int hash(Type type, Block block, int position) {
    if (block.isNull(position)) {
      return 0;
    }
    return switch (type) {
      case VarcharType varchar -> varchar.getSlice(block, position).toStringUtf8().hashCode();
      case DateType date -> LocalDate.ofEpochDay(date.getInt(block, position)).toString().hashCode();
      default -> ofDigits(type.getLong(block, position));
    };
  }

  /** {@code Long.toString(value).hashCode()}, without making the text. */
  static int ofDigits(long value) {
    if (value == Long.MIN_VALUE) {
      return Long.toString(value).hashCode();
    }
    long rest = Math.abs(value);
    int hash = 0;
    int power = 1;
    do {
      long tens = rest / 10;
      hash += ('0' + (int) (rest - tens * 10)) * power;
      power *= 31;
      rest = tens;
    } while (rest != 0);
    return value < 0 ? hash + '-' * power : hash;
  }
}
