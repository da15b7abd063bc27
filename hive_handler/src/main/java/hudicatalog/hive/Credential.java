package hudicatalog.hive;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.conf.Configuration;

/** Proof that this Hive knows the secret that the service asks for; hudi_hive.thrift says what is signed. */
final class Credential {
  private static final String ENVIRONMENT = "HUDI_CATALOG_SECRET";
  private static final String ALGORITHM = "HmacSHA256";
  private static final int LEAST = 16;

  final long time;
  final byte[] signature;

  private Credential(long time, byte[] signature) {
    this.time = time;
    this.signature = signature;
  }

  /**
   * The secret of this Hive: the text of a file, or of the environment; null when there is none.
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

  /** Sign a call. */
  static Credential of(byte[] secret, long time, String method, ScanRequest request) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeLong(time);
    for (String part : new String[] {method, request.scan.location, request.scan.table, request.queryId, request.pin,
        request.filter}) {
      byte[] text = part == null ? null : part.getBytes(StandardCharsets.UTF_8);
      out.writeInt(text == null ? -1 : text.length);
      if (text != null) {
        out.write(text);
      }
    }
    byte[] key = hmac(secret, "hive".getBytes(StandardCharsets.UTF_8));
    return new Credential(time, hmac(key, bytes.toByteArray()));
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
