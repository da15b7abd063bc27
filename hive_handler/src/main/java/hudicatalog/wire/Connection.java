package hudicatalog.wire;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** One request and its reply, each after four bytes with its length, as Thrift's framed transport has them. */
public final class Connection {
  /** About a million splits. */
  private static final int MOST_BYTES = 256 << 20;
  private static final int PART = 1 << 16;
  private static final List<String> NEW_ENOUGH = Arrays.asList("TLSv1.2", "TLSv1.3");

  private Connection() {}

  /**
   * Send a request to a service.
   *
   * @param tls null for a connection that is not encrypted
   * @param timeoutMillis for the whole exchange, even if the service sends a byte now and then
   */
  public static byte[] ask(String host, int port, SSLContext tls, long timeoutMillis, byte[] request) throws IOException {
    long end = System.nanoTime() + timeoutMillis * 1_000_000;
    try (Socket plain = new Socket()) {
      InetSocketAddress address = new InetSocketAddress(host, port);
      if (address.isUnresolved()) {
        throw new IOException("the host is unknown");
      }
      plain.connect(address, left(end));
      plain.setTcpNoDelay(true);
      plain.setSoTimeout(left(end));
      if (tls == null) {
        return exchange(plain, end, request);
      }
      try (Socket encrypted = encrypted(plain, host, port, tls)) {
        return exchange(encrypted, end, request);
      }
    } catch (SocketTimeoutException e) {
      throw new SocketTimeoutException("no answer within " + timeoutMillis / 1000 + " s");
    }
  }

  private static Socket encrypted(Socket plain, String host, int port, SSLContext tls) throws IOException {
    SSLSocket socket = (SSLSocket) tls.getSocketFactory().createSocket(plain, host, port, true);
    SSLParameters parameters = socket.getSSLParameters();
    // The certificate must be for this host.
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    parameters.setProtocols(Stream.of(parameters.getProtocols()).filter(NEW_ENOUGH::contains).toArray(String[]::new));
    socket.setSSLParameters(parameters);
    socket.startHandshake();
    return socket;
  }

  private static byte[] exchange(Socket socket, long end, byte[] request) throws IOException {
    byte[] frame = new byte[4 + request.length];
    ByteBuffer.wrap(frame).putInt(request.length).put(request);
    socket.getOutputStream().write(frame);
    socket.getOutputStream().flush();
    int size = ByteBuffer.wrap(read(socket, end, 4)).getInt();
    if (size < 0 || size > MOST_BYTES) {
      throw new IOException("a reply of " + size + " bytes, where 0 to " + MOST_BYTES + " are taken");
    }
    return read(socket, end, size);
  }

  private static byte[] read(Socket socket, long end, int size) throws IOException {
    InputStream in = socket.getInputStream();
    // Memory grows as bytes arrive, so a large declared length costs nothing.
    byte[] frame = new byte[Math.min(size, PART)];
    int filled = 0;
    while (filled < size) {
      if (filled == frame.length) {
        frame = Arrays.copyOf(frame, (int) Math.min(size, frame.length * 2L));
      }
      socket.setSoTimeout(left(end));
      int got = in.read(frame, filled, frame.length - filled);
      if (got < 0) {
        throw new EOFException("the connection ended within the reply");
      }
      filled += got;
    }
    return frame;
  }

  /** Milliseconds until the end, at least one. */
  private static int left(long end) throws SocketTimeoutException {
    long millis = (end - System.nanoTime()) / 1_000_000;
    if (millis <= 0) {
      throw new SocketTimeoutException();
    }
    return (int) Math.min(millis, Integer.MAX_VALUE);
  }
}
