package hudicatalog.trino;

import io.airlift.slice.Slices;
import io.trino.spi.Page;
import io.trino.spi.block.ArrayBlock;
import io.trino.spi.block.Block;
import io.trino.spi.block.ByteArrayBlock;
import io.trino.spi.block.Fixed12Block;
import io.trino.spi.block.Int128ArrayBlock;
import io.trino.spi.block.IntArrayBlock;
import io.trino.spi.block.LongArrayBlock;
import io.trino.spi.block.MapBlock;
import io.trino.spi.block.RowBlock;
import io.trino.spi.block.ShortArrayBlock;
import io.trino.spi.block.VariableWidthBlock;
import io.trino.spi.type.ArrayType;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.DateTimeEncoding;
import io.trino.spi.type.DateType;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.MapType;
import io.trino.spi.type.RealType;
import io.trino.spi.type.RowType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TimeType;
import io.trino.spi.type.TimeZoneKey;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.Type;
import io.trino.spi.type.VarbinaryType;
import io.trino.spi.type.VarcharType;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Optional;
import java.util.function.LongUnaryOperator;

/** Pages of rows that the service sends, whose form docs/reference/connector.md describes, as Trino's blocks. */
final class PageDecoder {
  private static final int MILLI_DIGITS = 3;
  private static final int MICRO_DIGITS = 6;

  private final ByteBuffer in;

  private PageDecoder(ByteBuffer in) {
    this.in = in.order(ByteOrder.LITTLE_ENDIAN);
  }

  /**
   * The rows.
   *
   * @param types of the page's columns
   */
  static Page page(ByteBuffer in, List<Type> types) {
    try {
      PageDecoder decoder = new PageDecoder(in);
      int rows = decoder.in.getInt();
      Block[] blocks = new Block[types.size()];
      for (int i = 0; i < blocks.length; i++) {
        blocks[i] = rows == 0 ? types.get(i).createBlockBuilder(null, 0).build() : decoder.column(types.get(i), rows);
      }
      if (in.hasRemaining()) {
        throw new IllegalArgumentException(in.remaining() + " bytes more than its columns");
      }
      return new Page(rows, blocks);
    } catch (BufferUnderflowException | IllegalArgumentException | NegativeArraySizeException e) {
      throw HudiErrorCode.BAD_REPLY.exception("the service sent rows that are no page of these types: " + e, e);
    }
  }

  private Block column(Type type, int rows) {
    var nulls = Release.nulls(flags(rows));
    return switch (type) {
      case BooleanType _, TinyintType _ -> new ByteArrayBlock(rows, nulls, bytes(rows));
      case SmallintType _ -> new ShortArrayBlock(rows, nulls, shorts(rows));
      case IntegerType _, DateType _, RealType _ -> new IntArrayBlock(rows, nulls, ints(rows));
      case BigintType _, DoubleType _ -> new LongArrayBlock(rows, nulls, longs(rows));
      case DecimalType decimal when decimal.isShort() -> new LongArrayBlock(rows, nulls, longs(rows));
      case DecimalType _ -> new Int128ArrayBlock(rows, nulls, longs(2 * rows));
      case TimeType time -> {
        long picos = power(12 - time.getPrecision());
        yield new LongArrayBlock(rows, nulls, mapped(rows, value -> value * picos));
      }
      case TimestampType stamp when stamp.isShort() -> {
        long micros = power(MICRO_DIGITS - stamp.getPrecision());
        yield new LongArrayBlock(rows, nulls, mapped(rows, value -> value * micros));
      }
      case TimestampType stamp -> new Fixed12Block(rows, nulls,
          divided(rows, stamp.getPrecision() - MICRO_DIGITS, MICRO_DIGITS, value -> value));
      case TimestampWithTimeZoneType stamp when stamp.isShort() -> {
        long millis = power(MILLI_DIGITS - stamp.getPrecision());
        yield new LongArrayBlock(rows, nulls, mapped(rows, value -> utc(value * millis)));
      }
      case TimestampWithTimeZoneType stamp -> new Fixed12Block(rows, nulls,
          divided(rows, stamp.getPrecision() - MILLI_DIGITS, 12 - MILLI_DIGITS, PageDecoder::utc));
      case VarcharType _, VarbinaryType _ -> {
        int[] offsets = ints(rows + 1);
        yield new VariableWidthBlock(rows, Slices.wrappedBuffer(bytes(offsets[rows])), offsets, nulls);
      }
      case ArrayType array -> {
        int[] offsets = ints(rows + 1);
        yield ArrayBlock.fromElementBlock(rows, nulls, offsets, column(array.getElementType(), offsets[rows]));
      }
      case MapType map -> {
        int[] offsets = ints(rows + 1);
        Block keys = column(map.getKeyType(), offsets[rows]);
        yield MapBlock.fromKeyValueBlock(nulls, offsets, keys, column(map.getValueType(), offsets[rows]), map);
      }
      case RowType row -> {
        Block[] fields = new Block[row.getFields().size()];
        for (int i = 0; i < fields.length; i++) {
          fields[i] = column(row.getFields().get(i).getType(), rows);
        }
        yield RowBlock.fromNotNullSuppressedFieldBlocks(rows, nulls, fields);
      }
      default -> throw new IllegalArgumentException("no column is of type " + type.getDisplayName());
    };
  }

