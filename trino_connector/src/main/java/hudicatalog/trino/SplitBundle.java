package hudicatalog.trino;

import io.trino.spi.SplitWeight;
import io.trino.spi.connector.ConnectorSplit;
import java.util.List;

/** What the engine takes for a split: a part of a large file, or some small files, of one bucket where that matters. */
public record SplitBundle(List<HudiSplit> parts) implements ConnectorSplit {
  /** A split of so much work counts as a whole one. */
  private static final double WHOLE_BYTES = 32 << 20;
  private static final double LEAST_WEIGHT = 0.05;

  @Override
  public SplitWeight getSplitWeight() {
    double bytes = parts.stream().mapToDouble(HudiSplit::work).sum();
    return SplitWeight.fromProportion(Math.clamp(bytes / WHOLE_BYTES, LEAST_WEIGHT, 1.0));
  }

  @Override
  public long getRetainedSizeInBytes() {
    return 40 + parts.stream().mapToLong(HudiSplit::retainedSize).sum();
  }
}
