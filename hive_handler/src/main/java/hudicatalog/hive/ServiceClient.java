package hudicatalog.hive;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import org.apache.hadoop.conf.Configuration;
import org.apache.thrift.TException;

/** Asks the service; when it cannot answer, the query fails with one message that says so. */
final class ServiceClient {
  private static final long DEFAULT_TIMEOUT_SECONDS = 60;
  /** A service that is being started again is back soon. */
  private static final long[] PAUSES_MILLIS = {0, 200, 800, 2000};

  private final CompiledScan scan;
  private final List<Address> addresses;
  private final long timeoutMillis;
  private final SSLContext tls;
  private final byte[] secret;

  /**
   * A client for one scan.
   *
   * @param hive Hive's configuration, or a job's
   * @throws IOException when a setting is missing or wrong
   */
  ServiceClient(Configuration hive, CompiledScan scan) throws IOException {
    this.scan = scan;
    try {
      this.addresses = Address.all(scan.settings.get(Settings.SERVICE));
      this.timeoutMillis = timeoutMillis(scan.settings.get(Settings.TIMEOUT));
      this.tls = Tls.of(hive);
      this.secret = Credential.secret(hive);
    } catch (IOException e) {
      throw failure(e.getMessage(), e);
    }
  }

  /** The newest snapshot of the table. */
  String pin() throws IOException {
    ScanRequest request = new ScanRequest(scan, scan.queryId, null);
    return ask(Messages.PIN, request, Messages::readPin);
  }

  /** The splits of a scan, as the service names them. */
  Messages.Splits splits(ScanRequest request) throws IOException {
    return ask(Messages.SPLITS, request, Messages::readSplits);
  }

  /** The one message of a query that fails. */
  IOException failure(String message, Exception cause) {
    return new IOException("Hudi table " + scan.table + ": " + message, cause);
  }

  private interface Reader<T> {
    T read(byte[] reply) throws TException, Messages.RefusedException;
  }

  private <T> T ask(String method, ScanRequest request, Reader<T> reader) throws IOException {
    long start = System.nanoTime();
    List<String> reasons = new ArrayList<>();
    Exception last = null;
    for (long pause : PAUSES_MILLIS) {
      if (last != null && (System.nanoTime() - start) / 1_000_000 + pause > timeoutMillis) {
        break;
      }
      sleep(pause);
      reasons.clear();
      boolean mayPass = false;
      for (Address address : addresses) {
        try {
          byte[] encoded = Messages.encoded(request);
          Credential credential = secret == null ? null : Credential.now(secret, method, encoded);
          return reader.read(Connection.ask(address.host, address.port, tls, timeoutMillis,
              Messages.call(method, encoded, credential)));
        } catch (Messages.RefusedException e) {
          if (!e.retryable) {
            throw failure(e.getMessage(), e);
          }
          last = e;
          mayPass = true;
          reasons.add(address + ": " + e.getMessage());
        } catch (IOException e) {
          last = e;
          mayPass |= isPassing(e);
          reasons.add(address + ": " + text(e));
        } catch (TException e) {
          last = e;
          reasons.add(address + ": an answer that cannot be read: " + text(e));
        }
      }
      if (!mayPass) {
        break;
      }
    }
    throw failure("the service does not answer (" + String.join("; ", reasons) + "): see that `hudi-catalog serve hive`"
        + " runs there, or correct " + Settings.SERVICE, last);
  }

  private static boolean isPassing(IOException error) {
    boolean isBroken = error instanceof ConnectException || error instanceof SocketException
        || error instanceof EOFException;
    return isBroken && !(error instanceof SSLException);
  }

  private static String text(Exception error) {
    return error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
  }

  private static void sleep(long millis) throws IOException {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("the query was cancelled");
    }
  }

  private static long timeoutMillis(String text) throws IOException {
    if (text == null || text.isEmpty()) {
      return DEFAULT_TIMEOUT_SECONDS * 1000;
    }
    try {
      double seconds = Double.parseDouble(text);
      if (seconds > 0 && seconds <= 86400) {
        return Math.max(1, (long) (seconds * 1000));
      }
    } catch (NumberFormatException e) {
      // Reported below.
    }
    throw new IOException(Settings.TIMEOUT + "=" + text + ": it is a number of seconds, more than 0");
  }

  /** Where a service listens. */
  private static final class Address {
    final String host;
    final int port;

    private Address(String host, int port) {
      this.host = host;
      this.port = port;
    }

    static List<Address> all(String text) throws IOException {
      List<Address> found = new ArrayList<>();
      for (String one : text == null ? new String[0] : text.split(",")) {
        if (!one.trim().isEmpty()) {
          found.add(of(one.trim()));
        }
      }
      if (found.isEmpty()) {
        throw new IOException(Settings.SERVICE + " is not set: it is host:port of `hudi-catalog serve hive`, in Hive's"
            + " configuration or as a property of the table");
      }
      return found;
    }

    private static Address of(String text) throws IOException {
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
      throw new IOException(Settings.SERVICE + "=" + text + ": it is host:port");
    }

    @Override
    public String toString() {
      return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
    }
  }
}
