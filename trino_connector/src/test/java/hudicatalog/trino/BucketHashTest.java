package hudicatalog.trino;

import static io.trino.spi.type.BigintType.BIGINT;
import static io.trino.spi.type.DateType.DATE;
import static io.trino.spi.type.TypeUtils.writeNativeValue;
import static io.trino.spi.type.VarcharType.VARCHAR;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.airlift.slice.Slices;
import io.trino.spi.block.Block;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BucketHashTest {
  @Test
  void digitsHashAsTheirText() {
    Random chance = new Random(1);
    for (int i = 0; i < 100_000; i++) {
      long value = chance.nextLong() >> chance.nextInt(64);
      assertEquals(Long.toString(value).hashCode(), BucketHash.ofDigits(value));
    }
    for (long value : new long[] {0, -1, 9, 10, -10, Long.MIN_VALUE, Long.MAX_VALUE}) {
      assertEquals(Long.toString(value).hashCode(), BucketHash.ofDigits(value));
    }
  }

  @Test
  void severalColumnsHashAsAListOfTexts() {
    Block[] blocks = {
        writeNativeValue(BIGINT, -7L), writeNativeValue(DATE, -1L), writeNativeValue(BIGINT, null),
        writeNativeValue(VARCHAR, Slices.utf8Slice("日本😀"))};
    int expected = (Arrays.asList("-7", "1969-12-31", null, "日本😀").hashCode() & Integer.MAX_VALUE) % 97;
    assertEquals(expected, BucketHash.bucket(List.of(BIGINT, DATE, BIGINT, VARCHAR), blocks, 0, 97));
  }
}
