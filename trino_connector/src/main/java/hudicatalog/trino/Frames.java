package hudicatalog.trino;

import hudicatalog.wire.Credential;
import hudicatalog.wire.Protocol;
import hudicatalog.wire.RefusedException;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The messages of hudi_catalog.thrift in Thrift's binary protocol, by hand: all calls have one form. */
final class Frames {
  private static final int PROTOCOL = 0x80010000;
  private static final int CALL = 1;
  private static final int REPLY = 2;
  private static final int EXCEPTION = 3;
  private static final int SEQUENCE = 1;
  private static final byte STOP = 0;
  private static final byte BOOL = 2;
  private static final byte BYTE = 3;
  private static final byte DOUBLE = 4;
  private static final byte I16 = 6;
  private static final byte I32 = 8;
  private static final byte I64 = 10;
  private static final byte STRING = 11;
  private static final byte STRUCT = 12;

  private Frames() {}

  /** A reply that breaks the contract. */
  static final class MalformedException extends IOException {
    MalformedException(String message) {
      super(message);
    }
  }

  /** The struct of a request, as it stands in a call and as it is signed. */
  static byte[] request(byte[] body) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(body.length + 16);
    DataOutputStream out = new DataOutputStream(bytes);
    field(out, I32, 1);
    out.writeInt(Protocol.VERSION);
    field(out, STRING, 2);
    binary(out, body);
    out.writeByte(STOP);
    return bytes.toByteArray();
  }

  /**
   * A call.
   *
   * @param request as from {@link #request}
   * @param credential null for none
   */
  static byte[] call(String method, byte[] request, Credential credential) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(request.length + 128);
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(PROTOCOL | CALL);
    binary(out, method.getBytes(StandardCharsets.UTF_8));
    out.writeInt(SEQUENCE);
    field(out, STRUCT, 1);
    out.write(request);
    if (credential != null) {
      field(out, STRUCT, 2);
      field(out, I64, 1);
      out.writeLong(credential.time);
      field(out, STRING, 2);
      binary(out, credential.signature);
      field(out, STRING, 3);
      binary(out, credential.nonce);
      out.writeByte(STOP);
    }
    out.writeByte(STOP);
    return bytes.toByteArray();
  }

  private static void field(DataOutputStream out, byte type, int number) throws IOException {
    out.writeByte(type);
    out.writeShort(number);
  }

  private static void binary(DataOutputStream out, byte[] value) throws IOException {
    out.writeInt(value.length);
    out.write(value);
  }

  /**
   * The result in a reply to a call.
   *
   * @throws RefusedException when the service refuses the call
   * @throws MalformedException when the bytes are no reply to it
   */
  static byte[] result(String method, byte[] reply) throws RefusedException, MalformedException {
    try {
      ByteBuffer in = ByteBuffer.wrap(reply);
      int kind = in.getInt();
      String name = text(in);
      int sequence = in.getInt();
      if (kind == (PROTOCOL | EXCEPTION)) {
        throw new MalformedException(applicationError(in));
      }
      if (kind != (PROTOCOL | REPLY) || sequence != SEQUENCE || !name.equals(method)) {
        throw new MalformedException("a message that is not a reply to " + method);
      }
      byte type = in.get();
      short number = type == STOP ? -1 : in.getShort();
      if (type == STRING && number == 0) {
        return bytes(in);
      }
      if (type == STRUCT && number == 1) {
        throw refusal(in);
      }
      throw new MalformedException("a reply without a result");
    } catch (BufferUnderflowException | IllegalArgumentException e) {
      throw new MalformedException("a reply that ends too soon");
    }
  }

  private static RefusedException refusal(ByteBuffer in) throws MalformedException {
    String message = null;
    boolean retryable = false;
    for (byte type = in.get(); type != STOP; type = in.get()) {
      short number = in.getShort();
      if (type == STRING && number == 1) {
        message = text(in);
      } else if (type == BOOL && number == 2) {
        retryable = in.get() != 0;
      } else {
        skip(in, type);
      }
    }
    if (message == null) {
      throw new MalformedException("a refusal without a message");
    }
    return new RefusedException(message, retryable);
  }

  private static String applicationError(ByteBuffer in) throws MalformedException {
    String message = "an error without a message";
    for (byte type = in.get(); type != STOP; type = in.get()) {
      short number = in.getShort();
      if (type == STRING && number == 1) {
        message = text(in);
      } else {
        skip(in, type);
      }
    }
    return message;
  }

  private static void skip(ByteBuffer in, byte type) throws MalformedException {
    int size = switch (type) {
      case BOOL, BYTE -> 1;
      case I16 -> 2;
      case I32 -> 4;
      case I64, DOUBLE -> 8;
      case STRING -> in.getInt();
      default -> throw new MalformedException("a field of type " + type);
    };
    in.position(in.position() + size);
  }

  private static String text(ByteBuffer in) {
    return new String(bytes(in), StandardCharsets.UTF_8);
  }

  private static byte[] bytes(ByteBuffer in) {
    int size = in.getInt();
    if (size < 0 || size > in.remaining()) {
      throw new BufferUnderflowException();
    }
    int at = in.position();
    in.position(at + size);
    return Arrays.copyOfRange(in.array(), at, at + size);
  }
}
