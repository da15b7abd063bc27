package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.airlift.slice.Slice;
import io.trino.spi.connector.ConnectorTableVersion;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.DateTimeEncoding;
import io.trino.spi.type.DateType;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.LongTimestamp;
import io.trino.spi.type.LongTimestampWithTimeZone;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.VarcharType;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;

/** The version of {@code FOR VERSION AS OF} and {@code FOR TIMESTAMP AS OF}, as the service takes it. */
final class VersionTexts {
  private VersionTexts() {}

  /**
   * Put the version into a request: an instant as {@code version}, a time as {@code micros} since 1970 UTC.
   *
   * @param zone of the session, for times without one
   */
  static void put(ObjectNode request, ConnectorTableVersion version, ZoneId zone) {
    switch (version.getPointerType()) {
      case TARGET_ID -> request.put("version", instant(version));
      case TEMPORAL -> request.put("micros", Long.toString(micros(version, zone)));
    }
  }

  private static String instant(ConnectorTableVersion version) {
    return switch (version.getVersionType()) {
      case VarcharType _ when !((Slice) version.getVersion()).toStringUtf8().isBlank() ->
          ((Slice) version.getVersion()).toStringUtf8();
      case VarcharType _ -> throw HudiErrorCode.BAD_VERSION.exception("FOR VERSION AS OF takes an instant such as"
          + " '20260131120000000', and this one is empty", null);
      case BigintType _, IntegerType _ -> String.valueOf(version.getVersion());
      default -> throw HudiErrorCode.BAD_VERSION.exception("FOR VERSION AS OF takes an instant such as"
          + " '20260131120000000', as varchar or bigint, not a " + version.getVersionType().getDisplayName(), null);
    };
  }

  private static long micros(ConnectorTableVersion version, ZoneId zone) {
    Object value = version.getVersion();
    return switch (version.getVersionType()) {
      case DateType _ -> local(LocalDate.ofEpochDay((long) value).atStartOfDay(), zone);
      case TimestampType type when type.isShort() -> local(clock((long) value), zone);
      case TimestampType _ -> local(clock(((LongTimestamp) value).getEpochMicros()), zone);
      case TimestampWithTimeZoneType type when type.isShort() ->
          Math.multiplyExact(DateTimeEncoding.unpackMillisUtc((long) value), 1000L);
      case TimestampWithTimeZoneType _ ->
          Math.multiplyExact(((LongTimestampWithTimeZone) value).getEpochMillis(), 1000L);
      default -> throw HudiErrorCode.BAD_VERSION.exception("FOR TIMESTAMP AS OF takes a timestamp or a date, not a "
          + version.getVersionType().getDisplayName(), null);
    };
  }

  private static LocalDateTime clock(long micros) {
    return LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L),
        (int) Math.floorMod(micros, 1_000_000L) * 1000, ZoneOffset.UTC);
  }

  private static long local(LocalDateTime clock, ZoneId zone) {
    return ChronoUnit.MICROS.between(Instant.EPOCH, clock.atZone(zone).toInstant());
  }
}
