package hudicatalog.hive;

import java.time.Instant;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import java.util.Map;
import java.util.TimeZone;
import java.util.concurrent.ConcurrentHashMap;

/** What this JVM knows of its time zone, by which Hive makes clock times of stored instants. */
final class Clock {
  private static final Instant FIRST = Instant.parse("1800-01-01T00:00:00Z");
  private static final Instant LAST = Instant.parse("2100-01-01T00:00:00Z");
  private static final Map<String, String> KNOWN = new ConcurrentHashMap<>();

  private Clock() {}

  /** Seconds ahead of UTC at first, then at each change `;instant:seconds`, as hudi_catalog.thrift has it. */
  static String offsets(TimeZone zone) {
    return KNOWN.computeIfAbsent(zone.getID(), id -> transitions(zone.toZoneId().getRules()));
  }

  private static String transitions(ZoneRules rules) {
    StringBuilder text = new StringBuilder();
    text.append(rules.getOffset(FIRST).getTotalSeconds());
    ZoneOffsetTransition next = rules.nextTransition(FIRST);
    while (next != null && next.getInstant().isBefore(LAST)) {
      text.append(';').append(next.toEpochSecond()).append(':').append(next.getOffsetAfter().getTotalSeconds());
      next = rules.nextTransition(next.getInstant());
    }
    return text.toString();
  }
}
