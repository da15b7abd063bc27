package hudicatalog.hive;

/** The refusal of a statement that would write. */
final class ReadOnly {
  private ReadOnly() {}

  static String message(String table) {
    return "Hudi table " + table + " is read-only in Hive: write it with Spark or with hudi-catalog's writer";
  }
}
