package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.TimeZone;
import org.junit.jupiter.api.Test;

class ClockTest {
  @Test
  void fixedOffsetsNeverChange() {
    assertEquals("0", Clock.offsets(TimeZone.getTimeZone("UTC")));
    assertEquals("19800", Clock.offsets(TimeZone.getTimeZone("GMT+05:30")));
  }

  @Test
  void everyChangeIsTold() {
    String offsets = Clock.offsets(TimeZone.getTimeZone("America/New_York"));
    // Local mean time, railway time since 18 November 1883, the last change of 2099.
    assertTrue(offsets.startsWith("-17762;-2717650800:-18000;"), offsets);
    assertTrue(offsets.endsWith(";" + Instant.parse("2099-11-01T06:00:00Z").getEpochSecond() + ":-18000"), offsets);
    assertTrue(offsets.contains(";" + Instant.parse("2026-03-08T07:00:00Z").getEpochSecond() + ":-14400;"));
  }
}
