"""The splits of a plan as columns, and as `FileSplit` objects made when iterated over."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.rows.json_rows import json_values
from catalog.slices.file_slice import FileSlice, log_paths
from catalog.snapshots.snapshot import Snapshot
from catalog.splits.residuals import NOTHING, Residuals
from catalog.splits.splitter import Splitter
from pushdown.expression import HudiExpression
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, nulls

BATCH_SPLITS = 1000
SPLIT_FIELDS = (
    "path",
    "log_files",
    "partition",
    "file_id",
    "instant",
    "file_name",
    "size",
    "start",
    "length",
    "row_groups",
    "record_count",
    "fully_matching",
    "partition_values",
    "residual",
)
_ROW_GROUPS = pa.list_(pa.int32())


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file slice, or a part of a base file, that may hold matching rows.

    Attributes:
        path: URI of the base file; None for a slice that has log files only.
        log_files: URIs of the log files to merge over the base file, in this order.
        partition: partition path, "" in a table without partitions.
        file_id: the file group.
        instant: of the file slice; that which wrote the base file.
        file_name: of the base file, without its folder.
        size: bytes of the base file.
        start: first byte of the split.
        length: bytes of the split.
        row_groups: ordinals of the base file's row groups that make up the split; None for the whole file.
        record_count: rows of the split, None when not known without opening it.
        fully_matching: statistics prove that every row makes the filter true.
        partition_values: by partition column; empty where the path does not give them.
        residual: the part of the filter that is left to check for each row; None when every row matches.
    """

    path: str | None
    log_files: tuple[str, ...]
    partition: str
    file_id: str
    instant: str
    file_name: str | None
    size: int
    start: int
    length: int
    row_groups: tuple[int, ...] | None
    record_count: int | None
    fully_matching: bool
    partition_values: dict[str, Any]
    residual: HudiExpression | None


class Splits:
    """The splits of a plan, in the order of partition and file group.

    Iteration and `batches` make them batch by batch, so that memory does not grow with the plan. Where files are
    divided by row groups, `len`, indexing and `to_arrow` need all of them, and open all large files once.

    Args:
        files: how many files the plan keeps.
        make: makes the splits of some files, by the position of the first and their number. Its table has a column for
            each of `SPLIT_FIELDS`; `partition_values` is a struct, and `residual` the number of one of `residuals`.
        residuals: of the plan.
        one_a_file: whether each file is one split.
    """

    def __init__(
        self, files: int, make: Callable[[int, int], pa.Table], residuals: Residuals, *, one_a_file: bool = True
    ) -> None:
        self._files = files
        self._make = make
        self._residuals = residuals
        self._one_a_file = one_a_file

    def __len__(self) -> int:
        return self._files if self._one_a_file else self._whole.num_rows

    def __iter__(self) -> Iterator[FileSplit]:
        for batch in self.batches():
            yield from batch

    def __getitem__(self, position: int) -> FileSplit:
        if not -len(self) <= position < len(self):
            raise IndexError(f"split {position} of {len(self)}")
        at = position % len(self)
        return self._objects(self._make(at, 1) if self._one_a_file else self._whole.slice(at, 1))[0]

    @functools.cached_property
    def _whole(self) -> pa.Table:
        return self._make(0, self._files).combine_chunks()

    def to_arrow(self) -> pa.Table:
        """All splits as one table; residuals as SQL text, null where every row matches."""
        return self._with_texts(self._whole)

    def batches(self, size: int = BATCH_SPLITS) -> Iterator[list[FileSplit]]:
        """The splits in lists of at most `size`, each made when it is reached."""
        for part in self._parts(size):
            yield self._objects(part)

    def json_objects(self) -> Iterator[dict[str, Any]]:
        """The splits as `json.dumps` takes them; partition values in the encoding of `catalog.rows.json_rows`."""
        for part in self._parts(BATCH_SPLITS):
            plain = self._with_texts(part).drop_columns(["partition_values"]).to_pylist()
            for row, values in zip(plain, json_values(part.column("partition_values")).to_pylist(), strict=True):
                partition_values = {"partition_values": json.loads(values)}
                yield {name: row[name] if name in row else partition_values[name] for name in SPLIT_FIELDS}

    def _parts(self, size: int) -> Iterator[pa.Table]:
        """Tables of up to `size` splits."""
        if "_whole" in self.__dict__:
            for start in range(0, self._whole.num_rows, size):
                yield self._whole.slice(start, size)
            return
        for start in range(0, self._files, size):
            made = self._make(start, min(size, self._files - start))
            for begin in range(0, made.num_rows, size):
                yield made.slice(begin, size)

    def _with_texts(self, table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("residual")
        numbers: list[Any] = table.column(at).to_pylist()
        distinct = {number: self._residuals.expression(number) for number in set(numbers)}
        texts = {number: None if one is None else one.to_sql() for number, one in distinct.items()}
        column: Any = pa.array([texts[number] for number in numbers], pa.string())
        return table.set_column(at, "residual", column)

    def _objects(self, table: pa.Table) -> list[FileSplit]:
        columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in SPLIT_FIELDS}
        columns["log_files"] = [tuple(files) for files in columns["log_files"]]
        columns["row_groups"] = [None if groups is None else tuple(groups) for groups in columns["row_groups"]]
        columns["residual"] = [self._residuals.expression(number) for number in columns["residual"]]
        return [FileSplit(*values) for values in zip(*columns.values(), strict=True)]


