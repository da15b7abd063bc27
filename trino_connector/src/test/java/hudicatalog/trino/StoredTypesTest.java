package hudicatalog.trino;

import static io.trino.spi.type.BigintType.BIGINT;
import static io.trino.spi.type.DateType.DATE;
import static io.trino.spi.type.DecimalType.createDecimalType;
import static io.trino.spi.type.DoubleType.DOUBLE;
import static io.trino.spi.type.IntegerType.INTEGER;
import static io.trino.spi.type.RealType.REAL;
import static io.trino.spi.type.RowType.field;
import static io.trino.spi.type.RowType.rowType;
import static io.trino.spi.type.TimestampType.TIMESTAMP_MICROS;
import static io.trino.spi.type.TimestampType.TIMESTAMP_NANOS;
import static io.trino.spi.type.TimestampWithTimeZoneType.TIMESTAMP_TZ_MICROS;
import static io.trino.spi.type.TimestampWithTimeZoneType.TIMESTAMP_TZ_NANOS;
import static io.trino.spi.type.VarbinaryType.VARBINARY;
import static io.trino.spi.type.VarcharType.VARCHAR;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.trino.spi.type.ArrayType;
import io.trino.spi.type.Type;
import java.util.stream.Stream;
import org.apache.parquet.schema.MessageTypeParser;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class StoredTypesTest {
  static Stream<Arguments> pairs() {
    return Stream.of(
        Arguments.of(INTEGER, "int32 c", true),
        Arguments.of(BIGINT, "int32 c", true),
        Arguments.of(BIGINT, "int64 c (INTEGER(64,true))", true),
        Arguments.of(INTEGER, "int64 c", false),
        Arguments.of(BIGINT, "int32 c (INTEGER(32,false))", false),
        Arguments.of(BIGINT, "int64 c (TIMESTAMP(MICROS,true))", false),
        Arguments.of(DOUBLE, "float c", false),
        Arguments.of(DOUBLE, "double c", true),
        Arguments.of(REAL, "double c", false),
        Arguments.of(DATE, "int32 c (DATE)", true),
        Arguments.of(DATE, "int32 c", false),
        Arguments.of(VARCHAR, "binary c (STRING)", true),
        Arguments.of(VARCHAR, "binary c (ENUM)", true),
        Arguments.of(VARCHAR, "binary c", false),
        Arguments.of(VARBINARY, "binary c", true),
        Arguments.of(VARBINARY, "fixed_len_byte_array(3) c", true),
        Arguments.of(createDecimalType(12, 2), "int32 c (DECIMAL(5,2))", true),
        Arguments.of(createDecimalType(12, 2), "fixed_len_byte_array(6) c (DECIMAL(12,2))", true),
        Arguments.of(createDecimalType(12, 2), "int32 c (DECIMAL(5,1))", false),
        Arguments.of(createDecimalType(12, 2), "fixed_len_byte_array(9) c (DECIMAL(20,2))", false),
        Arguments.of(createDecimalType(12, 2), "int32 c", false),
        Arguments.of(TIMESTAMP_TZ_MICROS, "int64 c (TIMESTAMP(MICROS,true))", true),
        Arguments.of(TIMESTAMP_TZ_MICROS, "int64 c (TIMESTAMP(MICROS,false))", false),
        Arguments.of(TIMESTAMP_TZ_MICROS, "int64 c (TIMESTAMP(MILLIS,true))", false),
        Arguments.of(TIMESTAMP_TZ_MICROS, "int96 c", false),
        Arguments.of(TIMESTAMP_TZ_NANOS, "int64 c (TIMESTAMP(NANOS,true))", Release.READS_INSTANTS_OF_NANOSECONDS),
        Arguments.of(TIMESTAMP_NANOS, "int64 c (TIMESTAMP(NANOS,false))", true),
        Arguments.of(TIMESTAMP_MICROS, "int64 c (TIMESTAMP(MICROS,false))", true),
        Arguments.of(new ArrayType(BIGINT), "group c (LIST) { repeated group list { optional int32 element; } }", true),
        Arguments.of(new ArrayType(DOUBLE), "group c (LIST) { repeated group list { optional int32 element; } }", false),
        Arguments.of(new ArrayType(BIGINT), "group c (LIST) { repeated int64 array; }", false),
        Arguments.of(rowType(field("A", BIGINT), field("b", VARCHAR)), "group c { optional int32 a; }", true),
        Arguments.of(rowType(field("a", BIGINT)), "group c { optional int32 z; }", false),
        Arguments.of(rowType(field("a", DOUBLE)), "group c { optional int32 a; }", false),
        Arguments.of(rowType(field("a", BIGINT)), "int64 c", false));
  }

  @ParameterizedTest
  @MethodSource("pairs")
  void onlyPairsThatAreReadRightAreReadable(Type wanted, String stored, boolean readable) {
    var message = MessageTypeParser.parseMessageType("message m { optional " + stored + (stored.endsWith("}") ? "" : ";")
        + " }");
    assertEquals(readable, StoredTypes.isReadable(wanted, message.getType(0)));
  }

  static Stream<Arguments> hashed() {
    return Stream.of(
        Arguments.of(INTEGER, "int32 c", true),
        Arguments.of(BIGINT, "int64 c", true),
        Arguments.of(BIGINT, "int32 c", false),
        Arguments.of(REAL, "float c", false),
        Arguments.of(DOUBLE, "double c", false),
        Arguments.of(VARCHAR, "binary c (STRING)", true));
  }

  @ParameterizedTest
  @MethodSource("hashed")
  void onlyValuesOfTheSameBytesAreLookedUpInBloomFilters(Type wanted, String stored, boolean alike) {
    var message = MessageTypeParser.parseMessageType("message m { optional " + stored + "; }");
    assertEquals(alike, StoredTypes.isHashedAlike(wanted, message.getType(0).asPrimitiveType()));
  }
}
