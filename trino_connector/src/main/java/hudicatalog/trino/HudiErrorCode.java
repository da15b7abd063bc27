package hudicatalog.trino;

import static io.trino.spi.ErrorType.EXTERNAL;
import static io.trino.spi.ErrorType.INTERNAL_ERROR;
import static io.trino.spi.ErrorType.USER_ERROR;

import io.trino.spi.ErrorCode;
import io.trino.spi.ErrorCodeSupplier;
import io.trino.spi.ErrorType;
import io.trino.spi.TrinoException;

/** The connector's errors; clients see the name before the message. */
enum HudiErrorCode implements ErrorCodeSupplier {
  /** No service answers. */
  SERVICE_GONE(0, EXTERNAL),
  /** The service says why it cannot answer. */
  REFUSED(1, EXTERNAL),
  /** A reply that this connector does not understand. */
  BAD_REPLY(2, INTERNAL_ERROR),
  /** A file of the table cannot be read. */
  BAD_FILE(3, EXTERNAL),
  /** A version or time of a table that is not written as it must be. */
  BAD_VERSION(4, USER_ERROR);

  /** A range of this connector's own; Trino's own connectors have others. */
  private static final int FIRST = 0x0877_0000;

  private final ErrorCode code;

  HudiErrorCode(int number, ErrorType type) {
    this.code = new ErrorCode(FIRST + number, "HUDI_CATALOG_" + name(), type);
  }

  @Override
  public ErrorCode toErrorCode() {
    return code;
  }

  TrinoException exception(String message, Throwable cause) {
    return new TrinoException(this, message, cause);
  }
}
