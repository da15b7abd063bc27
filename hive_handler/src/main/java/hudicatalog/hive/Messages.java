package hudicatalog.hive;

import hudicatalog.wire.Credential;
import hudicatalog.wire.Protocol;
import hudicatalog.wire.RefusedException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TList;
import org.apache.thrift.protocol.TMap;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.protocol.TProtocolException;
import org.apache.thrift.protocol.TProtocolUtil;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TMemoryBuffer;
import org.apache.thrift.transport.TMemoryInputTransport;

/** Hive's messages of hudi_catalog.thrift in Thrift's binary protocol, by hand: four calls and eight structs. */
final class Messages {
  static final String PIN = "pin";
  static final String SPLITS = "splits";
  static final String STATISTICS = "statistics";
  static final String VALUES = "values";

  private static final int SEQUENCE = 1;

  private Messages() {}

  /** Row groups of a file, as the service names them: nothing is checked yet. */
  static final class Split {
    String path;
    Long start;
    Long length;
  }

  /** The splits of a scan. */
  static final class Splits {
    Integer version;
    String pin;
    List<Split> splits;
    Long filesTotal;
    Long filesKept;
  }

  /** Statistics of a column, null where the service knows none. */
  static final class Column {
    String name;
    Long nulls;
    Double low;
    Double high;
    Long distinct;
    Double length;
    Double spread;
  }

  /** Statistics of a snapshot. */
  static final class Statistics {
    Long files;
    Long bytes;
    Long rows;
    Boolean exact;
    List<Column> columns;
  }

  /** The struct of a request, as it stands in a call and as it is signed. */
  static byte[] encoded(ScanRequest request) throws TException {
    TMemoryBuffer buffer = new TMemoryBuffer(1024);
    writeRequest(new TBinaryProtocol(buffer, true, true), request);
    return Arrays.copyOf(buffer.getArray(), buffer.length());
  }

  /**
   * A call of a method.
   *
   * @param request as from {@link #encoded}
   * @param credential null for none
   */
  static byte[] call(String method, byte[] request, Credential credential) throws TException {
    TMemoryBuffer buffer = new TMemoryBuffer(1024);
    TProtocol out = new TBinaryProtocol(buffer, true, true);
    out.writeMessageBegin(new TMessage(method, TMessageType.CALL, SEQUENCE));
    out.writeFieldBegin(new TField("request", TType.STRUCT, (short) 1));
    buffer.write(request);
    if (credential != null) {
      out.writeFieldBegin(new TField("credential", TType.STRUCT, (short) 2));
      out.writeFieldBegin(new TField("time", TType.I64, (short) 1));
      out.writeI64(credential.time);
      out.writeFieldBegin(new TField("signature", TType.STRING, (short) 2));
      out.writeBinary(ByteBuffer.wrap(credential.signature));
      out.writeFieldBegin(new TField("nonce", TType.STRING, (short) 3));
      out.writeBinary(ByteBuffer.wrap(credential.nonce));
      out.writeFieldStop();
    }
    out.writeFieldStop();
    out.writeMessageEnd();
    return Arrays.copyOf(buffer.getArray(), buffer.length());
  }

  private static void writeRequest(TProtocol out, ScanRequest request) throws TException {
    out.writeFieldBegin(new TField("version", TType.I32, (short) 1));
    out.writeI32(Protocol.VERSION);
    writeText(out, 2, request.scan.location);
    writeText(out, 3, request.scan.table);
    writeText(out, 4, request.queryId);
    writeText(out, 5, request.pin);
    writeText(out, 6, request.filter);
    if (request.columns != null) {
      out.writeFieldBegin(new TField("columns", TType.LIST, (short) 7));
      out.writeListBegin(new TList(TType.STRING, request.columns.size()));
      for (String column : request.columns) {
        out.writeString(column);
      }
    }
    Map<String, String> settings = request.settings();
    out.writeFieldBegin(new TField("settings", TType.MAP, (short) 8));
    out.writeMapBegin(new TMap(TType.STRING, TType.STRING, settings.size()));
    for (Map.Entry<String, String> entry : settings.entrySet()) {
      out.writeString(entry.getKey());
      out.writeString(entry.getValue());
    }
    writeText(out, 9, request.timeZone);
    if (request.splitBytes != null) {
      out.writeFieldBegin(new TField("splitBytes", TType.I64, (short) 10));
      out.writeI64(request.splitBytes);
    }
    writeText(out, 11, request.zoneOffsets);
    out.writeFieldStop();
  }

