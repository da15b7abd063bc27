package hudicatalog.trino;

import hudicatalog.wire.Address;
import hudicatalog.wire.Credential;
import hudicatalog.wire.Tls;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.net.ssl.SSLContext;

/**
 * The properties of a catalog file.
 *
 * @param services where services listen that know the same warehouse; one after the other is asked
 * @param tls null for connections that are not encrypted
 * @param secret null for none
 * @param s3 properties of Trino's S3 file system; empty where the catalog leaves it off
 */
record ConnectorSettings(List<Address> services, long timeoutMillis, SSLContext tls, byte[] secret,
    Optional<Map<String, String>> s3) {
  static final String SERVICE = "hudi-catalog.service";
  static final String TIMEOUT = "hudi-catalog.timeout-seconds";
  static final String TLS = "hudi-catalog.tls";
  static final String SECRET_FILE = "hudi-catalog.secret-file";
  static final String UNTESTED_TRINO = "hudi-catalog.untested-trino";

  /** Turns S3 on, as in Trino's own connectors; Trino 483 calls it `S3_LATER`, too. */
  static final String S3 = "fs.native-s3.enabled";

  private static final String S3_LATER = "fs.s3.enabled";
  private static final String OF_S3 = "s3.";
  private static final Set<String> KEYS = Set.of(SERVICE, TIMEOUT, TLS, TLS + ".ca", TLS + ".keystore",
      TLS + ".keystore.password.file", SECRET_FILE, UNTESTED_TRINO, S3, S3_LATER);
  private static final double DEFAULT_TIMEOUT_SECONDS = 60;

  /**
   * The settings of a catalog.
   *
   * @param trino version of the server
   * @param tested version that the connector was built for
   * @throws IllegalArgumentException when a property is unknown or wrong, or the server is of another version
   */
  static ConnectorSettings of(Map<String, String> config, String trino, String tested) {
    Set<String> unknown = new TreeSet<>(config.keySet());
    unknown.removeAll(KEYS);
    unknown.removeIf(key -> key.startsWith(OF_S3));
    if (!unknown.isEmpty()) {
      throw new IllegalArgumentException("hudi_catalog has no property " + unknown.iterator().next() + "; there are "
          + new TreeSet<>(KEYS));
    }
    if (!trino.equals(tested) && !isTrue(config, UNTESTED_TRINO)) {
      throw new IllegalArgumentException("this build of the connector hudi_catalog is for Trino " + tested
          + ", and the server is Trino " + trino + ": lay out the plugin's folder by `hudi-catalog trino-plugin --version "
          + trino + "`, of a release that knows this version, or set " + UNTESTED_TRINO + "=true to try it all the same");
    }
    try {
      List<Address> services = Address.all(SERVICE, config.get(SERVICE), "it is host:port of `hudi-catalog serve trino`,"
          + " or several with commas between");
      return new ConnectorSettings(services, timeoutMillis(config.get(TIMEOUT)),
          Tls.of(key -> config.getOrDefault(key, "").trim(), TLS),
          Credential.secret(SECRET_FILE, config.getOrDefault(SECRET_FILE, "").trim()), s3(config));
    } catch (IOException e) {
      throw new IllegalArgumentException(e.getMessage(), e);
    }
  }

  private static Optional<Map<String, String>> s3(Map<String, String> config) {
    Map<String, String> properties = new TreeMap<>(config);
    properties.keySet().removeIf(key -> !key.startsWith(OF_S3));
    if (isTrue(config, S3) || isTrue(config, S3_LATER)) {
      return Optional.of(properties);
    }
    if (!properties.isEmpty()) {
      throw new IllegalArgumentException(properties.keySet().iterator().next() + " counts only with " + S3 + "=true");
    }
    return Optional.empty();
  }

  private static boolean isTrue(Map<String, String> config, String key) {
    String text = config.getOrDefault(key, "false").trim();
    if (text.equalsIgnoreCase("true") || text.equalsIgnoreCase("false")) {
      return Boolean.parseBoolean(text);
    }
    throw new IllegalArgumentException(key + "=" + text + ": it is true or false");
  }

  private static long timeoutMillis(String text) {
    try {
      double seconds = text == null ? DEFAULT_TIMEOUT_SECONDS : Double.parseDouble(text);
      if (seconds > 0 && seconds <= 86400) {
        return Math.max(1, (long) (seconds * 1000));
      }
    } catch (NumberFormatException e) {
      // Reported below.
    }
    throw new IllegalArgumentException(TIMEOUT + "=" + text + ": it is a number of seconds, more than 0");
  }

  @Override
  public String toString() {
    return "ConnectorSettings[" + services + "]"; // without secrets
  }
}
