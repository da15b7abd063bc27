package hudicatalog.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class ConnectionTest {
  private static final byte[] REQUEST = {1, 2, 3};

  private interface Answer {
    void write(DataOutputStream out) throws IOException, InterruptedException;
  }

  @Test
  void aReplyComesWholeHoweverItIsSent() throws Exception {
    byte[] reply = new byte[300_000];
    Arrays.fill(reply, (byte) 7);
    assertArrayEquals(reply, ask(5000, out -> {
      out.writeInt(reply.length);
      for (int i = 0; i < reply.length; i += 100_000) {
        out.write(reply, i, 100_000);
        out.flush();
        Thread.sleep(20);
      }
    }));
    assertArrayEquals(new byte[0], ask(5000, out -> out.writeInt(0)));
  }

  @Test
  void aReplyThatTricklesInIsLateAllTheSame() {
    long start = System.nanoTime();
    assertThrows(SocketTimeoutException.class, () -> ask(500, out -> {
      out.writeInt(1000);
      for (int i = 0; i < 1000; i++) {
        out.write(0);
        out.flush();
        Thread.sleep(50);
      }
    }));
    assertTrue(System.nanoTime() - start < 3_000_000_000L);
  }

  @Test
  void lengthsThatCannotBeAreRefused() {
    for (int length : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
      String message = assertThrows(IOException.class, () -> ask(5000, out -> out.writeInt(length))).getMessage();
      assertTrue(message.contains("a reply of " + length + " bytes"), message);
    }
  }

  @Test
  void aReplyThatEndsEarlyIsNone() {
    assertThrows(IOException.class, () -> ask(5000, out -> {
      out.writeInt(200 << 20);
      out.write(new byte[10]);
    }));
    assertThrows(IOException.class, () -> ask(5000, out -> out.write(0)));
    assertThrows(IOException.class, () -> ask(5000, out -> { }));
  }

  @Test
  void nobodyThereAndNoSuchHost() throws IOException {
    int port;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    assertThrows(IOException.class, () -> Connection.ask("127.0.0.1", port, null, 5000, REQUEST));
    assertThrows(IOException.class, () -> Connection.ask("no such host.invalid", port, null, 5000, REQUEST));
  }

  private static byte[] ask(long timeoutMillis, Answer answer) throws IOException {
    try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      Thread thread = new Thread(() -> serve(server, answer));
      thread.setDaemon(true);
      thread.start();
      return Connection.ask("127.0.0.1", server.getLocalPort(), null, timeoutMillis, REQUEST);
    }
  }

  private static void serve(ServerSocket server, Answer answer) {
    try (Socket socket = server.accept()) {
      DataInputStream in = new DataInputStream(socket.getInputStream());
      byte[] request = new byte[in.readInt()];
      in.readFully(request);
      assertArrayEquals(REQUEST, request);
      DataOutputStream out = new DataOutputStream(socket.getOutputStream());
      answer.write(out);
      out.flush();
    } catch (IOException | InterruptedException e) {
      // The client is gone.
    }
  }
}
