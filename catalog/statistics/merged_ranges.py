"""Removal of unsound statistics that Apache Hudi merged over the row groups of a file.

Parquet's Java library writes `[0.0, 0.0]` for a chunk that holds NaN, and nothing for one whose texts are too long for
statistics. Apache Hudi merges the chunks of a file as they are. With one row group such statistics are recognised. With
several they look sound, though a range that lacks a row group always contains 0.0 or comes with nulls, because Hudi
counts all rows of such a row group as null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy

DEFAULT_BLOCK_SIZE = 125_829_120
"""Bytes of a row group as Apache's writers count them, unless `hoodie.parquet.block.size` says otherwise."""
_SLACK = 0.25
_PAGE = 1_310_720
_WIDEST = 20


@dataclass(frozen=True)
class RowGroupSize:
    """From which file size on a base file may have several row groups.

    A writer closes a row group at the block size. Until then it counts complete pages as they are compressed, but the
    last page of each column as it is, so a row group can be smaller than the block size by a page a column.

    Attributes:
        block_size: bytes at which writers close a row group.
        fixed: how many columns, fields of structs counted one by one, have values of a fixed width.
        variable: how many others there are.
    """

    block_size: int
    fixed: int
    variable: int

    @classmethod
    def of(cls, schema: pa.Schema, block_size: int) -> RowGroupSize:
        """The limit for files with these columns."""
        widths = [width for field in schema for width in _leaves(field.type)]
        return cls(block_size, sum(widths), len(widths) - sum(widths))

    def at_most(self, seen: int | None) -> RowGroupSize:
        """The same, where a writer was seen to close row groups of that many bytes; None if none was."""
        return self if seen is None or seen >= self.block_size else dataclasses.replace(self, block_size=seen)

    def may_be_several(self, sizes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether files of these sizes in bytes and row counts may have several row groups."""
        narrow = np.minimum(_PAGE, _WIDEST * np.maximum(rows, 0))
        slack = np.maximum(_SLACK * self.block_size, _PAGE * self.variable + narrow * self.fixed)
        several: NDArray[np.bool_] = sizes >= self.block_size - slack
        return several


def without_merged_ranges(
    entries: pa.Table,
    kind: pa.DataType,
    files: pa.Table,
    limit: RowGroupSize,
    seen: Callable[[pa.Table], int | None] | None = None,
) -> pa.Table:
    """A column's statistics by file, without those that may lack a row group.

    Args:
        entries: as `MetadataTable.column_stats` returns them.
        kind: the column's type.
        files: with the columns `file_name` and `size`: the base files.
        limit: from which size on files may have several row groups.
        seen: the least row group that writers of `files` were seen to close (`SeenRowGroups.least`); asked only where
            statistics are in doubt.
    """
    doubtful = _doubtful(entries, kind)
    if doubtful is None or not doubtful.any():
        return entries
    limit = limit if seen is None else limit.at_most(seen(files))
    largest = pc.max(files.column("size")).as_py() or 0
    if not limit.may_be_several(np.array([largest]), np.array([_PAGE])).any():
        return entries
    rows = np.flatnonzero(doubtful)
    some = entries.take(from_numpy(rows))
    at = pc.index_in(some.column("file_name"), one_chunk(files.column("file_name")))
    sizes = _numbers(one_chunk(files.column("size")).take(one_chunk(at)), 0)
    # An unknown number of rows may be any.
    counts = _numbers(one_chunk(some.column("value_count")), _PAGE)
    is_base = ~_mask(pc.is_null(at))
    unsound = rows[is_base & limit.may_be_several(sizes, counts)]
    if not len(unsound):
        return entries
    keep = np.ones(entries.num_rows, np.bool_)
    keep[unsound] = False
    return entries.filter(from_numpy(keep))


def _doubtful(entries: pa.Table, kind: pa.DataType) -> NDArray[np.bool_] | None:
    """Where statistics may lack a row group; None for types where none can."""
    types = pa.types
    if types.is_floating(kind):
        zero = pa.scalar(0.0, kind)
        around = pc.and_kleene(pc.less_equal(entries["min"], zero), pc.greater_equal(entries["max"], zero))
        bounded = pc.or_(pc.is_valid(entries["min"]), pc.is_valid(entries["max"]))
        return _mask(pc.and_(bounded, pc.fill_null(around, True)))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return _mask(pc.fill_null(pc.not_equal(entries["null_count"], 0), True))
    return None


def _leaves(kind: pa.DataType) -> list[bool]:
    """For each leaf of a type, whether its values are of a fixed width."""
    if pa.types.is_nested(kind):
        # A row may have any number of elements of lists and maps.
        fixed = pa.types.is_struct(kind)
        return [width and fixed for at in range(kind.num_fields) for width in _leaves(kind.field(at).type)]
    variable = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return [not any(test(kind) for test in variable)]


def _mask(values: Any) -> NDArray[np.bool_]:
    whole = one_chunk(values)
    mask: NDArray[np.bool_] = to_numpy(whole).astype(np.bool_)
    return mask


def _numbers(column: Any, default: int) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = to_numpy(pc.fill_null(column, default)).astype(np.int64)
    return numbers
