"""The keys of an index look-up: pages of Thrift blocks as Arrow columns, and the filter that they make."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from hudi_catalog.trino.types import BlockKind, Form, ServedColumn
from pushdown.expression import HudiExpression, Op, Predicate, Unknown, all_of, any_of
from table_format.codecs.arrow_numpy import Mask, from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import ServiceError

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_EPOCH = dt.date(1970, 1, 1)
_MOST_TUPLES = 1_000

# By kind of block: its field, the list of values in it (sizes for texts), and the type of the values.
_BLOCKS: dict[BlockKind, tuple[str, str, pa.DataType]] = {
    BlockKind.INTEGER: ("integerData", "ints", pa.int32()),
    BlockKind.BIGINT: ("bigintData", "longs", pa.int64()),
    BlockKind.DOUBLE: ("doubleData", "doubles", pa.float64()),
    BlockKind.VARCHAR: ("varcharData", "sizes", pa.string()),
    BlockKind.BOOLEAN: ("booleanData", "booleans", pa.bool_()),
    BlockKind.DATE: ("dateData", "dates", pa.int32()),
    BlockKind.TIMESTAMP: ("timestampData", "timestamps", pa.int64()),
}


def keys_of_page(page: Any, columns: Sequence[ServedColumn]) -> pa.Table:
    """The distinct keys of a page, without those that have a null: null equals nothing.

    Args:
        page: a ``TrinoThriftPageResult``.
        columns: the key columns, in the order of its blocks.

    Returns:
        A column for each of them by its name in Trino, of values as they are served: whole numbers, doubles, texts,
        booleans, days and milliseconds.

    Raises:
        ServiceError: the page is not made of such columns.
    """
    blocks, count = page.columnBlocks, page.rowCount
    if len(blocks) != len(columns) or not columns:
        raise ServiceError(f"keys of {len(blocks)} columns for {len(columns)} index columns")
    arrays = [_array(block, column, count) for block, column in zip(blocks, columns, strict=True)]
    names = [column.name for column in columns]
    table = pa.table(dict(zip(names, arrays, strict=True)))
    return table.drop_null().group_by(names).aggregate([]).select(names).combine_chunks()


def key_bytes(keys: pa.Table) -> bytes:
    """The keys as an Arrow IPC stream, as small as they get: each split id has them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(keys)
    return sink.getvalue().to_pybytes()


def key_filter(keys: pa.Table, columns: Sequence[ServedColumn]) -> HudiExpression:
    """What is true of every row that has one of the keys; it may be true of others.

    A few keys of several columns are named one by one, of more the values of each column.

    Args:
        keys: at least one.
        columns: the key columns.
    """
    values = [_literals(keys.column(column.name), column) for column in columns]
    known = [position for position, one in enumerate(values) if one is not None]
    if not known:
        return Unknown("keys of a type whose values are not compared")
    if len(known) > 1 and keys.num_rows <= _MOST_TUPLES:
        rows = zip(*(values[position] or [] for position in known), strict=True)
        sources = [columns[position].source for position in known]
        return any_of(
            *(all_of(*(Predicate(Op.EQ, name, (one,)) for name, one in zip(sources, row, strict=True))) for row in rows)
        )
    return all_of(
        *(
            Predicate(Op.IN, columns[position].source, tuple(dict.fromkeys(values[position] or [])))
            for position in known
        )
    )


def _literals(values: pa.ChunkedArray[Any], column: ServedColumn) -> list[Any] | None:
    """The values as a filter on the table's column has them; None where served values are not the column's own."""
    if column.form is not Form.PLAIN or column.block is BlockKind.DOUBLE:
        return None
    found: list[Any] = values.to_pylist()
    if column.block is not BlockKind.DATE:
        return found
    try:
        return [_EPOCH + dt.timedelta(days=days) for days in found]
    except OverflowError:
        return None


