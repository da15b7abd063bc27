package hudicatalog.wire;

/** The service's own reason not to answer. */
public final class RefusedException extends Exception {
  private static final long serialVersionUID = 1L;
  public final boolean retryable;

  public RefusedException(String message, boolean retryable) {
    super(message);
    this.retryable = retryable;
  }
}
