package hudicatalog.trino;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.plugin.base.metrics.LongCount;
import io.trino.spi.NodeManager;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorSplitSource;
import io.trino.spi.metrics.Metric;
import io.trino.spi.metrics.Metrics;
import io.trino.spi.predicate.TupleDomain;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The splits of one scan: planned with what a join's values leave of them, and planned again when these narrow. How the
 * engine asks for them differs between releases.
 */
abstract class ScanSplits implements ConnectorSplitSource {
  private static final ExecutorService EXECUTOR = Executors.newVirtualThreadPerTaskExecutor();
  /** Merging log files takes several times as long as reading a base file of their size. */
  private static final long MERGE_COST = 4;

  private final ServiceClient service;
  private final HudiTable table;
  private final String query;
  private final int nodes;
  private final Map<String, Long> counts = new TreeMap<>();
  /** What of the join's values the last plan went by. */
  private TupleDomain<HudiColumn> planned = TupleDomain.all();
  private Queue<HudiSplit> left; // null before the first plan
  private SplitBundler bundler;
  private boolean finished;

  ScanSplits(ServiceClient service, HudiTable table, ConnectorSession session, NodeManager nodes) {
    this.service = service;
    this.table = table;
    this.query = session.getQueryId();
    this.nodes = nodes.getRequiredWorkerNodes().size();
  }

  /**
   * The next splits; none may only mean that there are none yet.
   *
   * @param filter what of the join's values is known when the splits are chosen
   * @param shape makes of the splits what the engine gets
   */
  <T> CompletableFuture<T> take(int maxSize, Supplier<TupleDomain<ColumnHandle>> filter,
      Function<List<ConnectorSplit>, T> shape) {
    CompletableFuture<T> batch = new CompletableFuture<>();
    EXECUTOR.execute(() -> {
      try {
        batch.complete(shape.apply(batch(maxSize, filter.get().transformKeys(HudiColumn.class::cast))));
      } catch (RuntimeException | Error e) { // as it is: a stage's wrapper would put its class before the text
        batch.completeExceptionally(e);
      }
    });
    return batch;
  }

  private synchronized List<ConnectorSplit> batch(int maxSize, TupleDomain<HudiColumn> values) {
    if (values.isNone() || table.constraint().isNone()) {
      left = new ArrayDeque<>();
    } else if (left == null) {
      left = new ArrayDeque<>(plan(values));
      long work = left.stream().mapToLong(HudiSplit::work).sum();
      bundler = new SplitBundler(work, nodes, Runtime.getRuntime().availableProcessors(), table.buckets());
    } else if (!values.equals(planned) && !left.isEmpty()) {
      narrow(plan(values));
    }
    planned = values;
    List<ConnectorSplit> batch = left.isEmpty() ? List.of() : bundler.take(left, maxSize);
    count("splits", batch.size());
    finished = left.isEmpty();
    return batch;
  }

  /** Keep the splits whose slices are in the new plan; its splits may be cut otherwise. */
  private void narrow(List<HudiSplit> plan) {
    Set<String> slices = new HashSet<>();
    plan.forEach(split -> slices.add(split.slice()));
    int before = left.size();
    left.removeIf(split -> !slices.contains(split.slice()));
    count("splits dropped by late values of a join", before - left.size());
  }

  private List<HudiSplit> plan(TupleDomain<HudiColumn> values) {
    long begin = System.nanoTime();
    ObjectNode request = table.request(query, List.of(table.constraint(), values));
    table.pushed().put(request);
    request.set("stores", ServiceClient.JSON.valueToTree(service.stores()));
    JsonNode answer = service.ask("hudiPlan", request);
    TupleDomain<HudiColumn> all = table.constraint().intersect(values);
    List<HudiSplit> splits = new ArrayList<>();
    Map<String, Set<String>> renamed = renamed(answer.path("renamed"));
    for (JsonNode one : answer.get("splits")) {
      HudiSplit split = split(answer, one, renamed);
      if (FileValues.of(split).mayMatch(all)) {
        splits.add(split);
      }
    }
    counts.put("files of the table", answer.path("files_total").asLong());
    counts.put("files kept", answer.path("files_kept").asLong());
    answer.path("stages").properties().forEach(
        stage -> counts.put("files left out by " + stage.getKey(), stage.getValue().get(0).asLong()));
    if (service.stores().isEmpty() && FileSystems.isOnS3(answer.get("root").asText())) {
      counts.put("files on S3 are left to the service: " + ConnectorSettings.S3 + " and `hudi-catalog trino-plugin --s3`"
          + " have Trino read them", 1L);
    }
    answer.path("unknown").forEach(reason -> counts.put("filter: " + reason.asText(), 1L));
    count("planning milliseconds", (System.nanoTime() - begin) / 1_000_000);
    return splits;
  }

  private static Map<String, Set<String>> renamed(JsonNode byInstant) {
    Map<String, Set<String>> renamed = new HashMap<>();
    byInstant.properties().forEach(entry -> {
      Set<String> names = new HashSet<>();
      entry.getValue().forEach(name -> names.add(name.asText()));
      renamed.put(entry.getKey(), Set.copyOf(names));
    });
    return renamed;
  }

  /** In the order that the service writes: base, start, length, size, rows, served, partition, file id, instant, … */
  private static HudiSplit split(JsonNode plan, JsonNode one, Map<String, Set<String>> renamed) {
    return new HudiSplit(
        one.get(0).isNull() ? "" : plan.get("root").asText() + "/" + one.get(0).asText(),
        one.get(6).asText(),
        one.get(7).asText(),
        one.get(1).asLong(),
        one.get(2).asLong(),
        one.get(3).asLong(),
        one.get(5).asBoolean(),
        renamed.getOrDefault(one.get(8).asText(), Set.of()),
        one.toString(),
        work(one));
  }

  private static long work(JsonNode split) {
    long bytes = split.get(2).asLong();
    if (!split.get(9).isArray()) {
      return bytes;
    }
    for (JsonNode log : split.get(9)) {
      bytes += log.get(1).asLong();
    }
    return bytes * MERGE_COST;
  }

  private void count(String name, long more) {
    counts.merge(name, more, Long::sum);
  }

  /** Whether a plan was made; before it, splits may wait for the join's values. */
  synchronized boolean isPlanned() {
    return left != null;
  }

  /** Whether the last splits were taken. */
  @Override
  public synchronized boolean isFinished() {
    return finished;
  }

  @Override
  public void close() {
    // nothing is open between batches
  }

  @Override
  public synchronized Metrics getMetrics() {
    Map<String, Metric<?>> metrics = new HashMap<>();
    counts.forEach((name, value) -> metrics.put(name, new LongCount(value)));
    return new Metrics(metrics);
  }
}