  /** A byte for each row, not 0 for null; none where no row is null. */
  private Optional<byte[]> flags(int rows) {
    return in.get() == 0 ? Optional.empty() : Optional.of(bytes(rows));
  }

  private long[] mapped(int rows, LongUnaryOperator conversion) {
    long[] values = longs(rows);
    for (int i = 0; i < rows; i++) {
      values[i] = conversion.applyAsLong(values[i]);
    }
    return values;
  }

  /**
   * Times in two parts.
   *
   * @param digits of the values that make up the second part
   * @param picoDigits of the second part, in picoseconds
   * @param first conversion of the first part
   */
  private int[] divided(int rows, int digits, int picoDigits, LongUnaryOperator first) {
    long[] values = longs(rows);
    long unit = power(digits);
    long picos = power(picoDigits - digits);
    int[] parts = new int[3 * rows];
    for (int i = 0; i < rows; i++) {
      Fixed12Block.encodeFixed12(first.applyAsLong(Math.floorDiv(values[i], unit)),
          (int) (Math.floorMod(values[i], unit) * picos), parts, i);
    }
    return parts;
  }

  private static long utc(long millis) {
    return DateTimeEncoding.packDateTimeWithZone(millis, TimeZoneKey.UTC_KEY);
  }

  private static long power(int digits) {
    long power = 1;
    for (int i = 0; i < digits; i++) {
      power *= 10;
    }
    return power;
  }

  private byte[] bytes(int count) {
    check(count, 1);
    byte[] values = new byte[count];
    in.get(values);
    return values;
  }

  private short[] shorts(int count) {
    check(count, Short.BYTES);
    short[] values = new short[count];
    in.asShortBuffer().get(values);
    in.position(in.position() + Short.BYTES * count);
    return values;
  }

  private int[] ints(int count) {
    check(count, Integer.BYTES);
    int[] values = new int[count];
    in.asIntBuffer().get(values);
    in.position(in.position() + Integer.BYTES * count);
    return values;
  }

  private long[] longs(int count) {
    check(count, Long.BYTES);
    long[] values = new long[count];
    in.asLongBuffer().get(values);
    in.position(in.position() + Long.BYTES * count);
    return values;
  }

  /** Before memory is taken. */
  private void check(int count, int width) {
    if (count < 0 || (long) count * width > in.remaining()) {
      throw new IllegalArgumentException(count + " values of " + width + " bytes where " + in.remaining() + " are left");
    }
  }
}
