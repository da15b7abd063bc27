package hudicatalog.trino;

import io.opentelemetry.api.OpenTelemetry;
import io.trino.filesystem.TrinoFileSystem;
import io.trino.filesystem.TrinoFileSystemFactory;
import io.trino.filesystem.local.LocalFileSystemFactory;
import io.trino.spi.connector.ConnectorSession;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** The file systems that nodes open base files on: those that they mount, and S3 where the catalog turns it on. */
final class FileSystems implements AutoCloseable {
  /** Schemes of locations on S3. */
  static final List<String> S3 = List.of("s3", "s3a");

  private final TrinoFileSystemFactory mounted = new LocalFileSystemFactory(Path.of("/"));
  private final Optional<TrinoFileSystemFactory> s3;

  /**
   * The file systems of a catalog.
   *
   * @throws IllegalArgumentException when S3 is on, and its jars are not in the plugin's folder or a property is wrong
   */
  FileSystems(ConnectorSettings settings, OpenTelemetry telemetry) {
    try {
      this.s3 = settings.s3().map(properties -> S3Files.factory(properties, telemetry));
    } catch (NoClassDefFoundError e) {
      throw new IllegalArgumentException(ConnectorSettings.S3 + " is set, and the plugin's folder lacks jars of Trino's S3"
          + " file system (" + e.getMessage() + "): lay it out by `hudi-catalog trino-plugin --s3`", e);
    }
  }

  static boolean isOnS3(String location) {
    return S3.stream().anyMatch(scheme -> location.startsWith(scheme + "://"));
  }

  /** The file system of a location; the service names none on S3 unless the catalog turns S3 on. */
  TrinoFileSystem at(String location, ConnectorSession session) {
    return (isOnS3(location) ? s3.orElseThrow() : mounted).create(session);
  }

  @Override
  public void close() {
    s3.ifPresent(S3Files::close);
  }
}
