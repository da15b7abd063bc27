package hudicatalog.trino;

import com.google.inject.ConfigurationException;
import com.google.inject.spi.Message;
import io.airlift.configuration.ConfigPropertyMetadata;
import io.airlift.configuration.ConfigurationFactory;
import io.opentelemetry.api.OpenTelemetry;
import io.trino.filesystem.TrinoFileSystemFactory;
import io.trino.filesystem.s3.S3FileSystemConfig;
import io.trino.filesystem.s3.S3FileSystemFactory;
import io.trino.filesystem.s3.S3FileSystemStats;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Trino's own S3 file system. Its jars are in the plugin's folder by option: only this class needs them. */
final class S3Files {
  private S3Files() {}

  /**
   * Files on S3.
   *
   * @param properties of Trino's S3 file system, by their names in a catalog file
   * @throws IllegalArgumentException when a property is unknown or wrong
   */
  static TrinoFileSystemFactory factory(Map<String, String> properties, OpenTelemetry telemetry) {
    ConfigurationFactory reader = new ConfigurationFactory(properties);
    S3FileSystemConfig config;
    try {
      config = reader.build(S3FileSystemConfig.class);
    } catch (ConfigurationException e) {
      throw new IllegalArgumentException(
          e.getErrorMessages().stream().map(Message::getMessage).collect(Collectors.joining("; ")), e);
    }
    Set<String> unknown = new TreeSet<>(properties.keySet());
    reader.getUsedProperties().stream().map(ConfigPropertyMetadata::name).forEach(unknown::remove);
    if (!unknown.isEmpty()) {
      throw new IllegalArgumentException("Trino's S3 file system has no property " + unknown.iterator().next());
    }
    return new S3FileSystemFactory(telemetry, config, new S3FileSystemStats());
  }

  /** Let go of the connections of what `factory` gave. */
  static void close(TrinoFileSystemFactory files) {
    ((S3FileSystemFactory) files).destroy();
  }
}
