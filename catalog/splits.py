"""File splits: what an engine reads. Kept as columns; objects are made as they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog.json_rows import json_values

BATCH_SPLITS = 1000

SPLIT_FIELDS = (
    "path",
    "partition",
    "file_id",
    "instant",
    "file_name",
    "size",
    "start",
    "length",
    "record_count",
    "fully_matching",
    "partition_values",
)


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A part of a base file that may hold matching rows.

    Attributes:
        path: URI of the file.
        partition: partition path, "" in a table without partitions.
        file_id: the file group.
        instant: that wrote the file.
        file_name: without its folder.
        size: bytes of the file.
        start: first byte of the split.
        length: bytes of the split.
        record_count: rows of the file, None when not known without opening it.
        fully_matching: statistics prove that every row makes the filter true.
        partition_values: by partition column; empty where the path does not tell them.
    """

    path: str
    partition: str
    file_id: str
    instant: str
    file_name: str
    size: int
    start: int
    length: int
    record_count: int | None
    fully_matching: bool
    partition_values: dict[str, Any]


class Splits:
    """The splits of a plan, in the order of partition and file group.

    Args:
        table: a column for each of `SPLIT_FIELDS`; `partition_values` is a struct.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[FileSplit]:
        for batch in self.batches():
            yield from batch

    def __getitem__(self, position: int) -> FileSplit:
        if not -len(self) <= position < len(self):
            raise IndexError(f"split {position} of {len(self)}")
        return _objects(self._table.slice(position % len(self), 1))[0]

    def to_arrow(self) -> pa.Table:
        """All splits as one table."""
        return self._table

    def batches(self, size: int = BATCH_SPLITS) -> Iterator[list[FileSplit]]:
        """The splits in lists of at most `size`, each made when it is asked for."""
        for start in range(0, len(self), size):
            yield _objects(self._table.slice(start, size))

    def json_objects(self) -> Iterator[dict[str, Any]]:
        """The splits as `json.dumps` takes them; partition values in the encoding of `catalog.json_rows`."""
        for start in range(0, len(self), BATCH_SPLITS):
            part = self._table.slice(start, BATCH_SPLITS)
            plain = part.drop_columns(["partition_values"]).to_pylist()
            for row, values in zip(plain, json_values(part.column("partition_values")).to_pylist(), strict=True):
                yield {**row, "partition_values": json.loads(values)}


def _objects(table: pa.Table) -> list[FileSplit]:
    return [FileSplit(**row) for row in table.select(list(SPLIT_FIELDS)).to_pylist()]