@dataclass(frozen=True, eq=False)
class SplitSource:
    """The kept files of a plan, from which splits are made.

    Attributes:
        snapshot: the table.
        rows: positions of the kept files in the snapshot's files.
        fully_matching: for each of them, whether every row matches.
        row_counts: rows of each, null where not known.
        residuals: of the plan's filter.
        split_size: larger base files without log files are divided by row groups; None for none.
        splitter: divides them.
    """

    snapshot: Snapshot
    rows: NDArray[np.int64]
    fully_matching: NDArray[np.bool_]
    row_counts: pa.Array[Any]
    residuals: Residuals
    split_size: int | None
    splitter: Splitter

    def make(self, start: int, count: int) -> pa.Table:
        """The splits of the kept files from `start` on, `count` of them."""
        return self._divided(self._whole_files(start, count), start)

    def _whole_files(self, start: int, count: int) -> pa.Table:
        snapshot, rows = self.snapshot, self.rows[start : start + count]
        files = snapshot.take_files(rows)
        root = snapshot.client.storage.full_uri("").rstrip("/")
        partitions = snapshot.partition_index[rows]
        matching = self.fully_matching[start : start + count]
        columns: dict[str, Any] = {
            name: files.column(name) for name in ("partition", "file_id", "instant", "file_name")
        }
        columns["path"] = pc.binary_join_element_wise(root, files.column("path"), "/")
        columns["log_files"] = log_paths(files, root)
        columns["size"] = columns["length"] = pc.fill_null(files.column("size"), 0)
        columns["start"] = from_numpy(np.zeros(len(rows), np.int64))
        columns["row_groups"] = nulls(len(rows), _ROW_GROUPS)
        columns["record_count"] = self.row_counts.slice(start, len(rows))
        columns["fully_matching"] = from_numpy(matching)
        columns["partition_values"] = _partition_values(snapshot, partitions)
        columns["residual"] = from_numpy(self.residuals.numbers(partitions, matching))
        return pa.table({name: columns[name] for name in SPLIT_FIELDS})

    def _divided(self, whole: pa.Table, start: int) -> pa.Table:
        """The table with each large file's parts in place of the file."""
        if self.split_size is None or not self.snapshot.footers_apply:
            return whole
        large = pc.and_(
            pc.greater(whole.column("size"), self.split_size),
            pc.equal(pc.list_value_length(whole.column("log_files")), 0),
        )
        positions: list[int] = pc.indices_nonzero(large).to_pylist()
        if not positions:
            return whole
        rows = self.rows[start + np.array(positions)]
        numbers: list[Any] = whole.column("residual").take(pa.array(positions)).to_pylist()
        filters = [self.residuals.expression(number) for number in numbers]
        slices = self.snapshot.file_slices(rows)
        parts = self.splitter.divide(self.snapshot.client.storage, slices, filters, self.split_size)
        return _with_parts(whole, dict(zip(positions, parts, strict=True)))


def _with_parts(whole: pa.Table, parts: dict[int, list[FileSlice]]) -> pa.Table:
    """The table with some rows replaced by their parts; a file that the splitter left whole stays as it is."""
    at: list[int] = []
    cut: list[FileSlice | None] = []
    for position in range(whole.num_rows):
        for part in parts.get(position, (None,)):
            at.append(position)
            cut.append(None if part is None or part.row_groups is None else part)
    table = whole.take(pa.array(at, pa.int64()))
    is_part = pa.array([part is not None for part in cut], pa.bool_())
    changes = {
        "start": pa.array([part and part.start for part in cut], pa.int64()),
        "length": pa.array([part and part.length for part in cut], pa.int64()),
        "record_count": pa.array([part and part.record_count for part in cut], pa.int64()),
        "row_groups": pa.array([part and part.row_groups for part in cut], _ROW_GROUPS),
        "fully_matching": pa.array([part and part.fully_matching for part in cut], pa.bool_()),
    }
    for name, values in changes.items():
        column = pc.if_else(is_part, values, table.column(name))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    sure = pc.if_else(table.column("fully_matching"), pa.scalar(NOTHING, pa.int32()), table.column("residual"))
    return table.set_column(table.schema.get_field_index("residual"), "residual", sure)


def _partition_values(snapshot: Snapshot, partitions: NDArray[np.int64]) -> pa.Array[Any]:
    path_values = snapshot.path_values()
    if isinstance(path_values, CannotPrune) or not len(partitions):
        return pa.array([{}] * len(partitions), pa.struct([]))
    at = from_numpy(partitions)
    arrays = [values.take(at) for values in path_values.values.values()]
    return pa.StructArray.from_arrays(
        arrays, names=list(path_values.values), mask=from_numpy(~path_values.known[partitions])
    )
