package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.Page;
import io.trino.spi.block.Block;
import io.trino.spi.block.RunLengthEncodedBlock;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.SourcePage;
import io.trino.spi.type.Type;
import io.trino.spi.type.TypeUtils;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The rows of a split that the service reads; the next page is asked for while one is worked on. */
final class ServedPages implements ConnectorPageSource {
  private static final ExecutorService EXECUTOR = Executors.newVirtualThreadPerTaskExecutor();

  private final ServiceClient service;
  private final ObjectNode request;
  private final List<HudiColumn> columns;
  private final FileValues values;
  private CompletableFuture<byte[]> next;
  private int number;
  private long bytes;
  private long rows;
  private long nanos;
  private long memory;

  /**
   * The rows of a split.
   *
   * @param request as for {@code hudiRows}, without the page's number
   * @param columns in the order of the pages
   */
  ServedPages(ServiceClient service, ObjectNode request, List<HudiColumn> columns, FileValues values) {
    this.service = service;
    this.request = request;
    this.columns = columns;
    this.values = values;
    this.next = ask();
  }

  /** The whole columns that the service sends, each once. */
  static List<HudiColumn> roots(List<HudiColumn> columns) {
    return columns.stream().filter(HudiColumn::holdsData)
        .map(column -> HudiColumn.of(column.root(), column.rootType(), HudiColumn.Kind.DATA)).distinct().toList();
  }

  private CompletableFuture<byte[]> ask() {
    ObjectNode one = request.deepCopy().put("page", number++);
    return CompletableFuture.supplyAsync(() -> service.bytes("hudiRows", one), EXECUTOR);
  }

  @Override
  public CompletableFuture<?> isBlocked() {
    return next == null || next.isDone() ? NOT_BLOCKED : next.handle((_, _) -> null);
  }

  @Override
  public SourcePage getNextSourcePage() {
    if (next == null || !next.isDone()) {
      return null;
    }
    long begin = System.nanoTime();
    byte[] reply = reply();
    boolean isLast = reply[0] != 0;
    next = isLast ? null : ask();
    bytes += reply.length;
    memory = isLast ? 0 : 2L * reply.length;
    List<Type> types = roots(columns).stream().map(HudiColumn::type).toList();
    Page data = PageDecoder.page(ByteBuffer.wrap(reply, 1, reply.length - 1), types);
    nanos += System.nanoTime() - begin;
    rows += data.getPositionCount();
    return data.getPositionCount() == 0 ? null : SourcePage.create(arranged(data));
  }

  private byte[] reply() {
    try {
      byte[] reply = next.join();
      if (reply.length == 0) {
        throw HudiErrorCode.BAD_REPLY.exception("the service sent rows that are no page", null);
      }
      return reply;
    } catch (CompletionException e) {
      next = null;
      throw e.getCause() instanceof RuntimeException cause ? cause : e;
    }
  }

  private Page arranged(Page data) {
    Block[] blocks = new Block[columns.size()];
    List<String> roots = roots(columns).stream().map(HudiColumn::root).toList();
    for (int i = 0; i < blocks.length; i++) {
      HudiColumn column = columns.get(i);
      blocks[i] = column.holdsData() ? RowFields.of(data.getBlock(roots.indexOf(column.root())), column.path())
          : RunLengthEncodedBlock.create(
          TypeUtils.writeNativeValue(column.type(), values.value(column)), data.getPositionCount());
    }
    return new Page(data.getPositionCount(), blocks);
  }

  @Override
  public long getCompletedBytes() {
    return bytes;
  }

  @Override
  public OptionalLong getCompletedPositions() {
    return OptionalLong.of(rows);
  }

  @Override
  public long getReadTimeNanos() {
    return nanos;
  }

  @Override
  public boolean isFinished() {
    return next == null;
  }

  @Override
  public long getMemoryUsage() {
    return memory;
  }

  @Override
  public void close() {
    next = null;
  }
}
