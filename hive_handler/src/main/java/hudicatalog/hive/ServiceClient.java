package hudicatalog.hive;

import hudicatalog.wire.Address;
import hudicatalog.wire.Connection;
import hudicatalog.wire.Credential;
import hudicatalog.wire.Failover;
import hudicatalog.wire.RefusedException;
import hudicatalog.wire.Tls;
import java.io.IOException;
import java.util.List;
import javax.net.ssl.SSLContext;
import org.apache.hadoop.conf.Configuration;
import org.apache.thrift.TException;

/** Asks the service; when it cannot answer, the query fails with one message that says so. */
final class ServiceClient {
  private static final long DEFAULT_TIMEOUT_SECONDS = 60;

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
      this.addresses = Address.all(Settings.SERVICE, scan.settings.get(Settings.SERVICE),
          "it is host:port of `hudi-catalog serve hive`, in Hive's configuration or as a property of the table");
      this.timeoutMillis = timeoutMillis(scan.settings.get(Settings.TIMEOUT));
      this.tls = Tls.of(key -> hive.getTrimmed(key, ""), Settings.TLS);
      this.secret = Credential.secret(Settings.SECRET_FILE, hive.getTrimmed(Settings.SECRET_FILE, ""));
    } catch (IOException e) {
      throw failure(e.getMessage(), e);
    }
  }

  /**
   * The newest snapshot of the table.
   *
   * @param read columns that the query reads for certain, which the service then compares with the table's; null if
   *     not known
   */
  String pin(List<String> read) throws IOException {
    ScanRequest request = new ScanRequest(scan, scan.queryId, null);
    request.columns = read;
    return ask(Messages.PIN, request, Messages::readPin);
  }

  /** The splits of a scan, as the service names them. */
  Messages.Splits splits(ScanRequest request) throws IOException {
    return ask(Messages.SPLITS, request, Messages::readSplits);
  }

  /** Statistics of the scan's snapshot; null where the service is of a release that gives none. */
  Messages.Statistics statistics() throws IOException {
    ScanRequest request = new ScanRequest(scan, scan.queryId, scan.pin);
    return ask(Messages.STATISTICS, request, Messages::readStatistics);
  }

  /**
   * Distinct values of the request's one column in the rows that pass its filter; null where the service does not tell
   * them: there are many, it would read much, or it is of a release that tells none.
   */
  List<String> values(ScanRequest request) throws IOException {
    return ask(Messages.VALUES, request, Messages::readValues);
  }

  /** The one message of a query that fails. */
  IOException failure(String message, Exception cause) {
    return new IOException("Hudi table " + scan.table + ": " + message, cause);
  }

  private interface Reader<T> {
    T read(byte[] reply) throws TException, RefusedException;
  }

  private <T> T ask(String method, ScanRequest request, Reader<T> reader) throws IOException {
    try {
      return Failover.first(addresses, timeoutMillis, address -> {
        try {
          byte[] encoded = Messages.encoded(request);
          Credential credential = secret == null ? null : Credential.now(secret, method, encoded);
          return reader.read(Connection.ask(address.host, address.port, tls, timeoutMillis,
              Messages.call(method, encoded, credential)));
        } catch (TException e) {
          throw new Failover.UnreadableException(e);
        }
      });
    } catch (RefusedException e) {
      throw failure(e.getMessage(), e);
    } catch (Failover.UnansweredException e) {
      throw failure(e.getMessage() + ": see that `hudi-catalog serve hive` runs there, or correct " + Settings.SERVICE,
          e);
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
}
