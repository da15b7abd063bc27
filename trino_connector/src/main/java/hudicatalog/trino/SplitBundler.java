package hudicatalog.trino;

import io.trino.spi.connector.ConnectorSplit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;

/**
 * Puts small files together into splits, as long as there are enough splits to keep all nodes busy: four a processor, since
 * each costs Trino some milliseconds. Nodes are taken to have as many processors as the coordinator.
 */
final class SplitBundler {
  private static final int MOST_FILES = 64;
  private static final int LEAST_SPLITS_A_NODE = 8;
  private static final int MOST_SPLITS_A_NODE = 32;
  private static final int SPLITS_A_PROCESSOR = 4;
  private static final long MOST_BYTES = 32 << 20;

  private final Optional<HudiBuckets> buckets;
  private final long bundleBytes;

  /**
   * For the splits of one plan.
   *
   * @param work bytes of all of them
   * @param processors of a node
   * @param buckets by which the table is read: files of different ones stay apart
   */
  SplitBundler(long work, int nodes, int processors, Optional<HudiBuckets> buckets) {
    this.buckets = buckets;
    long splits = Math.clamp((long) SPLITS_A_PROCESSOR * processors, LEAST_SPLITS_A_NODE, MOST_SPLITS_A_NODE);
    this.bundleBytes = Math.min(MOST_BYTES, work / (splits * Math.max(1, nodes)));
  }

  /** Take splits out of a queue, at most so many bundles. */
  List<ConnectorSplit> take(Queue<HudiSplit> queue, int most) {
    List<ConnectorSplit> full = new ArrayList<>();
    Map<Integer, List<HudiSplit>> open = new HashMap<>();
    while (!queue.isEmpty()) {
      HudiSplit split = queue.peek();
      boolean isAlone = split.work() >= bundleBytes;
      int bucket = buckets.map(own -> split.bucket() % own.used()).orElse(0);
      if ((isAlone || !open.containsKey(bucket)) && full.size() + open.size() >= most) {
        break;
      }
      queue.poll();
      if (isAlone) {
        full.add(new SplitBundle(List.of(split)));
        continue;
      }
      List<HudiSplit> bundle = open.computeIfAbsent(bucket, _ -> new ArrayList<>());
      bundle.add(split);
      if (bundle.size() == MOST_FILES || bundle.stream().mapToLong(HudiSplit::work).sum() >= bundleBytes) {
        full.add(new SplitBundle(List.copyOf(bundle)));
        open.remove(bucket);
      }
    }
    open.values().forEach(bundle -> full.add(new SplitBundle(List.copyOf(bundle))));
    return full;
  }
}
