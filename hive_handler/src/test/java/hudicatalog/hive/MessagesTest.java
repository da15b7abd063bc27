package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hudicatalog.wire.Credential;
import hudicatalog.wire.RefusedException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.mapred.JobConf;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TList;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TMemoryBuffer;
import org.junit.jupiter.api.Test;

class MessagesTest {
  @Test
  void splitsAreRead() throws Exception {
    Messages.Splits splits = Messages.readSplits(reply("splits", TMessageType.REPLY, 1, TType.STRUCT));
    assertEquals(1, splits.version);
    assertEquals("p", splits.pin);
    assertEquals(2, splits.splits.size());
    assertEquals("file:/t/b", splits.splits.get(1).path);
    assertEquals(4L, splits.splits.get(1).start);
    assertEquals(100L, splits.splits.get(1).length);
    assertEquals(9L, splits.filesTotal);
  }

  @Test
  void valuesAreReadWhereTheyAreTold() throws Exception {
    assertEquals(Arrays.asList("1", "ü"), Messages.readValues(values(Arrays.asList("1", "ü"))));
    assertEquals(Collections.emptyList(), Messages.readValues(values(Collections.emptyList())));
    assertNull(Messages.readValues(values(null)));
    byte[] whole = values(Arrays.asList("1", "ü"));
    for (int size = 0; size < whole.length; size++) {
      byte[] part = Arrays.copyOf(whole, size);
      assertThrows(TException.class, () -> Messages.readValues(part));
    }
  }

