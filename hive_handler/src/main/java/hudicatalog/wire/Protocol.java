package hudicatalog.wire;

/** The contract between engines and the services, hudi_catalog.thrift. */
public final class Protocol {
  public static final int VERSION = 3;

  /** What the shared secret signs for. */
  public static final String PURPOSE = "hudi-catalog " + VERSION;

  private Protocol() {}
}
