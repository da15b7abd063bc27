package hudicatalog.trino;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.airlift.slice.Slice;
import io.trino.filesystem.Location;
import io.trino.filesystem.TrinoInputFile;
import io.trino.filesystem.memory.MemoryFileSystemFactory;
import io.trino.parquet.ParquetReaderOptions;
import io.trino.spi.security.ConnectorIdentity;
import java.lang.reflect.Proxy;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class FileSourceTest {
  private static final byte[] CONTENT = "0123456789".getBytes();

  /** A file that counts the reads of it, at a location of a scheme. */
  private static TrinoInputFile file(String location, AtomicInteger reads) throws Exception {
    Location stored = Location.of("memory:///f");
    var files = new MemoryFileSystemFactory().create(ConnectorIdentity.ofUser("test"));
    files.newOutputFile(stored).createOrOverwrite(CONTENT);
    TrinoInputFile file = files.newInputFile(stored);
    return (TrinoInputFile) Proxy.newProxyInstance(FileSourceTest.class.getClassLoader(),
        new Class<?>[] {TrinoInputFile.class}, (_, method, arguments) -> switch (method.getName()) {
          case "location" -> Location.of(location);
          case "newInput" -> {
            var input = file.newInput();
            yield Proxy.newProxyInstance(FileSourceTest.class.getClassLoader(),
                new Class<?>[] {io.trino.filesystem.TrinoInput.class}, (_, read, values) -> {
                  reads.addAndGet(read.getName().startsWith("read") ? 1 : 0);
                  return read.invoke(input, values);
                });
          }
          default -> method.invoke(file, arguments);
        });
  }

  private static int readsOf(String location) throws Exception {
    AtomicInteger reads = new AtomicInteger();
    FileSource source = new FileSource(file(location, reads), ParquetReaderOptions.defaultOptions());
    Slice tail = source.readTail(3);
    assertEquals("789", tail.toStringUtf8());
    for (int position : new int[] {0, 4}) {
      assertEquals(new String(CONTENT, position, 2), source.readFully(position, 2).toStringUtf8());
    }
    source.close();
    return reads.get();
  }

  @Test
  void aSmallFileOfAnObjectStoreIsReadByOneRequest() throws Exception {
    assertEquals(1, readsOf("s3://bucket/f"));
    assertEquals(3, readsOf("file:///f"));
  }
}
