package hudicatalog.trino;

import io.trino.spi.block.Block;
import io.trino.spi.connector.BucketFunction;
import io.trino.spi.connector.ConnectorBucketNodeMap;
import io.trino.spi.connector.ConnectorNodePartitioningProvider;
import io.trino.spi.connector.ConnectorPartitioningHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.type.Type;
import java.util.List;
import java.util.Optional;
import java.util.function.ToIntFunction;

/** Tells the engine which bucket splits belong to, and rows that it sends to the buckets of another table. */
final class HudiPartitioningProvider implements ConnectorNodePartitioningProvider {
  @Override
  public Optional<ConnectorBucketNodeMap> getBucketNodeMapping(ConnectorTransactionHandle transaction,
      ConnectorSession session, ConnectorPartitioningHandle handle) {
    // any node may read any bucket
    return Optional.of(ConnectorBucketNodeMap.createBucketNodeMap(((HudiPartitioning) handle).buckets()));
  }

  @Override
  public ToIntFunction<ConnectorSplit> getSplitBucketFunction(ConnectorTransactionHandle transaction,
      ConnectorSession session, ConnectorPartitioningHandle handle, int bucketCount) {
    return split -> ((SplitBundle) split).parts().getFirst().bucket() % bucketCount;
  }

  @Override
  public BucketFunction getBucketFunction(ConnectorTransactionHandle transaction, ConnectorSession session,
      ConnectorPartitioningHandle handle, List<Type> types, int bucketCount) {
    return (page, position) -> {
      Block[] blocks = new Block[types.size()];
      for (int i = 0; i < blocks.length; i++) {
        blocks[i] = page.getBlock(i);
      }
      return BucketHash.bucket(types, blocks, position, bucketCount);
    };
  }
}
