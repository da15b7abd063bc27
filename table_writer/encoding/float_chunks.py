"""Chunks of floating-point numbers by whose statistics or dictionary readers would skip rows that meet a filter.

Spark takes NaN for the greatest number, and Arrow leaves it out of the bounds: for `f > 5` Spark's reader skips a row
group of 1.0 and NaN. Chunks with NaN get the bounds -inf and inf; of one without bounds Apache Hudi's index would say
that all values are 0.0. Spark also takes -0.0 for 0.0, which a dictionary of -0.0 alone does not hold: for `f = 0` its
reader skips the row group. Where a footer does not say that all pages use the dictionary, it does not look there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import types

from table_format.base_file.footer_fields import (
    TAIL,
    ChunkField,
    FileField,
    GroupField,
    MetadataField,
    StatisticsField,
    chunks_of,
    parsed_by_pyarrow,
)
from table_format.codecs.arrow_numpy import to_numpy
from table_format.codecs.thrift_compact import BINARY, STRUCT, Struct, read_struct, write_struct

_COLUMN_INDEX: Final = (ChunkField.COLUMN_INDEX, ChunkField.COLUMN_INDEX_SIZE)
#: By width in bytes: signed integers, and the least one, which has the bits of -0.0.
_SIGNED: Final = {4: ("i4", -(2**31)), 8: ("i8", -(2**63))}
#: By Parquet's type: how `struct` names it.
_FORMATS: Final = {4: "<f", 5: "<d"}


@dataclass(frozen=True)
class FloatLeaves:
    """Leaves, by their paths in the file, of rows that are written together.

    Attributes:
        nan: those that hold NaN.
        negative_zero: those that hold -0.0.
    """

    nan: frozenset[str]
    negative_zero: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.nan or self.negative_zero)

    @classmethod
    def of(cls, table: pa.Table) -> FloatLeaves:
        """Those of some rows; not in lists and maps, by whose values no reader skips row groups."""
        nan, negative_zero = set(), set()
        for path, chunks in _leaves(table):
            for values in map(_values, chunks):
                if _has_nan(values):
                    nan.add(path)
                if _has_negative_zero(values):
                    negative_zero.add(path)
        return cls(frozenset(nan), frozenset(negative_zero))

    def corrected(self, chunk: Struct) -> Struct:
        """A column chunk's struct by which readers find these values."""
        metadata: Struct = chunk[ChunkField.METADATA][1]
        path = ".".join(name.decode() for name in metadata[MetadataField.PATH][1][1])
        if path in self.nan:
            chunk = {field: value for field, value in chunk.items() if field not in _COLUMN_INDEX}
            metadata = _with_wide_bounds(metadata)
        if path in self.negative_zero:
            metadata = {field: value for field, value in metadata.items() if field != MetadataField.ENCODING_STATISTICS}
        return {**chunk, ChunkField.METADATA: (STRUCT, metadata)}


class FloatChunks:
    """Floating-point chunks of a file that pyarrow's Parquet writer writes.

    Where the footer has to tell readers of values, the writer's bytes pass through `sink`: pages at once; what it adds
    when it is closed, page indexes and footer, is held until `finish`.

    Args:
        several: whether rows may be added after the writer was opened.
    """

    def __init__(self, *, several: bool) -> None:
        self._several = several
        self._groups: list[FloatLeaves] = []
        self._sink: _Sink | None = None

    def add(self, table: pa.Table, row_group_size: int) -> None:
        """Look at rows that are written next, as row groups of this size."""
        whole = FloatLeaves.of(table)
        divided = bool(whole) and len(table) > row_group_size
        for start in range(0, len(table), row_group_size):
            self._groups.append(FloatLeaves.of(table.slice(start, row_group_size)) if divided else whole)

    def sink(self, stream: Any) -> Any:
        """What the writer is opened on, once the first rows were added."""
        if not self._several and not any(self._groups):
            return stream
        self._sink = _Sink(stream)
        return self._sink

    def hold(self) -> None:
        """Keep what is written from now on; call it before the writer is closed."""
        if self._sink is not None:
            self._sink.held = []

    def finish(self, *, unsorted: bool = False) -> pq.FileMetaData | None:
        """Write what was held.

        Args:
            unsorted: row groups are not sorted, though the writer was told so before later rows came.

        Returns:
            The footer; None if it is the writer's own.
        """
        if self._sink is None:
            return None
        data, stream = b"".join(self._sink.held or []), self._sink.stream
        if not any(self._groups) and not unsorted:
            stream.write(data)
            return None
        size = int.from_bytes(data[-TAIL:-4], "little")
        before, footer = data[: -TAIL - size], self._corrected(data[-TAIL - size : -TAIL], unsorted=unsorted)
        stream.write(before + footer + len(footer).to_bytes(4, "little") + data[-4:])
        return parsed_by_pyarrow(footer)

    def _corrected(self, footer: bytes, *, unsorted: bool) -> bytes:
        meta, _ = read_struct(footer)
        for group, leaves in zip(meta[FileField.GROUPS][1][1], self._groups, strict=True):
            if unsorted:
                group.pop(GroupField.SORTING, None)
            if leaves:
                chunks = chunks_of(group)
                chunks[:] = map(leaves.corrected, chunks)
        return write_struct(meta)


class _Sink:
    """A stream for pyarrow; its owner flushes and closes the stream behind it."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.held: list[bytes] | None = None

    def write(self, data: Any) -> int:
        if self.held is None:
            self.stream.write(data)
        else:
            self.held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        return int(self.stream.tell()) + sum(map(len, self.held or []))

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

    def writable(self) -> bool:
        return True


def _leaves(table: pa.Table) -> Iterator[tuple[str, list[Any]]]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield from _leaves_of(name, column.type, column.chunks)


def _leaves_of(path: str, kind: pa.DataType, chunks: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    if types.is_floating(kind):
        yield path, chunks
    elif isinstance(kind, pa.DictionaryType) and types.is_floating(kind.value_type):
        yield path, [chunk.dictionary for chunk in chunks]
    elif isinstance(kind, pa.StructType):
        for place in range(kind.num_fields):
            field = kind.field(place)
            yield from _leaves_of(f"{path}.{field.name}", field.type, [pc.struct_field(one, [place]) for one in chunks])


def _values(chunk: Any) -> NDArray[Any]:
    return to_numpy(pc.fill_null(chunk, 1) if chunk.null_count else chunk)


def _has_nan(values: NDArray[Any]) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        total = values.sum()  # NaN as well for both infinities; takes a fifth of the time of a test of each value
    return bool(np.isnan(total)) and bool(np.isnan(values).any())


def _has_negative_zero(values: NDArray[Any]) -> bool:
    kind, least = _SIGNED[values.itemsize]
    return bool(len(values)) and bool(values.view(kind).min() == least)


def _with_wide_bounds(metadata: Struct) -> Struct:
    if MetadataField.STATISTICS not in metadata:
        return metadata
    old: Struct = metadata[MetadataField.STATISTICS][1]
    least, most = (struct.pack(_FORMATS[metadata[MetadataField.TYPE][1]], end) for end in (-float("inf"), float("inf")))
    exact = (StatisticsField.MAX_EXACT, StatisticsField.MIN_EXACT)
    new = {field: value for field, value in old.items() if field not in exact}
    for field, bound in (
        (StatisticsField.OLD_MAX, most),
        (StatisticsField.OLD_MIN, least),
        (StatisticsField.MAX, most),
        (StatisticsField.MIN, least),
    ):
        new[field] = (BINARY, bound)
    return {**metadata, MetadataField.STATISTICS: (STRUCT, dict(sorted(new.items())))}