def _array(block: Any, column: ServedColumn, count: int) -> pa.Array[Any]:
    if column.block not in _BLOCKS:
        raise ServiceError(f"{column.name}: no rows are looked up by a {column.trino_type}")
    field, values_name, kind = _BLOCKS[column.block]
    data = getattr(block, field)
    present = [name for name, value in vars(block).items() if value is not None]
    if present != [field]:
        raise ServiceError(f"{column.name}: keys of type {column.trino_type} as {', '.join(present) or 'nothing'}")
    nulls, values = data.nulls, getattr(data, values_name)
    if values is None:
        values = [0] * len(nulls or [])
    if len(values) != count or (nulls is not None and len(nulls) != count):
        raise ServiceError(f"{column.name}: {len(values):,} keys in a page of {count:,}")
    mask = np.zeros(count, np.bool_) if nulls is None else np.array(nulls, np.bool_)
    if kind == pa.string():
        return _texts(values, data.bytes or b"", mask, column.name)
    try:
        return pa.array(values, kind, mask=mask)
    except (pa.ArrowInvalid, OverflowError, TypeError) as error:
        raise ServiceError(f"{column.name}: keys that are no {column.trino_type}: {error}") from None


def _texts(sizes: list[int], data: bytes | str, mask: Any, name: str) -> pa.Array[Any]:
    content = data.encode() if isinstance(data, str) else data
    ends = np.cumsum(np.array([0, *sizes], np.int64))
    if (np.diff(ends) < 0).any() or int(ends[-1]) != len(content):
        raise ServiceError(f"{name}: texts of {int(ends[-1]):,} bytes together in {len(content):,}")
    offsets, raw = from_numpy(ends), pa.py_buffer(content)
    texts: Any = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), [None, offsets.buffers()[1], raw])
    try:
        strings = pc.if_else(from_numpy(mask), pa.scalar(None, pa.string()), texts.cast(pa.string()))
    except pa.ArrowInvalid:
        raise ServiceError(f"{name}: a text that is not UTF-8") from None
    return strings  # type: ignore[no-any-return]


class KeySet:
    """Key tuples, to look rows up in; none has a null, and null equals nothing.

    Args:
        keys: a column for each key column, by its name in Trino, of values as they are served.
    """

    def __init__(self, keys: pa.Table) -> None:
        self.names: tuple[str, ...] = tuple(keys.column_names)
        columns = [_comparable(one_chunk(keys.column(name))) for name in self.names]
        self._values = [column.unique() for column in columns]
        places = [_places(column, values) for column, values in zip(columns, self._values, strict=True)]
        self._tuples = np.unique(self._numbered(places)[np.all(np.stack(places) >= 0, axis=0)])

    def rows(self, served: Mapping[str, Any]) -> Mask:
        """Where the served values of the key columns are one of the keys.

        Args:
            served: by name in Trino, Arrow arrays.
        """
        places = [
            _places(_comparable(served[name]).cast(values.type), values)
            for name, values in zip(self.names, self._values, strict=True)
        ]
        found: Mask = np.isin(self._numbered(places), self._tuples)
        found &= np.all(np.stack(places) >= 0, axis=0)
        return found

    def _numbered(self, places: list[NDArray[np.int64]]) -> NDArray[Any]:
        """One number for each tuple of places; of Python's own kind where 64 bits would not do."""
        total = 1
        for values in self._values:
            total *= len(values) + 1
        wide = total >= 2**62
        result: NDArray[Any] = np.zeros(len(places[0]), object if wide else np.int64)
        for place, values in zip(places, self._values, strict=True):
            result = result * (len(values) + 1) + (place.astype(object) if wide else place)
        return result


def _places(column: Any, values: Any) -> NDArray[np.int64]:
    """The place of each value among the distinct ones; -1 for none, and for null."""
    found = pc.index_in(column, value_set=values)
    told = valid_mask(found) & valid_mask(column)
    return np.where(told, to_numpy(found).astype(np.int64), -1)


def _comparable(column: Any) -> Any:
    """Values that are equal in Trino are equal here: days as numbers, no negative zero, and NaN is no value."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, 0.0))
    return column
