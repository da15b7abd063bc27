package hudicatalog.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class FailoverTest {
  private static final long TIMEOUT_MILLIS = 60_000;

  private final List<String> asked = new ArrayList<>();
  private long now = Long.MAX_VALUE - 5;
  private final SilentAddresses silent = new SilentAddresses(() -> now);

  @Test
  void oneExchangeWaitsForAFrozenService() throws Exception {
    for (int i = 0; i < 3; i++) {
      assertEquals("b:2", ask(this::frozenA));
    }
    assertEquals(Arrays.asList("a:1", "b:2", "b:2", "b:2"), asked);
  }

  @Test
  void itIsTriedAgainAfterAWhileByOneExchange() throws Exception {
    ask(this::frozenA);
    after(29);
    assertEquals("[b:2, a:1]", order());
    after(2);
    assertEquals("[a:1, b:2]", order());
    // While that exchange may still wait, others do not.
    assertEquals("[b:2, a:1]", order());
    after(60);
    assertEquals("[b:2, a:1]", order());
    after(31);
    assertEquals("a:1", ask(address -> address.toString()));
    assertEquals("[a:1, b:2]", order());
    assertEquals("[a:1, b:2]", order());
  }

  @Test
  void allAreAskedWhereAllAreSilent() throws Exception {
    for (int i = 0; i < 2; i++) {
      assertThrows(Failover.UnansweredException.class, () -> ask(address -> {
        throw new SocketTimeoutException("no answer");
      }));
    }
    assertEquals(Arrays.asList("a:1", "b:2", "a:1", "b:2"), asked);
  }

  @Test
  void aServiceThatAnswersWronglyOrRefusesIsNotSilent() throws Exception {
    assertThrows(RefusedException.class, () -> ask(address -> {
      throw new RefusedException("no such table", false);
    }));
    assertEquals("b:2", ask(address -> {
      if (address.port == 1) {
        throw new Failover.UnreadableException(new IOException("zeros"));
      }
      return address.toString();
    }));
    assertEquals("[a:1, b:2]", order());
  }

  @Test
  void aServiceThatIsGoneIsAskedLast() throws Exception {
    assertEquals("b:2", ask(address -> {
      if (address.port == 1) {
        throw new ConnectException("Connection refused");
      }
      return address.toString();
    }));
    assertEquals("[b:2, a:1]", order());
    assertTrue(asked.contains("a:1"));
  }

  @Test
  void aServiceThatGoesOnRefusingIsQuoted() {
    // No further round begins after the time-out.
    RefusedException refused = assertThrows(RefusedException.class, () -> Failover.first(addresses(), 0, silent,
        address -> {
          asked.add(address.toString());
          if (address.port == 2) {
            throw new ConnectException("Connection refused");
          }
          throw new RefusedException("part=a: input/output error", true);
        }));
    assertEquals("part=a: input/output error", refused.getMessage());
    assertEquals(Arrays.asList("a:1", "b:2"), asked);
  }

  private String frozenA(Address address) throws IOException {
    if (address.port == 1) {
      throw new SocketTimeoutException("no answer");
    }
    return address.toString();
  }

  private String ask(Failover.Attempt<String> attempt) throws IOException, RefusedException {
    return Failover.first(addresses(), TIMEOUT_MILLIS, silent, address -> {
      asked.add(address.toString());
      return attempt.at(address);
    });
  }

  private String order() throws IOException {
    return silent.order(addresses(), TIMEOUT_MILLIS).toString();
  }

  private void after(long seconds) {
    now += TimeUnit.SECONDS.toNanos(seconds);
  }

  private static List<Address> addresses() throws IOException {
    return Address.all("service", "a:1,b:2", "");
  }
}
