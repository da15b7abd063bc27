package hudicatalog.hive;

/** A query cannot be compiled; Hive shows the message. */
public class HudiQueryException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  HudiQueryException(String message) {
    super(message);
  }

  HudiQueryException(String message, Throwable cause) {
    super(message, cause);
  }
}
