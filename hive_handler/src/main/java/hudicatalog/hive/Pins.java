package hudicatalog.hive;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

/** The snapshots of queries that are being compiled: Hive asks once or twice for each scan of a table. */
final class Pins {
  private static final int MOST = 1000;

  private static final Map<String, String> KNOWN = new LinkedHashMap<String, String>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
      return size() > MOST;
    }
  };

  private Pins() {}

  /** The scan with the snapshot that all scans of this table in this query read. */
  static CompiledScan pinned(Configuration hive, CompiledScan scan) throws IOException {
    if (scan.queryId.isEmpty()) {
      return scan.withPin(new ServiceClient(hive, scan).pin());
    }
    String key = scan.toText();
    String pin;
    synchronized (KNOWN) {
      pin = KNOWN.get(key);
    }
    if (pin == null) {
      String asked = new ServiceClient(hive, scan).pin();
      synchronized (KNOWN) {
        // The first caller decides for all.
        String first = KNOWN.putIfAbsent(key, asked);
        pin = first == null ? asked : first;
      }
    }
    return scan.withPin(pin);
  }
}
