package hudicatalog.hive;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;

/** The settings whose keys begin with {@code hoodie.catalog.hive.}: a property of the table wins over Hive's own. */
final class Settings {
  static final String PREFIX = "hoodie.catalog.hive.";
  static final String SERVICE = PREFIX + "service";
  static final String TIMEOUT = PREFIX + "timeout.seconds";
  static final String TLS = PREFIX + "tls";
  static final String TLS_CA = TLS + ".ca";
  static final String TLS_KEYSTORE = TLS + ".keystore";
  static final String TLS_KEYSTORE_PASSWORD_FILE = TLS_KEYSTORE + ".password.file";
  static final String SECRET_FILE = PREFIX + "secret.file";

  private static final String COLUMNS = PREFIX + "columns";
  private static final String COLUMN_TYPES = COLUMNS + ".types";

  /** Users who may create tables must not choose which files are read as secrets, nor turn off encryption. */
  private static final Set<String> ONLY_IN_HIVES_CONFIGURATION = Collections.unmodifiableSet(new HashSet<>(
      Arrays.asList(TLS, TLS_CA, TLS_KEYSTORE, TLS_KEYSTORE_PASSWORD_FILE, SECRET_FILE)));

  private Settings() {}

  /** The settings of a scan: those of Hive's configuration, replaced by those of the table. */
  static TreeMap<String, String> of(Configuration hive, Properties table) {
    TreeMap<String, String> merged = new TreeMap<>();
    for (Map.Entry<String, String> entry : hive) {
      if (isSetting(entry.getKey()) && !ONLY_IN_HIVES_CONFIGURATION.contains(entry.getKey())) {
        merged.put(entry.getKey(), hive.get(entry.getKey()).trim());
      }
    }
    for (String key : table.stringPropertyNames()) {
      if (isSetting(key)) {
        merged.put(key, table.getProperty(key).trim());
      }
    }
    // The service refuses an entry with a wrong column type: Hive would read nulls.
    merged.put(COLUMNS, table.getProperty("columns", ""));
    merged.put(COLUMN_TYPES, table.getProperty("columns.types", ""));
    return merged;
  }

  /** Names of the entry's columns, as Hive lists them. */
  static List<String> columnNames(Map<String, String> settings) {
    String names = settings.getOrDefault(COLUMNS, "");
    return names.isEmpty() ? Collections.emptyList() : Arrays.asList(names.split(names.indexOf('\0') >= 0 ? "\0" : ","));
  }

  /** The first key that only Hive's configuration may have; null when there is none. */
  static String misplaced(Iterable<?> tableKeys) {
    for (Object key : tableKeys) {
      if (ONLY_IN_HIVES_CONFIGURATION.contains(key)) {
        return (String) key;
      }
    }
    return null;
  }

  /** The settings that are sent to the service: neither where it is nor what the connection needs. */
  static TreeMap<String, String> forService(Map<String, String> settings) {
    TreeMap<String, String> sent = new TreeMap<>(settings);
    sent.keySet().removeAll(ONLY_IN_HIVES_CONFIGURATION);
    sent.remove(SERVICE);
    sent.remove(TIMEOUT);
    return sent;
  }

  private static boolean isSetting(String key) {
    return key.startsWith(PREFIX) && !key.equals(CompiledScan.KEY);
  }
}
