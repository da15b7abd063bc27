package hudicatalog.trino;

import static io.trino.plugin.base.session.PropertyMetadataUtil.durationProperty;

import io.airlift.units.Duration;
import io.trino.spi.StandardErrorCode;
import io.trino.spi.TrinoException;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.session.PropertyMetadata;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** The session properties of a catalog. */
final class SessionOptions {
  private static final String WAIT = "dynamic_filtering_wait_timeout";
  private static final String READER_VALUES = "dynamic_filtering_reader_values";
  static final String BUCKETED = "bucket_execution_enabled";
  private static final String QUERY_TYPE = "query_type";
  private static final Set<String> QUERY_TYPES = Set.of("snapshot", "read_optimized");

  static final List<PropertyMetadata<?>> ALL = List.of(
      durationProperty(WAIT, "How long splits wait for the values of a join", new Duration(1, TimeUnit.SECONDS), false),
      PropertyMetadata.integerProperty(READER_VALUES,
          "Greatest number of a join's values by which readers leave out parts of files", 100, false),
      PropertyMetadata.booleanProperty(BUCKETED,
          "Whether joins and groupings may go by the buckets of tables, without an exchange of rows", true, false),
      PropertyMetadata.stringProperty(QUERY_TYPE,
          "How merge-on-read tables are read: snapshot, or read_optimized for their base files alone", "snapshot",
          SessionOptions::checkQueryType, false));

  private SessionOptions() {}

  static long waitMillis(ConnectorSession session) {
    return session.getProperty(WAIT, Duration.class).toMillis();
  }

  static int readerValues(ConnectorSession session) {
    return session.getProperty(READER_VALUES, Integer.class);
  }

  static boolean isBucketed(ConnectorSession session) {
    return session.getProperty(BUCKETED, Boolean.class);
  }

  static String queryType(ConnectorSession session) {
    return session.getProperty(QUERY_TYPE, String.class);
  }

  private static void checkQueryType(String value) {
    if (!QUERY_TYPES.contains(value)) {
      throw new TrinoException(StandardErrorCode.INVALID_SESSION_PROPERTY,
          QUERY_TYPE + " is snapshot or read_optimized, not " + value);
    }
  }
}
