package hudicatalog.hive;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.apache.hadoop.conf.Configuration;

/** How connections are encrypted, from Hive's configuration. */
final class Tls {
  private Tls() {}

  /**
   * The context; null when connections are not encrypted.
   *
   * @throws IOException when a setting is wrong or a file has the wrong content
   */
  static SSLContext of(Configuration hive) throws IOException {
    String ca = hive.getTrimmed(Settings.TLS_CA, "");
    String keystore = hive.getTrimmed(Settings.TLS_KEYSTORE, "");
    if (!isOn(hive)) {
      if (!ca.isEmpty() || !keystore.isEmpty()) {
        throw new IOException((ca.isEmpty() ? Settings.TLS_KEYSTORE : Settings.TLS_CA) + " is set, but not "
            + Settings.TLS + "=true");
      }
      return null;
    }
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(keys(hive, keystore), ca.isEmpty() ? null : trusted(ca), null);
      return context;
    } catch (GeneralSecurityException e) {
      throw new IOException("TLS: " + e, e);
    }
  }

  private static boolean isOn(Configuration hive) throws IOException {
    String text = hive.getTrimmed(Settings.TLS, "");
    if (text.isEmpty() || text.equalsIgnoreCase("false")) {
      return false;
    }
    if (text.equalsIgnoreCase("true")) {
      return true;
    }
    throw new IOException(Settings.TLS + "=" + text + ": it is true or false");
  }

  private static TrustManager[] trusted(String path) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    int count = 0;
    try (InputStream in = Files.newInputStream(Paths.get(path))) {
      for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        store.setCertificateEntry("ca" + count++, certificate);
      }
    } catch (IOException | RuntimeException | GeneralSecurityException e) {
      throw new IOException(Settings.TLS_CA + ": " + path + ": no certificates in PEM: " + e, e);
    }
    if (count == 0) {
      throw new IOException(Settings.TLS_CA + ": " + path + ": no certificates in PEM");
    }
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }

  private static KeyManager[] keys(Configuration hive, String path) throws IOException, GeneralSecurityException {
    if (path.isEmpty()) {
      return null;
    }
    String passwordFile = hive.getTrimmed(Settings.TLS_KEYSTORE_PASSWORD_FILE, "");
    String text = passwordFile.isEmpty() ? ""
        : Credential.readText(Settings.TLS_KEYSTORE_PASSWORD_FILE, passwordFile).trim();
    char[] password = text.toCharArray();
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(Paths.get(path))) {
      store.load(in, password);
    } catch (IOException | RuntimeException | GeneralSecurityException e) {
      throw new IOException(Settings.TLS_KEYSTORE + ": " + path + ": no PKCS12 store, or a wrong password: " + e, e);
    }
    KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(store, password);
    return factory.getKeyManagers();
  }
}
