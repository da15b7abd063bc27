package hudicatalog.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CredentialTest {
  private static final String TEXT = "0123456789abcdef-ä";

  @TempDir
  Path folder;

  @Test
  void aSecretIsTheTextOfAFileOfItsOwnersAlone() throws IOException {
    for (String mode : new String[] {"rw-------", "r--------"}) {
      Path file = file(("\n " + TEXT + "\n").getBytes(StandardCharsets.UTF_8), mode);
      assertArrayEquals(TEXT.getBytes(StandardCharsets.UTF_8), Credential.secret("key", file.toString()));
    }
  }

  @Test
  void aFileThatOthersMayUseIsRefused() throws IOException {
    for (String mode : new String[] {"rw-r-----", "rw----r--", "rw--w----", "rwxrwxrwx"}) {
      assertEquals("key: " + folder + "/secret: its mode " + mode + " lets others than its owner use it; chmod 600 it, or"
          + " set HUDI_CATALOG_READABLE_SECRETS=true where its mode cannot be set",
          refusal(file(TEXT.getBytes(StandardCharsets.UTF_8), mode)));
    }
  }

  @Test
  void bytesThatAreNoLineOfTextAreRefused() throws IOException {
    byte[] random = new byte[32];
    for (int i = 0; i < random.length; i++) {
      random[i] = (byte) (200 + i);
    }
    assertEquals("key: " + folder + "/secret is no text in UTF-8", refusal(file(random, "rw-------")));
    for (String text : new String[] {"0123456789\nabcdef", "0123456789\u0000abcdef"}) {
      String message = refusal(file(text.getBytes(StandardCharsets.UTF_8), "rw-------"));
      assertTrue(message.endsWith("/secret: a secret is one line of printable text in UTF-8, such as `openssl rand -hex 32`"
          + " prints"), message);
    }
  }

  @Test
  void whatIsMissingIsNamed() {
    assertEquals("key: " + folder + "/secret cannot be read: there is no such file", refusal(folder.resolve("secret")));
    String ca = folder + "/ca.pem";
    String message = assertThrows(IOException.class, () -> Tls.of(
        key -> key.equals("tls") ? "true" : key.equals("tls.ca") ? ca : "", "tls")).getMessage();
    assertEquals("tls.ca: " + ca + " cannot be read: there is no such file", message);
  }

  private Path file(byte[] content, String mode) throws IOException {
    Path file = folder.resolve("secret");
    Files.deleteIfExists(file);
    Files.write(file, content);
    return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
  }

  private static String refusal(Path file) {
    return assertThrows(IOException.class, () -> Credential.secret("key", file.toString())).getMessage();
  }
}
