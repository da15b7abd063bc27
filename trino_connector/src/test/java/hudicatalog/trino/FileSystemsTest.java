package hudicatalog.trino;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.api.OpenTelemetry;
import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FileSystemsTest {
  private static final Map<String, String> S3 = Map.of("s3.region", "us-east-1", "s3.aws-access-key", "a",
      "s3.aws-secret-key", "b", "s3.endpoint", "http://127.0.0.1:1", "s3.path-style-access", "true");

  /** Makes the file systems of a catalog file, as the connector does. */
  public static void open(Map<String, String> more) {
    Map<String, String> config = new HashMap<>(more);
    config.put(ConnectorSettings.SERVICE, "127.0.0.1:1");
    new FileSystems(ConnectorSettings.of(config, "1", "1"), OpenTelemetry.noop()).close();
  }

  private static Map<String, String> with(String... pairs) {
    Map<String, String> config = new HashMap<>(S3);
    for (int i = 0; i < pairs.length; i += 2) {
      config.put(pairs[i], pairs[i + 1]);
    }
    return config;
  }

  private static String refusal(Map<String, String> config) {
    return assertThrows(IllegalArgumentException.class, () -> open(config)).getMessage();
  }

  @Test
  void s3HasTrinosProperties() {
    open(Map.of());
    open(with("fs.native-s3.enabled", "true"));
    Map<String, String> role = with("fs.s3.enabled", "true", "s3.iam-role", "arn:aws:iam::1:role/r");
    if (!Release.TRINO.equals("476")) {
      role.put("s3.auth-type", "IAM_ROLE");
    }
    open(role);
    assertEquals("s3.aws-access-key counts only with fs.native-s3.enabled=true", refusal(S3));
    assertEquals("Trino's S3 file system has no property s3.regoin",
        refusal(with("fs.native-s3.enabled", "true", "s3.regoin", "x")));
    String wrong = refusal(with("fs.native-s3.enabled", "true", "s3.max-connections", "many"));
    assertTrue(wrong.contains("s3.max-connections") && !wrong.contains("\n"), wrong);
  }

  @Test
  void withoutItsJarsTheCommandIsNamed() throws Exception {
    List<URL> paths = new ArrayList<>();
    for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
      if (!path.matches(".*(filesystem-s3|awssdk).*")) {
        paths.add(new File(path).toURI().toURL());
      }
    }
    try (URLClassLoader plugin = new URLClassLoader(paths.toArray(URL[]::new), ClassLoader.getPlatformClassLoader())) {
      var open = plugin.loadClass(FileSystemsTest.class.getName()).getMethod("open", Map.class);
      open.setAccessible(true);
      open.invoke(null, Map.of());
      Throwable error = assertThrows(InvocationTargetException.class,
          () -> open.invoke(null, with("fs.native-s3.enabled", "true"))).getCause();
      assertTrue(error.getMessage().endsWith("lay it out by `hudi-catalog trino-plugin --s3`"), error.getMessage());
      assertFalse(error.getMessage().contains("\n"), error.getMessage());
    }
  }

  @Test
  void schemesOfS3() {
    assertTrue(FileSystems.isOnS3("s3://bucket/t"));
    assertTrue(FileSystems.isOnS3("s3a://bucket/t"));
    assertFalse(FileSystems.isOnS3("file:///s3/t#"));
  }
}
