"""The columns of splits, made for a range of a plan's files."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.slices.file_slice import log_paths
from catalog.snapshots.snapshot import Snapshot
from catalog.splits.residuals import NOTHING, Residuals
from catalog.splits.splits import SPLIT_FIELDS
from catalog.statistics.row_groups import FilePart, divide
from pushdown.verdict import CannotPrune
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import CorruptFileError, MissingFileError

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take
nulls: Any = pa.nulls  # its stubs take one type at a time

_ROW_GROUPS = pa.list_(pa.int32())


@dataclass(frozen=True, eq=False)
class SplitSource:
    """What splits are made from: the kept files of a plan.

    Attributes:
        snapshot: the table.
        rows: positions of the kept files in the snapshot's files.
        fully_matching: for each of them, whether every row matches.
        row_counts: rows of each, null where not known.
        residuals: of the plan's filter.
        split_size: larger base files without log files are divided by row groups; None for none.
        threads: footers read at once.
    """

    snapshot: Snapshot
    rows: NDArray[np.int64]
    fully_matching: NDArray[np.bool_]
    row_counts: pa.Array[Any]
    residuals: Residuals
    split_size: int | None
    threads: int

    def make(self, start: int, count: int) -> pa.Table:
        """The splits of the kept files from `start` on, `count` of them."""
        whole = self._whole_files(start, count)
        return whole if self.split_size is None else self._divided(whole, start)

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
        large = pc.and_(
            pc.greater(whole.column("size"), self.split_size),
            pc.equal(pc.list_value_length(whole.column("log_files")), 0),
        )
        positions: list[int] = pc.indices_nonzero(large).to_pylist()
        if not positions or self.snapshot.schema_history is not None:
            return whole
        numbers: list[Any] = whole.column("residual").to_pylist()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="hudi-footer") as pool:
            found = pool.map(lambda at: self._parts(start + at, numbers[at]), positions)
            parts = dict(zip(positions, found, strict=True))
        return _with_parts(whole, parts)

    def _parts(self, position: int, residual: int) -> list[FilePart] | None:
        path = str(self.snapshot.files.column("path")[int(self.rows[position])].as_py())
        try:
            found = footer(self.snapshot.client.storage, path)
        except (MissingFileError, CorruptFileError):
            return None  # whoever reads the file will say so
        return divide(found, self.residuals.expression(residual), self.split_size or 0)


def _with_parts(whole: pa.Table, parts: dict[int, list[FilePart] | None]) -> pa.Table:
    at: list[int] = []
    cut: list[FilePart | None] = []
    for position in range(whole.num_rows):
        found: Sequence[FilePart | None] | None = parts.get(position)
        for part in (None,) if found is None else found:
            at.append(position)
            cut.append(part)
    table = whole.take(pa.array(at, pa.int64()))
    is_part = pa.array([part is not None for part in cut], pa.bool_())
    changes = {
        "start": pa.array([part and part.start for part in cut], pa.int64()),
        "length": pa.array([part and part.length for part in cut], pa.int64()),
        "record_count": pa.array([part and part.row_count for part in cut], pa.int64()),
        "row_groups": pa.array([part and part.row_groups for part in cut], _ROW_GROUPS),
        "fully_matching": pa.array([part and part.fully_matching for part in cut], pa.bool_()),
    }
    for name, values in changes.items():
        column = pc.if_else(is_part, values, table.column(name))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    sure = pc.if_else(table.column("fully_matching"), pa.scalar(NOTHING, pa.int32()), table.column("residual"))
    return table.set_column(table.schema.get_field_index("residual"), "residual", sure)


def _partition_values(snapshot: Snapshot, partitions: NDArray[np.int64]) -> pa.Array[Any]:
    told = snapshot.path_values()
    if isinstance(told, CannotPrune) or not len(partitions):
        return pa.array([{}] * len(partitions), pa.struct([]))
    at = from_numpy(partitions)
    arrays = [values.take(at) for values in told.values.values()]
    return pa.StructArray.from_arrays(arrays, names=list(told.values), mask=from_numpy(~told.known[partitions]))