  private static void writeText(TProtocol out, int id, String text) throws TException {
    if (text != null) {
      out.writeFieldBegin(new TField("", TType.STRING, (short) id));
      out.writeString(text);
    }
  }

  /** The pin in a reply to `pin`. */
  static String readPin(byte[] reply) throws TException, RefusedException {
    return read(reply, Messages::readPinOnly);
  }

  /** The splits in a reply to `splits`; all of its own required fields are there. */
  static Splits readSplits(byte[] reply) throws TException, RefusedException {
    return read(reply, Messages::readSplitsOnly);
  }

  /**
   * The statistics in a reply to `statistics`; all of its own required fields are there.
   *
   * @return null from a service that does not know the method
   */
  static Statistics readStatistics(byte[] reply) throws TException, RefusedException {
    return readIfKnown(reply, Messages::readStatisticsOnly);
  }

  /**
   * The values in a reply to `values`.
   *
   * @return null if the service does not tell them, or does not know the method
   */
  static List<String> readValues(byte[] reply) throws TException, RefusedException {
    return readIfKnown(reply, Messages::readValuesOnly);
  }

  private static <T> T readIfKnown(byte[] reply, Reader<T> reader) throws TException, RefusedException {
    try {
      return read(reply, reader);
    } catch (TApplicationException e) {
      if (e.getType() == TApplicationException.UNKNOWN_METHOD) {
        return null;
      }
      throw e;
    }
  }

  private interface Reader<T> {
    T read(byte[] reply) throws TException, RefusedException;
  }

  private static <T> T read(byte[] reply, Reader<T> reader) throws TException, RefusedException {
    try {
      return reader.read(reply);
    } catch (RuntimeException e) {
      // Thrift's library does not check all lengths.
      throw new TProtocolException(e.toString(), e);
    }
  }

  private static String readPinOnly(byte[] reply) throws TException, RefusedException {
    return needed(result(reply, PIN, TType.STRING, TProtocol::readString), "no pin");
  }

  private static Splits readSplitsOnly(byte[] reply) throws TException, RefusedException {
    Splits splits = needed(result(reply, SPLITS, TType.STRUCT, Messages::readSplitsStruct), "no splits");
    needed(splits.version, "splits without a version");
    needed(splits.pin, "splits without their pin");
    needed(splits.splits, "splits without their list");
    return splits;
  }

  private static Statistics readStatisticsOnly(byte[] reply) throws TException, RefusedException {
    Statistics statistics =
        needed(result(reply, STATISTICS, TType.STRUCT, Messages::readStatisticsStruct), "no statistics");
    needed(statistics.files, "statistics without files");
    needed(statistics.bytes, "statistics without bytes");
    needed(statistics.exact, "statistics that do not say whether their rows are exact");
    needed(statistics.columns, "statistics without columns");
    return statistics;
  }

  private static List<String> readValuesOnly(byte[] reply) throws TException, RefusedException {
    return result(reply, VALUES, TType.STRUCT, Messages::readValuesStruct);
  }

  /** What a method returned; null if nothing. */
  private static <T> T result(byte[] reply, String method, byte type, FieldReader<T> reader)
      throws TException, RefusedException {
    TProtocol in = opened(reply, method);
    T success = null;
    for (TField field = in.readFieldBegin(); field.type != TType.STOP; field = in.readFieldBegin()) {
      if (is(field, 0, type)) {
        success = reader.read(in);
      } else {
        readRefusal(in, field);
      }
    }
    return success;
  }

  private static List<String> readValuesStruct(TProtocol in) throws TException {
    List<String> values = null;
    for (TField field = in.readFieldBegin(); field.type != TType.STOP; field = in.readFieldBegin()) {
      if (is(field, 2, TType.LIST)) {
        values = readList(in, TType.STRING, TProtocol::readString);
      } else {
        TProtocolUtil.skip(in, field.type);
      }
    }
    return values;
  }

  private static Statistics readStatisticsStruct(TProtocol in) throws TException {
    Statistics statistics = new Statistics();
    for (TField field = in.readFieldBegin(); field.type != TType.STOP; field = in.readFieldBegin()) {
      if (is(field, 2, TType.I64)) {
        statistics.files = in.readI64();
      } else if (is(field, 3, TType.I64)) {
        statistics.bytes = in.readI64();
      } else if (is(field, 4, TType.I64)) {
        statistics.rows = in.readI64();
      } else if (is(field, 5, TType.BOOL)) {
        statistics.exact = in.readBool();
      } else if (is(field, 6, TType.LIST)) {
        statistics.columns = readList(in, TType.STRUCT, Messages::readColumn);
      } else {
        TProtocolUtil.skip(in, field.type);
      }
    }
    return statistics;
  }

