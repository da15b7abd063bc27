package hudicatalog.hive;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.conf.Configuration;

/** Proof that this Hive knows the secret that the service asks for; hudi_hive.thrift says what is signed. */
final class Credential {
  private static final String ENVIRONMENT = "HUDI_CATALOG_SECRET";
  private static final String ALGORITHM = "HmacSHA256";
  private static final String PURPOSE = "hive 2";
  private static final int LEAST = 16;
  private static final int NONCE = 16;
  private static final SecureRandom RANDOM = new SecureRandom();

  final long time;
  final byte[] nonce;
  final byte[] signature;

  private Credential(long time, byte[] nonce, byte[] signature) {
    this.time = time;
    this.nonce = nonce;
    this.signature = signature;
  }

  /**
   * The secret of this Hive: the text of a file, or of the environment; null if there is none.
   *
   * @throws IOException when the file cannot be read, or the secret is too short
   */
  static byte[] secret(Configuration hive) throws IOException {
    String path = hive.getTrimmed(Settings.SECRET_FILE, "");
    String text = path.isEmpty() ? System.getenv(ENVIRONMENT) : readText(Settings.SECRET_FILE, path);
    if (text == null) {
      return null;
    }
    byte[] secret = text.trim().getBytes(StandardCharsets.UTF_8);
    if (secret.length < LEAST) {
      throw new IOException((path.isEmpty() ? ENVIRONMENT : path) + ": a secret of " + secret.length
          + " bytes; it must have at least " + LEAST);
    }
    return secret;
  }

  /** The text of a file that a setting names. */
  static String readText(String setting, String path) throws IOException {
    try {
      return new String(Files.readAllBytes(Paths.get(path)), StandardCharsets.UTF_8);
    } catch (IOException | RuntimeException e) {
      throw new IOException(setting + ": " + path + " cannot be read: " + e, e);
    }
  }

  /** Sign one call of this moment; a call that is made again is signed again. */
  static Credential now(byte[] secret, String method, byte[] request) throws IOException {
    byte[] nonce = new byte[NONCE];
    RANDOM.nextBytes(nonce);
    return of(secret, System.currentTimeMillis(), nonce, method, request);
  }

  /** Sign a call whose request is encoded by {@link Messages#encoded}. */
  static Credential of(byte[] secret, long time, byte[] nonce, String method, byte[] request) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeLong(time);
    out.write(nonce);
    byte[] name = method.getBytes(StandardCharsets.UTF_8);
    out.writeInt(name.length);
    out.write(name);
    out.write(request);
    byte[] key = hmac(secret, PURPOSE.getBytes(StandardCharsets.UTF_8));
    return new Credential(time, nonce, hmac(key, bytes.toByteArray()));
  }

  private static byte[] hmac(byte[] key, byte[] payload) throws IOException {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(new SecretKeySpec(key, ALGORITHM));
      return mac.doFinal(payload);
    } catch (GeneralSecurityException e) {
      throw new IOException("a request cannot be signed: " + e, e);
    }
  }
}
