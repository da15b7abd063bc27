package hudicatalog.trino;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.trino.spi.SplitWeight;
import io.trino.spi.connector.ConnectorSplit;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import org.junit.jupiter.api.Test;

class SplitBundlerTest {
  private static final long MEGABYTE = 1 << 20;

  private static Queue<HudiSplit> files(int count, long bytes) {
    Queue<HudiSplit> files = new ArrayDeque<>();
    for (int i = 0; i < count; i++) {
      String id = String.format("%08d-%d", i % 8, i);
      files.add(new HudiSplit("f" + i, "", id, 0, bytes, bytes, false, Set.of(), "[]", bytes));
    }
    return files;
  }

  private static List<SplitBundle> all(Queue<HudiSplit> files, int nodes, Optional<HudiBuckets> buckets, int most) {
    return all(files, nodes, 64, buckets, most);
  }

  private static List<SplitBundle> all(
      Queue<HudiSplit> files, int nodes, int processors, Optional<HudiBuckets> buckets, int most) {
    long work = files.stream().mapToLong(HudiSplit::work).sum();
    SplitBundler bundler = new SplitBundler(work, nodes, processors, buckets);
    List<SplitBundle> bundles = new ArrayList<>();
    int count = files.size();
    while (!files.isEmpty()) {
      List<ConnectorSplit> batch = bundler.take(files, most);
      assertTrue(batch.size() <= most && !batch.isEmpty());
      batch.forEach(split -> bundles.add((SplitBundle) split));
    }
    Set<String> read = new HashSet<>();
    bundles.forEach(bundle -> bundle.parts().forEach(part -> assertTrue(read.add(part.path()))));
    assertEquals(count, read.size());
    return bundles;
  }

  @Test
  void smallFilesShareSplitsAsLongAsAllNodesHaveSome() {
    assertEquals(32, all(files(512, MEGABYTE / 8), 1, Optional.empty(), 1000).size());
    assertEquals(128, all(files(512, MEGABYTE / 8), 4, Optional.empty(), 1000).size());
    assertEquals(20, all(files(20, MEGABYTE / 8), 1, Optional.empty(), 1000).size());
    assertEquals(100, all(files(100, 40 * MEGABYTE), 1, Optional.empty(), 1000).size());
    // four splits a processor, at least eight
    assertEquals(16, all(files(512, MEGABYTE / 8), 1, 4, Optional.empty(), 1000).size());
    assertEquals(8, all(files(512, MEGABYTE / 8), 1, 1, Optional.empty(), 1000).size());
    // 64 files at most, 32 MiB at most
    assertEquals(157, all(files(10_000, 1000), 1, Optional.empty(), 1000).size());
    assertEquals(250, all(files(1000, 8 * MEGABYTE), 1, Optional.empty(), 7).size());
  }

  @Test
  void filesOfDifferentBucketsStayApart() {
    HudiBuckets buckets = new HudiBuckets(8, 4, List.of());
    List<SplitBundle> bundles = all(files(512, MEGABYTE / 8), 1, Optional.of(buckets), 9);
    for (SplitBundle bundle : bundles) {
      assertEquals(1, bundle.parts().stream().map(part -> part.bucket() % 4).distinct().count());
    }
    assertTrue(bundles.size() < 128);
  }

  @Test
  void weightsAreByBytes() {
    List<SplitBundle> bundles = all(files(1000, 8 * MEGABYTE), 1, Optional.empty(), 1000);
    assertEquals(SplitWeight.standard(), bundles.getFirst().getSplitWeight());
    assertEquals(SplitWeight.fromProportion(0.25), new SplitBundle(bundles.getFirst().parts().subList(0, 1)).getSplitWeight());
  }
}
