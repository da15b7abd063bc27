package hudicatalog.trino;

import io.trino.spi.connector.ConnectorPartitioningHandle;
import io.trino.spi.type.Type;
import java.util.List;

/** A rule by which rows are in buckets, which names no table: where two are equal, equal values have equal buckets. */
public record HudiPartitioning(int buckets, List<Type> types) implements ConnectorPartitioningHandle {}
