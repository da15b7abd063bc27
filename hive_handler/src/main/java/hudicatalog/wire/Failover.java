package hudicatalog.wire;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLException;

/**
 * Asks one service after the other, and all of them again after a pause where that may help. One that gave no answer is
 * asked last for a while, by all queries of this process, so that few of them wait for it.
 */
public final class Failover {
  /** A service that is being started again is back soon. */
  private static final long[] PAUSES_MILLIS = {0, 200, 800, 2000};
  private static final SilentAddresses SILENT = new SilentAddresses(System::nanoTime);

  private Failover() {}

  /** One request to one service. */
  public interface Attempt<T> {
    T at(Address address) throws IOException, RefusedException;
  }

  /** A reply that breaks the contract. */
  public static final class UnreadableException extends IOException {
    private static final long serialVersionUID = 1L;

    public UnreadableException(Exception cause) {
      super("an answer that cannot be read: " + text(cause), cause);
    }
  }

  /** No service answered; the message says why for each. */
  public static final class UnansweredException extends IOException {
    private static final long serialVersionUID = 1L;

    UnansweredException(List<String> reasons, Exception last) {
      super("the service does not answer (" + String.join("; ", reasons) + ")", last);
    }
  }

  /**
   * The first answer.
   *
   * @param timeoutMillis after which no further round begins
   * @throws RefusedException when a service refuses for good, or still does in the last round
   * @throws UnansweredException when none answers
   */
  public static <T> T first(List<Address> addresses, long timeoutMillis, Attempt<T> attempt)
      throws IOException, RefusedException {
    return first(addresses, timeoutMillis, SILENT, attempt);
  }

  static <T> T first(List<Address> addresses, long timeoutMillis, SilentAddresses silent, Attempt<T> attempt)
      throws IOException, RefusedException {
    long start = System.nanoTime();
    List<String> reasons = new ArrayList<>();
    Exception last = null;
    RefusedException refusal = null;
    for (long pause : PAUSES_MILLIS) {
      if (last != null && (System.nanoTime() - start) / 1_000_000 + pause > timeoutMillis) {
        break;
      }
      sleep(pause);
      reasons.clear();
      refusal = null;
      boolean mayPass = false;
      for (Address address : silent.order(addresses, timeoutMillis)) {
        try {
          T answer = attempt.at(address);
          silent.answered(address);
          return answer;
        } catch (RefusedException e) {
          silent.answered(address);
          if (!e.retryable) {
            throw e;
          }
          last = e;
          refusal = e;
          mayPass = true;
          reasons.add(address + ": " + e.getMessage());
        } catch (IOException e) {
          last = e;
          if (!(e instanceof UnreadableException)) {
            silent.failed(address);
          }
          mayPass |= isPassing(e);
          reasons.add(address + ": " + text(e));
        }
      }
      if (!mayPass) {
        break;
      }
    }
    if (refusal != null) {
      throw refusal;
    }
    throw new UnansweredException(reasons, last);
  }

  private static boolean isPassing(IOException error) {
    boolean isBroken = error instanceof ConnectException || error instanceof SocketException
        || error instanceof EOFException;
    return isBroken && !(error instanceof SSLException);
  }

  private static String text(Exception error) {
    return error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
  }

  private static void sleep(long millis) throws IOException {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("the query was cancelled");
    }
  }
}
