package hudicatalog.trino;

import static io.trino.spi.type.BigintType.BIGINT;
import static io.trino.spi.type.VarcharType.VARCHAR;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.trino.spi.Page;
import io.trino.spi.block.Block;
import io.trino.spi.type.ArrayType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;

class PageDecoderTest {
  /** More than a word of bits, with nulls in each. */
  private static final int ROWS = 70;

  @Test
  void nullsAreWhereTheServiceSaysAndValuesElsewhere() {
    ByteBuffer sent = ByteBuffer.allocate(10_000).order(ByteOrder.LITTLE_ENDIAN).putInt(ROWS);
    flags(sent, 3);
    for (int i = 0; i < ROWS; i++) {
      sent.putLong(i % 3 == 0 ? 0 : 1000L + i);
    }
    flags(sent, 5);
    for (int i = 0; i <= ROWS; i++) {
      sent.putInt(i - (i + 4) / 5); // no bytes for nulls
    }
    for (int i = 0; i < ROWS; i++) {
      if (i % 5 != 0) {
        sent.put((byte) ('a' + i % 26));
      }
    }
    Page page = PageDecoder.page(sent.flip(), List.of(BIGINT, VARCHAR));
    assertEquals(ROWS, page.getPositionCount());
    for (int i = 0; i < ROWS; i++) {
      assertEquals(i % 3 == 0, page.getBlock(0).isNull(i));
      assertEquals(i % 5 == 0, page.getBlock(1).isNull(i));
      if (i % 3 != 0) {
        assertEquals(1000L + i, BIGINT.getLong(page.getBlock(0), i));
      }
      if (i % 5 != 0) {
        assertEquals(String.valueOf((char) ('a' + i % 26)), VARCHAR.getSlice(page.getBlock(1), i).toStringUtf8());
      }
    }
  }

  @Test
  void nullListsAndNullElementsAreTwoThings() {
    ByteBuffer sent = ByteBuffer.allocate(100).order(ByteOrder.LITTLE_ENDIAN).putInt(3);
    sent.put(new byte[] {1, 0, 1, 0}); // the second list is null
    sent.putInt(0).putInt(2).putInt(2).putInt(3);
    sent.put(new byte[] {1, 0, 0, 1}).putLong(7).putLong(8).putLong(0); // the last element is null
    Block lists = PageDecoder.page(sent.flip(), List.of(new ArrayType(BIGINT))).getBlock(0);
    Block first = new ArrayType(BIGINT).getObject(lists, 0);
    Block last = new ArrayType(BIGINT).getObject(lists, 2);
    assertEquals(List.of(false, true, false), List.of(lists.isNull(0), lists.isNull(1), lists.isNull(2)));
    assertEquals(List.of(2, 7L, 8L), List.of(first.getPositionCount(), BIGINT.getLong(first, 0), BIGINT.getLong(first, 1)));
    assertEquals(List.of(1, true), List.of(last.getPositionCount(), last.isNull(0)));
  }

  /** Flags that make null the first row, and each that is this number of rows after a null one. */
  private static void flags(ByteBuffer sent, int every) {
    sent.put((byte) 1);
    for (int i = 0; i < ROWS; i++) {
      sent.put((byte) (i % every == 0 ? 1 : 0));
    }
  }
}
