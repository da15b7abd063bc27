"""Make `tables/indexes.tar.xz`: small tables with indexes of every kind."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from tests.golden.packing import Members, files_of, remake
from tests.support.apache_hudi_client import ApacheHudi

_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("t", pa.int64()),
        ("d", pa.string()),
        ("v", pa.int64()),
        ("ts", pa.int64()),
        ("pad", pa.string()),
    ]
)
_KEYGEN = "org.apache.hudi.keygen"
_COMMON = {
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.SimpleKeyGenerator",
    "hoodie.index.bloom.num_entries": "60",
    "hoodie.metadata.enable": "false",
}
_CLUSTERING = "org.apache.hudi.client.clustering"
_RING = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.compact.inline": "false",
    # groups of more than 5,175 bytes are split in two
    "hoodie.parquet.max.file.size": "3450",
    "hoodie.bucket.index.split.threshold": "1.5",
    "hoodie.clustering.plan.strategy.class": f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": (
        f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
}
_RESIZE = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}


def _write(
    apache: ApacheHudi, folder: Path, numbers: Sequence[int], options: dict[str, str], ordering: int = 0
) -> None:
    rows = [
        {
            "id": f"k{n:05d}",
            "part": ("x", "yé", "z")[n % 3],
            "t": n * 7_000_003 - 40_000_000,
            "d": f"2024-01-{1 + n % 28:02d} {n % 10:02d}:00:00",
            "v": n * 3,
            "ts": ordering,
            "pad": f"{n * 0x9E3779B1 % 2**32:x}" * 8,
        }
        for n in numbers
    ]
    chosen = {**_COMMON, "hoodie.table.name": folder.name, **options}
    if apache.version != "0.15.0":
        chosen["hoodie.write.table.version"] = "9"
    apache.write(folder, pa.Table.from_pylist(rows, _SCHEMA), chosen, "append" if folder.exists() else "overwrite")


def ring(apache: ApacheHudi, folder: Path) -> Members:
    """Consistent hashing: two buckets a partition, of which large ones are split, and updates in the new ones."""
    _write(apache, folder, range(120), _RING)
    _write(apache, folder, range(0, 120, 3), _RING | _RESIZE)
    _write(apache, folder, range(0, 127, 9), _RING)
    return files_of(folder)


def counts(apache: ApacheHudi, folder: Path) -> Members:
    """Bucket counts that differ between partitions, after a rescale."""
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    _write(apache, folder, range(90), buckets)
    for statement in (
        f"CREATE TABLE {folder.name} USING hudi LOCATION '{folder}'",
        (
            f"CALL partition_bucket_index_manager(table => '{folder.name}', overwrite => '^x$,5;y.,2', "
            "rule => 'regex', bucket_number => 3, dry_run => false)"
        ),
        f"DROP TABLE {folder.name}",
    ):
        apache.sql(statement)
    _write(apache, folder, range(0, 90, 5), buckets)
    return files_of(folder)


def time(apache: ApacheHudi, folder: Path) -> Members:
    """The timestamp-based key generator, whose days are those of `GMT+8:00`."""
    options = {
        "hoodie.index.type": "SIMPLE",
        "hoodie.datasource.write.partitionpath.field": "t",
        "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "GMT+8:00",
    }
    _write(apache, folder, range(60), options)
    return files_of(folder)


def blooms(apache: ApacheHudi, folder: Path) -> Members:
    """Bloom filters in the metadata table, of files of which some are older."""
    options = {
        "hoodie.index.type": "BLOOM",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.bloom.filter.enable": "true",
    }
    for numbers in (range(60), range(60, 120), range(10, 20)):
        _write(apache, folder, numbers, options, numbers[0])
    return files_of(folder, without=None)


#: By name in the archive: the release and the maker.
TABLES: dict[str, tuple[str, Callable[[ApacheHudi, Path], Members]]] = {
    "v6_ring": ("0.15.0", ring),
    "v6_blooms": ("0.15.0", blooms),
    "v9_ring": ("1.2.0", ring),
    "v9_counts": ("1.2.0", counts),
    "v9_time": ("1.2.0", time),
}

if __name__ == "__main__":
    remake("tables/indexes.tar.xz", TABLES, sys.argv[1:])