  private static Column readColumn(TProtocol in) throws TException {
    Column column = new Column();
    for (TField field = in.readFieldBegin(); field.type != TType.STOP; field = in.readFieldBegin()) {
      if (is(field, 1, TType.STRING)) {
        column.name = in.readString();
      } else if (is(field, 2, TType.I64)) {
        column.nulls = in.readI64();
      } else if (is(field, 3, TType.DOUBLE)) {
        column.low = in.readDouble();
      } else if (is(field, 4, TType.DOUBLE)) {
        column.high = in.readDouble();
      } else if (is(field, 5, TType.I64)) {
        column.distinct = in.readI64();
      } else if (is(field, 6, TType.DOUBLE)) {
        column.length = in.readDouble();
      } else if (is(field, 7, TType.DOUBLE)) {
        column.spread = in.readDouble();
      } else {
        TProtocolUtil.skip(in, field.type);
      }
    }
    needed(column.name, "statistics of a column without its name");
    return column;
  }

  private static TProtocol opened(byte[] reply, String method) throws TException {
    // Limits for texts and lists: nothing in a reply is larger than it.
    TProtocol in = new TBinaryProtocol(new TMemoryInputTransport(reply), reply.length, reply.length, true, true);
    TMessage message = in.readMessageBegin();
    if (message.type == TMessageType.EXCEPTION) {
      throw TApplicationException.readFrom(in);
    }
    if (message.type != TMessageType.REPLY || message.seqid != SEQUENCE || !message.name.equals(method)) {
      throw new TProtocolException("a message that is not a reply to " + method);
    }
    return in;
  }

  private static void readRefusal(TProtocol in, TField field) throws TException, RefusedException {
    if (!is(field, 1, TType.STRUCT)) {
      TProtocolUtil.skip(in, field.type);
      return;
    }
    String message = null;
    boolean retryable = false;
    for (TField part = in.readFieldBegin(); part.type != TType.STOP; part = in.readFieldBegin()) {
      if (is(part, 1, TType.STRING)) {
        message = in.readString();
      } else if (is(part, 2, TType.BOOL)) {
        retryable = in.readBool();
      } else {
        TProtocolUtil.skip(in, part.type);
      }
    }
    throw new RefusedException(needed(message, "a refusal without a message"), retryable);
  }

  private static Splits readSplitsStruct(TProtocol in) throws TException {
    Splits splits = new Splits();
    for (TField field = in.readFieldBegin(); field.type != TType.STOP; field = in.readFieldBegin()) {
      if (is(field, 1, TType.I32)) {
        splits.version = in.readI32();
      } else if (is(field, 2, TType.STRING)) {
        splits.pin = in.readString();
      } else if (is(field, 3, TType.LIST)) {
        splits.splits = readList(in, TType.STRUCT, Messages::readSplit);
      } else if (is(field, 4, TType.I64)) {
        splits.filesTotal = in.readI64();
      } else if (is(field, 5, TType.I64)) {
        splits.filesKept = in.readI64();
      } else {
        TProtocolUtil.skip(in, field.type);
      }
    }
    return splits;
  }

  private interface FieldReader<T> {
    T read(TProtocol in) throws TException;
  }

  private static <T> List<T> readList(TProtocol in, byte type, FieldReader<T> reader) throws TException {
    TList list = in.readListBegin();
    if (list.elemType != type && list.size > 0) {
      throw new TProtocolException("a list of elements of type " + type + " whose elements are of type "
          + list.elemType);
    }
    List<T> elements = new ArrayList<>();
    for (int i = 0; i < list.size; i++) {
      elements.add(reader.read(in));
    }
    return elements;
  }

  private static Split readSplit(TProtocol in) throws TException {
    Split split = new Split();
    for (TField field = in.readFieldBegin(); field.type != TType.STOP; field = in.readFieldBegin()) {
      if (is(field, 1, TType.STRING)) {
        split.path = in.readString();
      } else if (is(field, 2, TType.I64)) {
        split.start = in.readI64();
      } else if (is(field, 3, TType.I64)) {
        split.length = in.readI64();
      } else {
        TProtocolUtil.skip(in, field.type);
      }
    }
    needed(split.path, "a split without a path");
    needed(split.start, "a split without a start");
    needed(split.length, "a split without a length");
    return split;
  }

  private static boolean is(TField field, int id, byte type) {
    return field.id == id && field.type == type;
  }

  private static <T> T needed(T value, String lack) throws TProtocolException {
    if (value == null) {
      throw new TProtocolException(lack);
    }
    return value;
  }
}
