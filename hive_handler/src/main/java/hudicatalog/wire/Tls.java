package hudicatalog.wire;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.function.UnaryOperator;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** How connections are encrypted, from an engine's settings. */
public final class Tls {
  private final UnaryOperator<String> settings;
  private final String tls;
  private final String caKey;
  private final String keystoreKey;
  private final String passwordKey;

  private Tls(UnaryOperator<String> settings, String tls) {
    this.settings = settings;
    this.tls = tls;
    this.caKey = tls + ".ca";
    this.keystoreKey = tls + ".keystore";
    this.passwordKey = keystoreKey + ".password.file";
  }

  /**
   * The context; null when connections are not encrypted.
   *
   * @param settings gives a key's value, empty for none
   * @param tls the key that turns encryption on; `.ca`, `.keystore` and `.keystore.password.file` follow it in others
   * @throws IOException when a setting is wrong or a file has the wrong content
   */
  public static SSLContext of(UnaryOperator<String> settings, String tls) throws IOException {
    return new Tls(settings, tls).context();
  }

  private SSLContext context() throws IOException {
    String ca = settings.apply(caKey);
    String keystore = settings.apply(keystoreKey);
    if (!isOn()) {
      if (!ca.isEmpty() || !keystore.isEmpty()) {
        throw new IOException((ca.isEmpty() ? keystoreKey : caKey) + " is set, but not " + tls + "=true");
      }
      return null;
    }
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(keys(keystore), ca.isEmpty() ? null : trusted(ca), null);
      return context;
    } catch (GeneralSecurityException e) {
      throw new IOException("TLS: " + e, e);
    }
  }

  private boolean isOn() throws IOException {
    String text = settings.apply(tls);
    if (text.isEmpty() || text.equalsIgnoreCase("false")) {
      return false;
    }
    if (text.equalsIgnoreCase("true")) {
      return true;
    }
    throw new IOException(tls + "=" + text + ": it is true or false");
  }

  private TrustManager[] trusted(String path) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    int count = 0;
    InputStream in = new ByteArrayInputStream(SettingFile.bytes(caKey, path));
    try {
      for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        store.setCertificateEntry("ca" + count++, certificate);
      }
    } catch (RuntimeException | GeneralSecurityException e) {
      throw new IOException(caKey + ": " + path + ": no certificates in PEM: " + e, e);
    }
    if (count == 0) {
      throw new IOException(caKey + ": " + path + ": no certificates in PEM");
    }
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }

  private KeyManager[] keys(String path) throws IOException, GeneralSecurityException {
    if (path.isEmpty()) {
      return null;
    }
    String passwordFile = settings.apply(passwordKey);
    String text = passwordFile.isEmpty() ? ""
        : SettingFile.text(passwordKey, passwordFile).trim();
    char[] password = text.toCharArray();
    KeyStore store = KeyStore.getInstance("PKCS12");
    byte[] content = SettingFile.bytes(keystoreKey, path);
    try {
      store.load(new ByteArrayInputStream(content), password);
    } catch (IOException | RuntimeException | GeneralSecurityException e) {
      throw new IOException(keystoreKey + ": " + path + ": no PKCS12 store, or a wrong password: " + e, e);
    }
    KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(store, password);
    return factory.getKeyManagers();
  }
}
