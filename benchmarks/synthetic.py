"""Tables that exist in their metadata table only: any number of files, with column statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.codecs.avro_schema import schema_text
from table_format.codecs.avro_schema_tree import parse
from table_format.config.table_config import create_table_config
from table_format.instant import Action, Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.encoding.avro import encode_union
from table_writer.encoding.metadata_records import SCHEMA, STATISTICS_SCHEMA
from table_writer.metadata.creation import create_metadata_table
from table_writer.metadata.writer import update_metadata_table

INSTANT = "20260101000000000"
ROWS = 1_000
SIZE = 1 << 20
KINDS = (pa.int64(), pa.float64(), pa.string(), pa.date32())


@dataclass(frozen=True)
class Shape:
    """How large a table is.

    Attributes:
        files: base files, of one file group each.
        columns: indexed columns, `c00` and so on, of the types in `KINDS` by turns.
        partitions: over which the files are spread.
    """

    files: int
    columns: int
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        """Of the table."""
        return pa.schema([("day", pa.int32()), *((f"c{i:02d}", KINDS[i % 4]) for i in range(self.columns))])


def build(path: Path, shape: Shape) -> None:
    """Make the table: properties, one commit, and the metadata table by this project's own writer."""
    storage = Storage(str(path))
    create_table_config(
        storage,
        {
            "hoodie.table.name": "wide",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.recordkey.fields": "c00",
            "hoodie.table.partition.fields": "day",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.table.timeline.timezone": "UTC",
        },
    )
    schema = schema_text(shape.schema, "wide")
    metadata = CommitMetadata(operation_type="BULK_INSERT", extra_metadata={"schema": schema})
    for state in State:
        _write_instant(storage, Instant(INSTANT, Action.COMMIT, state), metadata)
    names, partitions = file_names(shape)
    create_metadata_table(
        TableClient.open(storage), files=_listing(names, partitions), column_stats=statistics(names, partitions, shape)
    )


def commit(path: Path, instant: str, groups: Sequence[tuple[str, str]], shape: Shape) -> None:
    """Write a commit that makes a new version of some file groups.

    Args:
        path: of the table.
        instant: of the commit.
        groups: partition and file id of each.
        shape: of the table.
    """
    storage = Storage(str(path))
    names = pa.array([f"{file_id}_0-1-1_{instant}.parquet" for _, file_id in groups])
    partitions = pa.array([partition for partition, _ in groups])
    stats: dict[str, list[WriteStat]] = {}
    for (partition, file_id), name in zip(groups, names.to_pylist(), strict=True):
        stat = WriteStat(
            file_id=file_id,
            path=f"{partition}/{name}",
            partition_path=partition,
            file_size_in_bytes=SIZE,
            num_writes=ROWS,
        )
        stats.setdefault(partition, []).append(stat)
    metadata = CommitMetadata(
        partition_to_write_stats=stats,
        operation_type="UPSERT",
        extra_metadata={"schema": schema_text(shape.schema, "wide")},
    )
    for state in State:
        if state is State.COMPLETED:
            update_metadata_table(
                TableClient.open(storage),
                instant,
                files_added=_listing(names, partitions),
                column_stats=statistics(names, partitions, shape),
            )
        _write_instant(storage, Instant(instant, Action.COMMIT, state), metadata)


def _write_instant(storage: Storage, instant: Instant, metadata: CommitMetadata) -> None:
    content = metadata.to_json() if instant.state is State.COMPLETED else b""
    storage.create(f".hoodie/{instant.file_name}", content)


def _listing(names: Any, partitions: Any) -> pa.Table:
    return pa.table({"partition": partitions, "file_name": names, "size": pa.array(np.full(len(names), SIZE))})


def file_names(shape: Shape) -> tuple[Any, Any]:
    """Names of base files, and their partitions."""
    random = np.random.default_rng(0).integers(0, 1 << 32, (shape.files, 4))
    ids = [f"{a:08x}-{b & 0xFFFF:04x}-4{c & 0xFFF:03x}-8{d & 0xFFF:03x}-{a:08x}{b >> 16:04x}" for a, b, c, d in random]
    names = pa.array([f"{name}-0_{n}-0-0_{INSTANT}.parquet" for n, name in enumerate(ids)])
    return names, pa.array([f"day={n % shape.partitions}" for n in range(shape.files)])


def statistics(names: Any, partitions: Any, shape: Shape) -> pa.Table:
    """A range for each file and column: file n holds the n-th thousand of values."""
    stats = dict(parse(SCHEMA).fields)["ColumnStatsMetadata"].branches[1]
    union = dict(stats.fields)["minValue"]
    count = len(names)
    pieces = []
    for i in range(shape.columns):
        kind = KINDS[i % 4]
        branch = {"int64": 3, "double": 5, "string": 7, "date32[day]": 8}[str(kind)]
        low, high = bounds(np.arange(count) * ROWS, kind), bounds(np.arange(count) * ROWS + ROWS - 1, kind)
        columns = {
            "partition": partitions,
            "file_name": names,
            "column": pa.array([f"c{i:02d}"] * count),
            "type": pa.array([str(kind)] * count),
            "min": encode_union(union, branch, low),
            "max": encode_union(union, branch, high),
        }
        counts = {"value_count": ROWS, "null_count": i % 3, "total_size": 4096, "total_uncompressed_size": 8192}
        columns |= {name: pa.array(np.full(count, value, np.int64)) for name, value in counts.items()}
        pieces.append(pa.table(columns, schema=STATISTICS_SCHEMA))
    return pa.concat_tables(pieces)


def bounds(numbers: Any, kind: pa.DataType) -> Any:
    """Numbers as values of a type, in the same order."""
    if pa.types.is_string(kind):
        return pa.array([f"v{n:014d}" for n in numbers])
    if pa.types.is_date32(kind):
        return pa.array((numbers // 50_000).astype(np.int32)).cast(kind)
    return pa.array(numbers.astype(np.float64) if pa.types.is_floating(kind) else numbers)
