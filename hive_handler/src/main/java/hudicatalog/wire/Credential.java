package hudicatalog.wire;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Proof that an engine knows the secret that the service asks for; hudi_catalog.thrift says what is signed. */
public final class Credential {
  private static final String ENVIRONMENT = "HUDI_CATALOG_SECRET";
  private static final String ALGORITHM = "HmacSHA256";
  private static final int LEAST = 16;
  private static final int NONCE = 16;
  private static final SecureRandom RANDOM = new SecureRandom();

  public final long time;
  public final byte[] nonce;
  public final byte[] signature;

  private Credential(long time, byte[] nonce, byte[] signature) {
    this.time = time;
    this.nonce = nonce;
    this.signature = signature;
  }

  /**
   * The secret of this engine: the text of a file, or of the environment; null if there is none.
   *
   * @param setting that names the file
   * @param path of the file; empty for none
   * @throws IOException when the file cannot be read or others than its owner may use it, or the secret is too short
   *     or no line of text
   */
  public static byte[] secret(String setting, String path) throws IOException {
    String text = path.isEmpty() ? System.getenv(ENVIRONMENT) : SettingFile.privateText(setting, path);
    if (text == null) {
      return null;
    }
    String where = path.isEmpty() ? ENVIRONMENT : path;
    String trimmed = text.trim();
    if (trimmed.chars().anyMatch(Character::isISOControl)) {
      throw new IOException(where + ": a secret is one line of printable text in UTF-8, such as `openssl rand -hex 32`"
          + " prints");
    }
    byte[] secret = trimmed.getBytes(StandardCharsets.UTF_8);
    if (secret.length < LEAST) {
      throw new IOException(where + ": a secret of " + secret.length + " bytes; it must have at least " + LEAST);
    }
    return secret;
  }

  /** Sign one call of this moment; a call that is made again is signed again. */
  public static Credential now(byte[] secret, String method, byte[] request) throws IOException {
    byte[] nonce = new byte[NONCE];
    RANDOM.nextBytes(nonce);
    return of(secret, System.currentTimeMillis(), nonce, method, request);
  }

  /**
   * Sign a call.
   *
   * @param request the struct as it stands in the call
   */
  public static Credential of(byte[] secret, long time, byte[] nonce, String method, byte[] request)
      throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeLong(time);
    out.write(nonce);
    byte[] name = method.getBytes(StandardCharsets.UTF_8);
    out.writeInt(name.length);
    out.write(name);
    out.write(request);
    byte[] key = hmac(secret, Protocol.PURPOSE.getBytes(StandardCharsets.UTF_8));
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
