package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.airlift.slice.Slice;
import io.airlift.slice.Slices;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.Range;
import io.trino.spi.predicate.TupleDomain;
import io.trino.spi.predicate.ValueSet;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.DateTimeEncoding;
import io.trino.spi.type.DateType;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.Int128;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.LongTimestamp;
import io.trino.spi.type.LongTimestampWithTimeZone;
import io.trino.spi.type.RealType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TimeType;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.Type;
import io.trino.spi.type.VarbinaryType;
import io.trino.spi.type.VarcharType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Base64;
import java.util.List;
import java.util.Optional;

/** Trino's filters as JSON; docs/reference/connector.md describes it. What cannot be written is left out: all pass. */
final class Domains {
  /** More values than this become ranges. */
  private static final int MOST_VALUES = 20_000;
  private static final BigInteger MICRO = BigInteger.valueOf(1_000_000);
  private static final BigInteger MILLI = BigInteger.valueOf(1_000_000_000);

  private Domains() {}

  /** The filter that all of some domains make together, as the array of a request. */
  static ArrayNode json(List<TupleDomain<HudiColumn>> domains) {
    ArrayNode array = ServiceClient.object().arrayNode();
    for (TupleDomain<HudiColumn> domain : domains) {
      if (domain.isNone()) {
        array.addObject().put("none", true);
        continue;
      }
      ObjectNode columns = ServiceClient.object();
      domain.getDomains().orElseThrow().forEach((column, one) -> {
        if (column.isWhole()) {
          json(column.type(), one).ifPresent(json -> columns.set(column.name(), json));
        } else if (column.holdsData()) {
          json(column.type(), one).ifPresent(json -> {
            ArrayNode path = json.putArray("path");
            column.path().forEach(path::add);
            array.addObject().putObject("columns").set(column.root(), json);
          });
        }
      });
      if (!columns.isEmpty()) {
        array.addObject().set("columns", columns);
      }
    }
    return array;
  }

  /** Whether the service learns all of a domain, and orders its values as Trino does: NaN is greatest for it. */
  static boolean isSentWhole(Type type, Domain domain) {
    return !(type instanceof RealType || type instanceof DoubleType) && domain.simplify(MOST_VALUES).equals(domain);
  }

  private static Optional<ObjectNode> json(Type type, Domain whole) {
    ObjectNode out = ServiceClient.object();
    if (whole.getValues().isNone() || whole.getValues().isAll()) {
      out.put("null", whole.isNullAllowed());
      return Optional.of(whole.getValues().isAll() ? out.put("all", true) : out.set("in", out.arrayNode()));
    }
    if (!isWritten(type)) {
      return Optional.empty();
    }
    Domain domain = whole.simplify(MOST_VALUES);
    out.put("null", domain.isNullAllowed());
    ValueSet values = domain.getValues();
    if (values.isAll()) {
      return Optional.of(out.put("all", true));
    }
    try {
      if (values.isDiscreteSet()) {
        ArrayNode in = out.putArray("in");
        values.getDiscreteSet().forEach(value -> in.addPOJO(value(type, value)));
        return Optional.of(out);
      }
      ArrayNode ranges = out.putArray("ranges");
      for (Range range : values.getRanges().getOrderedRanges()) {
        ArrayNode one = ranges.addArray();
        one.addPOJO(range.getLowValue().map(value -> value(type, value)).orElse(null)).add(range.isLowInclusive());
        one.addPOJO(range.getHighValue().map(value -> value(type, value)).orElse(null)).add(range.isHighInclusive());
      }
      return Optional.of(out);
    } catch (NotTextException e) {
      return Optional.empty();
    }
  }

  /** A varchar whose bytes are not UTF-8: as text it would be another value. */
  private static final class NotTextException extends RuntimeException {
  }

  /** A value of a condition, none of types that are not written. */
  static Optional<Object> literal(Type type, Object value) {
    if (type.getDisplayName().equals("interval day to second")) {
      return Optional.of(value); // milliseconds
    }
    if (!isWritten(type)) {
      return Optional.empty();
    }
    try {
      return Optional.of(value(type, value));
    } catch (NotTextException e) {
      return Optional.empty();
    }
  }

  private static boolean isWritten(Type type) {
    return switch (type) {
      case BooleanType _, TinyintType _, SmallintType _, IntegerType _, BigintType _, RealType _, DoubleType _,
          VarcharType _, VarbinaryType _, DateType _, DecimalType _, TimeType _, TimestampType _,
          TimestampWithTimeZoneType _ -> true;
      default -> false;
    };
  }

  private static Object value(Type type, Object value) {
    return switch (type) {
      // As a double, whose text gives the very value: that of a float is the shortest one that no other float has.
      case RealType _ -> (double) Float.intBitsToFloat(((Long) value).intValue());
      case VarcharType _ -> text((Slice) value);
      case VarbinaryType _ -> Base64.getEncoder().encodeToString(((Slice) value).getBytes());
      case DecimalType decimal when decimal.isShort() ->
          new BigDecimal(BigInteger.valueOf((long) value), decimal.getScale()).toPlainString();
      case DecimalType decimal ->
          new BigDecimal(((Int128) value).toBigInteger(), decimal.getScale()).toPlainString();
      case TimeType _ -> String.valueOf(value);
      case TimestampType timestamp when timestamp.isShort() -> picos((long) value, MICRO, 0);
      case TimestampType _ -> picos(((LongTimestamp) value).getEpochMicros(), MICRO,
          ((LongTimestamp) value).getPicosOfMicro());
      case TimestampWithTimeZoneType timestamp when timestamp.isShort() ->
          picos(DateTimeEncoding.unpackMillisUtc((long) value), MILLI, 0);
      case TimestampWithTimeZoneType _ -> picos(((LongTimestampWithTimeZone) value).getEpochMillis(), MILLI,
          ((LongTimestampWithTimeZone) value).getPicosOfMilli());
      default -> value; // long, double, boolean
    };
  }

  private static String text(Slice value) {
    String text = value.toStringUtf8();
    if (!Slices.utf8Slice(text).equals(value)) {
      throw new NotTextException();
    }
    return text;
  }

  private static String picos(long count, BigInteger unit, int more) {
    return BigInteger.valueOf(count).multiply(unit).add(BigInteger.valueOf(more)).toString();
  }
}
