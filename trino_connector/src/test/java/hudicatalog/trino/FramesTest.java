package hudicatalog.trino;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hudicatalog.wire.Credential;
import hudicatalog.wire.RefusedException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

class FramesTest {
  @Test
  void aCallIsTheOneOfTheContract() throws Exception {
    byte[] request = Frames.request("{}".getBytes(StandardCharsets.UTF_8));
    // As thriftpy2 writes it from hudi_catalog.thrift.
    assertArrayEquals(HexFormat.of().parseHex("080001000000030b0002000000027b7d00"), request);
    byte[] call = Frames.call("hudiTables", request, null);
    assertArrayEquals(HexFormat.of().parseHex(
        "80010001" + "0000000a" + "687564695461626c6573" + "00000001" + "0c0001" + "080001000000030b0002000000027b7d00"
        + "00"), call);
  }

  @Test
  void theSignedBytesStandInTheCall() throws Exception {
    byte[] request = Frames.request("{}".getBytes(StandardCharsets.UTF_8));
    byte[] secret = "0123456789abcdef".getBytes(StandardCharsets.UTF_8);
    Credential credential = Credential.of(secret, 1700000000000L, new byte[16], "hudiTables", request);
    byte[] call = Frames.call("hudiTables", request, credential);
    int begin = 4 + 4 + "hudiTables".length() + 4 + 3;
    assertArrayEquals(request, Arrays.copyOfRange(call, begin, begin + request.length));
    assertEquals(32, credential.signature.length);
    // Computed by Python's hmac from the words of the contract.
    assertArrayEquals(HexFormat.of().parseHex("d83aa87f547a65a4c6d3645fd37fa95e651b5213a87a4d62a0b0d35c536db0ff"), credential.signature);
  }

  @Test
  void repliesAreResultsRefusalsOrBroken() throws Exception {
    assertArrayEquals(new byte[] {1, 2}, Frames.result("m", reply(2, "0b0000" + "00000002" + "0102" + "00")));
    RefusedException refused = assertThrows(RefusedException.class,
        () -> Frames.result("m", reply(2, "0c0001" + "0b0001" + "00000002" + "6e6f" + "020002" + "01" + "00" + "00")));
    assertEquals("no", refused.getMessage());
    assertTrue(refused.retryable);
    byte[] whole = reply(2, "0b0000" + "00000002" + "0102" + "00");
    for (int size = 0; size < whole.length - 1; size++) {
      byte[] part = Arrays.copyOf(whole, size);
      assertThrows(Frames.MalformedException.class, () -> Frames.result("m", part));
    }
    for (String body : new String[] {"00", "0b00007fffffff", "0f0000", "0c00010f0001"}) {
      assertThrows(Frames.MalformedException.class, () -> Frames.result("m", reply(2, body)));
    }
    assertThrows(Frames.MalformedException.class, () -> Frames.result("n", whole));
    assertThrows(Frames.MalformedException.class,
        () -> Frames.result("m", reply(3, "0b0001" + "00000002" + "6e6f" + "08000200000001" + "00")));
  }

  private static byte[] reply(int kind, String body) {
    byte[] rest = HexFormat.of().parseHex(body);
    return ByteBuffer.allocate(13 + rest.length).putInt(0x80010000 | kind).putInt(1).put((byte) 'm').putInt(1).put(rest)
        .array();
  }
}
