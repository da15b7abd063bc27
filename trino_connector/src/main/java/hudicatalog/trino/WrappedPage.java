package hudicatalog.trino;

import io.trino.spi.connector.SourcePage;
import java.util.function.ObjLongConsumer;

/** A page over another one: positions and sizes are that one's, blocks the subclass gives. */
abstract class WrappedPage implements SourcePage {
  final SourcePage page;

  WrappedPage(SourcePage page) {
    this.page = page;
  }

  @Override
  public int getPositionCount() {
    return page.getPositionCount();
  }

  @Override
  public long getSizeInBytes() {
    return page.getSizeInBytes();
  }

  @Override
  public long getRetainedSizeInBytes() {
    return page.getRetainedSizeInBytes();
  }

  @Override
  public void retainedBytesForEachPart(ObjLongConsumer<Object> consumer) {
    page.retainedBytesForEachPart(consumer);
  }

  @Override
  public void selectPositions(int[] positions, int offset, int size) {
    page.selectPositions(positions, offset, size);
  }
}
