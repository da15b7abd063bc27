package hudicatalog.trino;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hudicatalog.wire.Connection;
import hudicatalog.wire.Credential;
import hudicatalog.wire.Failover;
import hudicatalog.wire.RefusedException;
import java.io.EOFException;
import java.io.IOException;
import java.util.List;
import javax.net.ssl.SSLException;

/** Asks the service; when it cannot answer, the query fails with one message that says so. Thread-safe. */
final class ServiceClient {
  static final ObjectMapper JSON = new ObjectMapper();

  private final ConnectorSettings settings;

  ServiceClient(ConnectorSettings settings) {
    this.settings = settings;
  }

  static ObjectNode object() {
    return JSON.createObjectNode();
  }

  /** JSON that this connector wrote, or the service: a part of a handle. */
  static JsonNode tree(String text) {
    try {
      return JSON.readTree(text);
    } catch (IOException e) {
      throw HudiErrorCode.BAD_REPLY.exception("a handle that is not JSON: " + e.getMessage(), e);
    }
  }

  /** Schemes of the stores whose files this connector opens itself, beside what nodes mount. */
  List<String> stores() {
    return settings.s3().isPresent() ? FileSystems.S3 : List.of();
  }

  /** The reply to a call, which is JSON. */
  JsonNode ask(String method, ObjectNode body) {
    byte[] reply = bytes(method, body);
    try {
      return JSON.readTree(reply);
    } catch (IOException e) {
      throw HudiErrorCode.BAD_REPLY.exception(method + ": the service's reply is not JSON: " + e.getMessage(), e);
    }
  }

  /** The reply to a call. */
  byte[] bytes(String method, ObjectNode body) {
    try {
      byte[] request = Frames.request(JSON.writeValueAsBytes(body));
      return Failover.first(settings.services(), settings.timeoutMillis(), address -> {
        Credential credential = settings.secret() == null ? null
            : Credential.now(settings.secret(), method, request);
        byte[] reply = Connection.ask(address.host, address.port, settings.tls(), settings.timeoutMillis(),
            Frames.call(method, request, credential));
        try {
          return Frames.result(method, reply);
        } catch (Frames.MalformedException e) {
          throw new Failover.UnreadableException(e);
        }
      });
    } catch (RefusedException e) {
      throw HudiErrorCode.REFUSED.exception(e.getMessage(), e);
    } catch (IOException e) {
      throw HudiErrorCode.SERVICE_GONE.exception(e.getMessage() + ": " + remedy(e.getCause()), e);
    }
  }

  /** What to do about a service that gave no answer, by how the last exchange failed. */
  private String remedy(Throwable failure) {
    boolean encrypted = settings.tls() != null;
    if (encrypted && failure instanceof SSLException) {
      return "see that the service there has a certificate (`--tls-certificate`), that " + ConnectorSettings.TLS
          + ".ca names the authority of it, and that it is for this host";
    }
    String runs = "see that `hudi-catalog serve trino` runs there, or correct " + ConnectorSettings.SERVICE
        + " in the catalog file";
    return failure instanceof EOFException && !encrypted
        ? runs + "; a service with a certificate wants " + ConnectorSettings.TLS + "=true" : runs;
  }
}
