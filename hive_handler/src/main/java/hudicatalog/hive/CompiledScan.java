package hudicatalog.hive;

import java.io.IOException;
import java.io.UnsupportedEncodingException;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;

/**
 * Facts about a table at a query's compilation, passed on to the splits.
 *
 * <p>One text under one key: a job may have properties of several tables, and those that a table lacks would be
 * taken from another.
 */
final class CompiledScan {
  static final String KEY = Settings.PREFIX + "compiled.scan";

  private static final String QUERY_ID = "hive.query.id";
  private static final String LOCATION = "location";
  private static final String TABLE = "table";
  private static final String QUERY = "query";
  private static final String PIN = "pin";

  /** URI of the table's folder, as Hive has it. */
  final String location;
  /** database.table in Hive. */
  final String table;
  /** Hive's id of the query that was compiled. */
  final String queryId;
  /** The snapshot to read, as the service names it. */
  final String pin;
  final TreeMap<String, String> settings;

  CompiledScan(String location, String table, String queryId, String pin, Map<String, String> settings) {
    this.location = location;
    this.table = table;
    this.queryId = queryId;
    this.pin = pin;
    this.settings = new TreeMap<>(settings);
  }

  /**
   * A scan that has no snapshot yet.
   *
   * @param hive Hive's configuration while it compiles
   * @param table its properties in the metastore
   * @param name database.table
   */
  static CompiledScan of(Configuration hive, Properties table, String name) {
    return new CompiledScan(table.getProperty(LOCATION), name, hive.get(QUERY_ID, ""), null, Settings.of(hive, table));
  }

  CompiledScan withPin(String newPin) {
    return new CompiledScan(location, table, queryId, newPin, settings);
  }

  /** As `key=value&...`, escaped so that Hadoop replaces nothing in it. */
  String toText() {
    TreeMap<String, String> all = new TreeMap<>(settings);
    all.put(LOCATION, location);
    all.put(TABLE, table);
    all.put(QUERY, queryId);
    all.put(PIN, pin);
    StringBuilder out = new StringBuilder();
    for (Map.Entry<String, String> entry : all.entrySet()) {
      if (entry.getValue() != null) {
        out.append(out.length() == 0 ? "" : "&").append(escaped(entry.getKey())).append('=')
            .append(escaped(entry.getValue()));
      }
    }
    return out.toString();
  }

  /**
   * The scan of a job.
   *
   * @throws IOException when Hive compiled the query without the storage handler
   */
  static CompiledScan of(JobConf job) throws IOException {
    String text = job.getRaw(KEY);
    if (text == null) {
      throw new IOException("a Hudi table is read only through its storage handler: register it with"
          + " STORED BY '" + HudiStorageHandler.class.getName() + "', or by `hudi-catalog sync`");
    }
    return of(text);
  }

  /** The scan that {@link #toText} made a text of. */
  static CompiledScan of(String text) {
    TreeMap<String, String> all = new TreeMap<>();
    for (String part : text.split("&")) {
      int middle = part.indexOf('=');
      all.put(unescaped(part.substring(0, middle)), unescaped(part.substring(middle + 1)));
    }
    return new CompiledScan(all.remove(LOCATION), all.remove(TABLE), all.remove(QUERY), all.remove(PIN), all);
  }

  /** Whether another scan reads other rows of the same folder, however that is spelled. */
  boolean contradicts(CompiledScan other) {
    boolean isSameFolder = new Path(location).equals(new Path(other.location));
    return isSameFolder && !(Objects.equals(pin, other.pin)
        && Settings.forService(settings).equals(Settings.forService(other.settings)));
  }

  private static String escaped(String text) {
    try {
      return URLEncoder.encode(text, "UTF-8");
    } catch (UnsupportedEncodingException e) {
      throw new AssertionError(e);
    }
  }

  private static String unescaped(String text) {
    try {
      return URLDecoder.decode(text, "UTF-8");
    } catch (UnsupportedEncodingException e) {
      throw new AssertionError(e);
    }
  }
}
