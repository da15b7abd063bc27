package hudicatalog.hive;

import java.util.List;
import java.util.Map;
import java.util.TimeZone;

/** A scan of one table in one query; fields are those of hudi_catalog.thrift, null where they are absent. */
final class ScanRequest {
  final CompiledScan scan;
  final String queryId;
  final String pin;
  String filter;
  List<String> columns;
  String timeZone;
  String zoneOffsets;
  Long splitBytes;

  ScanRequest(CompiledScan scan, String queryId, String pin) {
    this.scan = scan;
    this.queryId = queryId;
    this.pin = pin;
  }

  /** Sets the time zone by whose clocks the filter goes. */
  void inZone(TimeZone zone) {
    timeZone = zone.getID();
    zoneOffsets = Clock.offsets(zone);
  }

  Map<String, String> settings() {
    return Settings.forService(scan.settings);
  }
}
