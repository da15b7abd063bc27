"""The keys of an index look-up: decoded from Thrift blocks, as a filter for planning, as a set to match rows with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hudi_catalog.trino.types import BlockKind, Form, ServedColumn
from pushdown.expression import HudiExpression, Op, Predicate, Unknown, all_of, any_of
from table_format.codecs.arrow_numpy import Mask, from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import ServiceError

_EPOCH = dt.date(1970, 1, 1)
_MAX_TUPLES = 1_000

# By kind of block: its field, the list of values in it (for strings their sizes), and the Arrow type of the values.
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
    """The distinct keys of a page, without those that have a null, since null equals nothing.

    Args:
        page: a ``TrinoThriftPageResult``.
        columns: the key columns, in the order of the page's blocks.

    Returns:
        A column for each key column, by its name in Trino, of values as served: integers, doubles, strings, booleans,
        days since 1970 and milliseconds since 1970.

    Raises:
        ServiceError: the page does not match the columns.
    """
    blocks, count = page.columnBlocks, page.rowCount
    if len(blocks) != len(columns) or not columns:
        raise ServiceError(f"keys of {len(blocks)} columns for {len(columns)} index columns")
    arrays = [_array(block, column, count) for block, column in zip(blocks, columns, strict=True)]
    names = [column.name for column in columns]
    table = pa.table(dict(zip(names, arrays, strict=True)))
    return table.drop_null().group_by(names).aggregate([]).select(names).combine_chunks()


def key_bytes(keys: pa.Table) -> bytes:
    """The keys as a compressed Arrow IPC stream, which becomes part of each split id."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(keys)
    return sink.getvalue().to_pybytes()


def key_filter(keys: pa.Table, columns: Sequence[ServedColumn]) -> HudiExpression:
    """A filter that is true for every row with one of the keys, and may be true for others.

    Few keys of several columns become a disjunction of tuples, more keys a list of values per column.

    Args:
        keys: at least one.
        columns: the key columns.
    """
    values = [_literals(keys.column(column.name), column) for column in columns]
    known = [position for position, one in enumerate(values) if one is not None]
    if not known:
        return Unknown("keys of a type whose values are not compared")
    if len(known) > 1 and keys.num_rows <= _MAX_TUPLES:
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
    """The values as literals for the table's column; None if its values are served converted."""
    if column.form is not Form.PLAIN or column.block is BlockKind.DOUBLE:
        return None
    literals: list[Any] = values.to_pylist()
    if column.block is not BlockKind.DATE:
        return literals
    try:
        return [_EPOCH + dt.timedelta(days=days) for days in literals]
    except OverflowError:
        return None


def _array(block: Any, column: ServedColumn, count: int) -> pa.Array[Any]:
    if column.block not in _BLOCKS:
        raise ServiceError(f"{column.name}: rows cannot be looked up by {column.trino_type}")
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
    """A set of key tuples without nulls, to find matching rows with.

    Args:
        keys: the result of `keys_of_page`.
    """

    def __init__(self, keys: pa.Table) -> None:
        self.names: tuple[str, ...] = tuple(keys.column_names)
        columns = [_comparable(one_chunk(keys.column(name))) for name in self.names]
        self._values = [column.unique() for column in columns]
        codes = [_codes(column, values) for column, values in zip(columns, self._values, strict=True)]
        self._tuples = np.unique(self._tuple_codes(codes)[np.all(np.stack(codes) >= 0, axis=0)])

    def rows(self, served: Mapping[str, Any]) -> Mask:
        """Mask of the rows whose key columns are one of the keys.

        Args:
            served: Arrow arrays of served values, by name in Trino.
        """
        codes = [
            _codes(_comparable(served[name]).cast(values.type), values)
            for name, values in zip(self.names, self._values, strict=True)
        ]
        matching: Mask = np.isin(self._tuple_codes(codes), self._tuples)
        matching &= np.all(np.stack(codes) >= 0, axis=0)
        return matching

    def _tuple_codes(self, codes: list[NDArray[np.int64]]) -> NDArray[Any]:
        """One number for each tuple of codes; Python integers where 64 bits do not suffice."""
        total = 1
        for values in self._values:
            total *= len(values) + 1
        wide = total >= 2**62
        result: NDArray[Any] = np.zeros(len(codes[0]), object if wide else np.int64)
        for of_column, values in zip(codes, self._values, strict=True):
            result = result * (len(values) + 1) + (of_column.astype(object) if wide else of_column)
        return result


def _codes(column: Any, values: Any) -> NDArray[np.int64]:
    """The index of each value among the distinct ones; -1 for others and for null."""
    indices = pc.index_in(column, value_set=values)
    valid = valid_mask(indices) & valid_mask(column)
    return np.where(valid, to_numpy(indices).astype(np.int64), -1)


def _comparable(column: Any) -> Any:
    """A column whose values are equal where Trino's are: days as numbers, no negative zero, NaN as null."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, 0.0))
    return column
