package hudicatalog.wire;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.Set;

/** A file that a setting names; errors name both. */
final class SettingFile {
  /** As for the service; Kubernetes mounts files whose mode cannot be set. */
  private static final String READABLE = "HUDI_CATALOG_READABLE_SECRETS";
  private static final Set<PosixFilePermission> OF_OWNER = EnumSet.of(PosixFilePermission.OWNER_READ,
      PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_EXECUTE);

  private SettingFile() {}

  /** The file's bytes. */
  static byte[] bytes(String setting, String path) throws IOException {
    try {
      return Files.readAllBytes(Paths.get(path));
    } catch (IOException | RuntimeException e) {
      throw unreadable(setting, path, e);
    }
  }

  /** The file's text. */
  static String text(String setting, String path) throws IOException {
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes(setting, path))).toString();
    } catch (CharacterCodingException e) {
      throw new IOException(setting + ": " + path + " is no text in UTF-8", e);
    }
  }

  /**
   * The text of a file that only its owner may use.
   *
   * @throws IOException when others may, where the file system knows; or it cannot be read
   */
  static String privateText(String setting, String path) throws IOException {
    String allowed = System.getenv(READABLE);
    if (allowed == null || !allowed.trim().equalsIgnoreCase("true")) {
      refuseOthers(setting, path);
    }
    return text(setting, path);
  }

  private static void refuseOthers(String setting, String path) throws IOException {
    Set<PosixFilePermission> permissions;
    try {
      permissions = Files.getPosixFilePermissions(Paths.get(path));
    } catch (UnsupportedOperationException e) {
      return;
    } catch (IOException | RuntimeException e) {
      throw unreadable(setting, path, e);
    }
    if (!OF_OWNER.containsAll(permissions)) {
      throw new IOException(setting + ": " + path + ": its mode " + PosixFilePermissions.toString(permissions)
          + " lets others than its owner use it; chmod 600 it, or set " + READABLE + "=true where its mode cannot be"
          + " set");
    }
  }

  private static IOException unreadable(String setting, String path, Exception error) {
    String reason = error instanceof NoSuchFileException ? "there is no such file"
        : error instanceof AccessDeniedException ? "permission denied" : error.toString();
    return new IOException(setting + ": " + path + " cannot be read: " + reason, error);
  }
}
