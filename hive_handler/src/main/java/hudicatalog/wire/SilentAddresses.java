package hudicatalog.wire;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** Addresses that gave no answer lately: they are asked after the others for a while. Thread-safe. */
final class SilentAddresses {
  private static final long ASIDE_MILLIS = 30_000;

  /** When each comes first again, by the clock; as many as settings name. */
  private final ConcurrentMap<String, Long> until = new ConcurrentHashMap<>();
  private final LongSupplier nanos;

  SilentAddresses(LongSupplier nanos) {
    this.nanos = nanos;
  }

  /**
   * The addresses in the order in which to ask them; each is among them once.
   *
   * @param timeoutMillis for which the caller may wait for an address that is tried again
   */
  List<Address> order(List<Address> addresses, long timeoutMillis) {
    List<Address> order = new ArrayList<>(addresses.size());
    List<Address> silent = new ArrayList<>();
    for (Address address : addresses) {
      (isAside(address, timeoutMillis) ? silent : order).add(address);
    }
    order.addAll(silent);
    return order;
  }

  void failed(Address address) {
    until.put(address.toString(), end(ASIDE_MILLIS));
  }

  void answered(Address address) {
    until.remove(address.toString());
  }

  private boolean isAside(Address address, long timeoutMillis) {
    Long end = until.get(address.toString());
    if (end == null) {
      return false;
    }
    // Of the threads that see the time is over, one tries the address again; the others ask it last meanwhile.
    return end - nanos.getAsLong() > 0 || !until.replace(address.toString(), end, end(ASIDE_MILLIS + timeoutMillis));
  }

  private long end(long millis) {
    return nanos.getAsLong() + TimeUnit.MILLISECONDS.toNanos(millis);
  }
}
