package hudicatalog.wire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Where a service listens. */
public final class Address {
  public final String host;
  public final int port;

  private Address(String host, int port) {
    this.host = host;
    this.port = port;
  }

  /**
   * The addresses of a setting, `host:port` with commas between.
   *
   * @param setting its key
   * @param text null for none
   * @param hint what to set it to
   * @throws IOException when there is none, or one is wrong
   */
  public static List<Address> all(String setting, String text, String hint) throws IOException {
    List<Address> addresses = new ArrayList<>();
    for (String one : text == null ? new String[0] : text.split(",")) {
      if (!one.trim().isEmpty()) {
        addresses.add(of(setting, one.trim()));
      }
    }
    if (addresses.isEmpty()) {
      throw new IOException(setting + " is not set: " + hint);
    }
    return addresses;
  }

  private static Address of(String setting, String text) throws IOException {
    if (text.contains("/")) {
      throw new IOException(setting + "=" + text + ": it is host:port alone, without http:// and without a path");
    }
    int colon = text.lastIndexOf(':');
    String host = colon < 0 ? "" : text.substring(0, colon).replaceAll("^\\[(.*)]$", "$1");
    try {
      int port = Integer.parseInt(text.substring(colon + 1));
      if (!host.isEmpty() && port > 0 && port < 65536) {
        return new Address(host, port);
      }
    } catch (NumberFormatException e) {
      // Reported below.
    }
    throw new IOException(setting + "=" + text + ": it is host:port, with a port up to 65535");
  }

  @Override
  public String toString() {
    return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
  }
}