  @Test
  void repliesToOthersAreRefused() throws Exception {
    assertRefused(reply("pin", TMessageType.REPLY, 1, TType.STRUCT));
    assertRefused(reply("splits", TMessageType.CALL, 1, TType.STRUCT));
    assertRefused(reply("splits", TMessageType.REPLY, 2, TType.STRUCT));
    assertRefused(reply("splits", TMessageType.REPLY, 1, TType.LIST));
    assertRefused(new byte[0]);
    assertRefused("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes("US-ASCII"));
  }

  @Test
  void repliesThatEndEarlyAreRefused() throws Exception {
    byte[] whole = reply("splits", TMessageType.REPLY, 1, TType.STRUCT);
    for (int size = 0; size < whole.length; size++) {
      assertRefused(Arrays.copyOf(whole, size));
    }
  }

  @Test
  void changedBytesAreRefusedOrReadNeverMore() throws Exception {
    byte[] whole = reply("splits", TMessageType.REPLY, 1, TType.STRUCT);
    Random random = new Random(7);
    for (int i = 0; i < 20_000; i++) {
      byte[] changed = whole.clone();
      for (int j = random.nextInt(3); j >= 0; j--) {
        changed[random.nextInt(changed.length)] = (byte) random.nextInt();
      }
      try {
        assertTrue(Messages.readSplits(changed).splits.size() <= whole.length);
      } catch (TException | RefusedException e) {
        // Either is an answer.
      }
    }
  }

  @Test
  void aCompiledScanComesBackWhole() throws IOException {
    TreeMap<String, String> settings = new TreeMap<>();
    settings.put("hoodie.catalog.hive.as.of", "2026 & ${user.name}=ü%");
    CompiledScan scan = new CompiledScan("file:/a b/ü&=%2F", "db.t", "q1", null, settings).withPin("{\"i\": \"${x}\"}");
    JobConf job = new JobConf(false);
    job.set(CompiledScan.KEY, scan.toText());
    CompiledScan again = CompiledScan.of(job);
    assertEquals(scan.toText(), again.toText());
    assertEquals("file:/a b/ü&=%2F", again.location);
    assertEquals("{\"i\": \"${x}\"}", again.pin);
    assertEquals(settings, again.settings);
    assertThrows(IOException.class, () -> CompiledScan.of(new JobConf(false)));
  }

  @Test
  void otherRowsOfAFolderAreTold() {
    CompiledScan one = new CompiledScan("file:/t", "d.t_ro", "q", "p",
        Collections.singletonMap("hoodie.catalog.hive.query.type", "read_optimized"));
    assertTrue(one.contradicts(new CompiledScan("file:/t", "d.t_rt", "q", "p", Collections.emptyMap())));
    assertTrue(one.contradicts(new CompiledScan("file:/t", "d.t", "q", "p2", one.settings)));
    for (String same : new String[] {"file:///t", "file:/t/"}) {
      assertTrue(one.contradicts(new CompiledScan(same, "d.t", "q", "p2", one.settings)), same);
    }
    assertEquals(false, one.contradicts(new CompiledScan("file:/t", "d.t", "q", "p", one.settings)));
    assertEquals(false, one.contradicts(new CompiledScan("file:/u", "d.t", "q", "p2", Collections.emptyMap())));
  }

  @Test
  void theSignatureIsTheOneOfTheContract() throws Exception {
    byte[] secret = "0123456789abcdef".getBytes("UTF-8");
    byte[] nonce = hex("000102030405060708090a0b0c0d0e0f");
    byte[] request = Messages.encoded(request());
    Credential credential = Credential.of(secret, 1700000000000L, nonce, "splits", request);
    // Computed by Python's hmac from the words of the contract, over what thriftpy2 wrote.
    assertArrayEquals(hex("a774b41ebc56424ba53d5ca61075e876f80038e302c202121d83da5535059d31"), credential.signature);
    // The call has the very bytes that were signed.
    byte[] call = Messages.call("splits", request, credential);
    int begin = 4 + 4 + "splits".length() + 4 + 3;
    assertArrayEquals(request, Arrays.copyOfRange(call, begin, begin + request.length));
  }

  @Test
  void everyPartOfARequestIsSigned() throws Exception {
    byte[] secret = "0123456789abcdef".getBytes("UTF-8");
    byte[] nonce = new byte[16];
    Set<String> signatures = new HashSet<>();
    List<ScanRequest> requests = new ArrayList<>();
    requests.add(request());
    for (CompiledScan other : new CompiledScan[] {
        new CompiledScan("file:/u", "d.t", "q", "p", request().scan.settings),
        new CompiledScan("file:/t", "d.u", "q", "p", request().scan.settings),
        new CompiledScan("file:/t", "d.t", "q", "p", Collections.singletonMap("k", "other"))}) {
      requests.add(filled(new ScanRequest(other, "q", null)));
    }
    requests.add(filled(new ScanRequest(request().scan, "r", null)));
    requests.add(filled(new ScanRequest(request().scan, "q", "p")));
    for (int i = 0; i < 6; i++) {
      ScanRequest changed = request();
      changed.filter = i == 0 ? null : changed.filter;
      changed.columns = i == 1 ? Collections.emptyList() : i == 2 ? null : changed.columns;
      changed.timeZone = i == 3 ? "Asia/Tokyo" : changed.timeZone;
      changed.zoneOffsets = i == 4 ? "3600" : changed.zoneOffsets;
      changed.splitBytes = i == 5 ? Long.valueOf(6) : changed.splitBytes;
      requests.add(changed);
    }
    for (ScanRequest one : requests) {
      for (String method : new String[] {Messages.PIN, Messages.SPLITS}) {
        signatures.add(Arrays.toString(Credential.of(secret, 1, nonce, method, Messages.encoded(one)).signature));
      }
    }
    assertEquals(2 * requests.size(), signatures.size());
    byte[] same = Messages.encoded(request());
    Credential once = Credential.now(secret, Messages.PIN, same);
    Credential again = Credential.now(secret, Messages.PIN, same);
    assertEquals(16, once.nonce.length);
    assertFalse(Arrays.equals(once.nonce, again.nonce));
    assertFalse(Arrays.equals(once.signature, again.signature));
  }

  private static ScanRequest request() {
    return filled(new ScanRequest(
        new CompiledScan("file:/t", "d.t", "q", "p", Collections.singletonMap("k", "v")), "q", null));
  }

  private static ScanRequest filled(ScanRequest request) {
    request.filter = "ü";
    request.columns = Collections.singletonList("a");
    request.timeZone = "UTC";
    request.zoneOffsets = "0";
    request.splitBytes = 5L;
    return request;
  }

  private static byte[] hex(String text) {
    byte[] bytes = new byte[text.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  }

  private static void assertRefused(byte[] reply) {
    assertThrows(TException.class, () -> Messages.readSplits(reply));
  }

  private static byte[] values(List<String> values) throws TException {
    TMemoryBuffer buffer = new TMemoryBuffer(100);
    TProtocol out = new TBinaryProtocol(buffer, true, true);
    out.writeMessageBegin(new TMessage("values", TMessageType.REPLY, 1));
    out.writeFieldBegin(new TField("", TType.STRUCT, (short) 0));
    out.writeFieldBegin(new TField("", TType.I32, (short) 1));
    out.writeI32(1);
    if (values != null) {
      out.writeFieldBegin(new TField("", TType.LIST, (short) 2));
      out.writeListBegin(new TList(TType.STRING, values.size()));
      for (String value : values) {
        out.writeString(value);
      }
    }
    out.writeFieldStop();
    out.writeFieldStop();
    return Arrays.copyOf(buffer.getArray(), buffer.length());
  }

  /** A reply with two splits, and fields that a newer service may add. */
  private static byte[] reply(String name, byte type, int sequence, byte success) throws TException {
    TMemoryBuffer buffer = new TMemoryBuffer(100);
    TProtocol out = new TBinaryProtocol(buffer, true, true);
    out.writeMessageBegin(new TMessage(name, type, sequence));
    out.writeFieldBegin(new TField("", success, (short) 0));
    if (success == TType.LIST) {
      out.writeListBegin(new TList(TType.I32, 0));
      out.writeFieldStop();
      return Arrays.copyOf(buffer.getArray(), buffer.length());
    }
    out.writeFieldBegin(new TField("", TType.I32, (short) 1));
    out.writeI32(1);
    out.writeFieldBegin(new TField("", TType.LIST, (short) 77));
    out.writeListBegin(new TList(TType.STRING, 1));
    out.writeString("new");
    out.writeFieldBegin(new TField("", TType.STRING, (short) 2));
    out.writeString("p");
    out.writeFieldBegin(new TField("", TType.LIST, (short) 3));
    out.writeListBegin(new TList(TType.STRUCT, 2));
    for (String path : new String[] {"file:/t/a", "file:/t/b"}) {
      out.writeFieldBegin(new TField("", TType.STRING, (short) 1));
      out.writeString(path);
      out.writeFieldBegin(new TField("", TType.I64, (short) 2));
      out.writeI64(4);
      out.writeFieldBegin(new TField("", TType.I64, (short) 3));
      out.writeI64(100);
      out.writeFieldStop();
    }
    out.writeFieldBegin(new TField("", TType.I64, (short) 4));
    out.writeI64(9);
    out.writeFieldStop();
    out.writeFieldStop();
    return Arrays.copyOf(buffer.getArray(), buffer.length());
  }
}
