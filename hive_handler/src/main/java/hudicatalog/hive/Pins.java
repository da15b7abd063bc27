package hudicatalog.hive;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.metadata.Table;

/** The snapshots of queries that are being compiled: Hive asks several times for each scan of a table. */
final class Pins {
  private static final int MOST = 1000;

  /** A pin, or the failure to get one: a service that does not answer is waited for once in a query. */
  private static final Map<String, Object> KNOWN = new LinkedHashMap<String, Object>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, Object> eldest) {
      return size() > MOST;
    }
  };

  private Pins() {}

  /** The scan with the snapshot that all scans of this table in this query read. */
  static CompiledScan pinned(Configuration hive, CompiledScan scan) throws IOException {
    if (scan.queryId.isEmpty()) {
      return scan.withPin(new ServiceClient(hive, scan).pin(null));
    }
    String key = scan.toText();
    Object known;
    synchronized (KNOWN) {
      known = KNOWN.get(key);
    }
    if (known == null) {
      Object asked = asked(hive, scan);
      synchronized (KNOWN) {
        // The first caller decides for all.
        Object first = KNOWN.putIfAbsent(key, asked);
        known = first == null ? asked : first;
      }
    }
    if (known instanceof IOException) {
      throw (IOException) known;
    }
    return scan.withPin((String) known);
  }

  /** A scan of a table of the query. */
  static CompiledScan pinned(Configuration hive, Table table) throws IOException {
    return pinned(hive, CompiledScan.of(hive, table.getMetadata(), table.getFullyQualifiedName()));
  }

  private static Object asked(Configuration hive, CompiledScan scan) {
    List<String> read = StatementColumns.of(LikeStatement.parsed(HiveConf.getQueryString(hive)), scan.table,
        Settings.columnNames(scan.settings));
    try {
      return new ServiceClient(hive, scan).pin(read);
    } catch (IOException e) {
      return e;
    }
  }
}
