"""Column statistics of a base file's rows, as the metadata table stores them.

A bound is only ever written when it is sound, and a column that has values never gets an empty bound: Apache Hudi's
data skipping evaluates a comparison with an empty bound to null and drops the file. For the same reason a file has
statistics for all indexed columns or for none.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from table_format.base_file.footer import BaseFileFooter, FooterStatistics, footer_statistics
from table_format.config.option_values import whole_number
from table_format.errors import OptionError, did_you_mean
from table_format.meta_columns import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from table_writer.encoding.avro import encode_long
from table_writer.encoding.metadata_records import STATISTICS_SCHEMA
from table_writer.metadata.indexed_leaves import leaf_column, leaf_type

types = pa.types

LONGEST_BOUND = 2000

"""Longest string or binary bound in bytes; longer ones are cut. Parquet drops bounds of about twice that."""

DECIMAL_SCALE = 15

_DECIMAL_DIGITS = 30

_EXACT = Context(prec=80)

# Branches of the union of value wrappers; the first one is null.
_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _DATE, _DECIMAL = range(1, 10)


# These writers omit statistics that would be too long; others truncate bounds, which then need not be in the column.
_WHOLE_BOUNDS = re.compile(r"parquet-(mr|cpp)")
_MAKES_BOUNDS_UP = int(pa.__version__.partition(".")[0]) < 26


class UnfitDecimalError(ValueError):
    """A decimal has more than 15 digits before its point, too many for a bound of table version 6."""


def fits_decimal_wrapper(kind: pa.Decimal128Type[Any, Any]) -> bool:
    """Whether all values of a decimal type are exact in a bound, which has 15 digits on each side of the point."""
    return bool(kind.precision - kind.scale <= _DECIMAL_DIGITS - DECIMAL_SCALE and kind.scale <= DECIMAL_SCALE)


def lower_bound(value: Any, kind: pa.DataType) -> Any:
    """A value not above `value` that can be stored."""
    if isinstance(value, str):
        return cut_text(value, LONGEST_BOUND)
    if isinstance(value, bytes):
        return value[:LONGEST_BOUND]
    return _scaled(value, ROUND_FLOOR) if types.is_decimal(kind) else value


def upper_bound(value: Any, kind: pa.DataType) -> Any:
    """A value not below `value` that can be stored."""
    if isinstance(value, str):
        return text_above(value, LONGEST_BOUND)
    if isinstance(value, bytes):
        return bytes_above(value, LONGEST_BOUND)
    return _scaled(value, ROUND_CEILING) if types.is_decimal(kind) else value


def cut_text(text: str, limit: int) -> str:
    """The longest prefix of whole characters within a number of UTF-8 bytes.

    >>> cut_text("aé", 2), cut_text("aé", 3)
    ('a', 'aé')
    """
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def text_above(text: str, limit: int) -> str:
    """A short text that is not below `text` in the order of its bytes; `text` itself when it is within the limit.

    >>> text_above("abc", 2), text_above("abc", 3)
    ('ac', 'abc')
    """
    prefix = cut_text(text, limit)
    if prefix == text:
        return text
    while prefix:
        following = ord(prefix[-1]) + 1
        if following == 0xD800:
            following = 0xE000  # surrogates are not characters
        if following <= 0x10FFFF:
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return text  # nothing short is above it


def bytes_above(data: bytes, limit: int) -> bytes:
    r"""A short byte string not below `data` in unsigned order; `data` itself when it is within the limit.

    >>> bytes_above(b"a\xff\xffb", 3)
    b'b'
    """
    if len(data) <= limit:
        return data
    prefix = data[:limit].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else data


def encode_bound(value: Any, kind: pa.DataType) -> bytes:
    """The Avro bytes of a wrapped bound: the branch in the union of wrappers, then the wrapper's one field.

    Dates are days and timestamps microseconds, both given as numbers; a timestamp is stored as a plain long.
    """
    if types.is_boolean(kind):
        return encode_long(_BOOLEAN) + (b"\x01" if value else b"\x00")
    if types.is_decimal(kind):
        unscaled = int(value.scaleb(DECIMAL_SCALE, _EXACT))
        return encode_long(_DECIMAL) + _sized(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, str):
        return encode_long(_STRING) + _sized(value.encode())
    if isinstance(value, bytes):
        return encode_long(_BYTES) + _sized(value)
    if types.is_floating(kind):
        double = types.is_float64(kind)
        return encode_long(_DOUBLE if double else _FLOAT) + struct.pack("<d" if double else "<f", value)
    return encode_long(_DATE if types.is_date(kind) else _LONG if _is_long(kind) else _INT) + encode_long(value)


def _is_long(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_int64(kind) or types.is_uint32(kind))


def _scaled(value: Decimal, rounding: str) -> Decimal:
    """The value at the wrapper's scale, rounded outwards where it has more digits."""
    result = value.quantize(Decimal(1).scaleb(-DECIMAL_SCALE), rounding=rounding, context=_EXACT)
    if abs(result) >= Decimal(10) ** (_DECIMAL_DIGITS - DECIMAL_SCALE):
        raise UnfitDecimalError(f"{value} has more than {_DECIMAL_DIGITS - DECIMAL_SCALE} digits before its point")
    return result


def _sized(data: bytes) -> bytes:
    return encode_long(len(data)) + data


COLUMN_LIST = "hoodie.metadata.index.column.stats.column.list"

_MOST_COLUMNS = "hoodie.metadata.index.column.stats.max.columns.to.index"

_NEWER_META_COLUMNS = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)


def indexable_columns(schema: pa.Schema, options: Mapping[str, str] | None = None) -> list[str]:
    """The columns of a table that have statistics, meta columns first, then in the schema's order.

    They are those of the release that created the table, because Apache's data skipping loses rows of files that lack
    statistics which other files have. Releases before 1.0 index every primitive column and all meta columns. Later
    ones, recognised by `hoodie.table.keygenerator.type`, index three meta columns and the first 32 columns, without
    decimals that may not fit a bound's 15 digits on either side of the point. A list may also name fields of structs,
    by dotted paths.

    Args:
        schema: the table's user columns; meta columns in it are left aside.
        options: the table's properties and the write's options together; a column list limits the columns.

    Raises:
        OptionError: the column list names a column that has no statistics.
    """
    options = options or {}
    newer = bool(options.get("hoodie.table.keygenerator.type"))
    with_meta = options.get("hoodie.populate.meta.fields", "true").lower() != "false"
    meta: tuple[str, ...] = (_NEWER_META_COLUMNS if newer else META_COLUMNS) if with_meta else ()
    usable = [f.name for f in schema if f.name not in META_COLUMNS and _is_indexable(f.type, by_type=newer)]
    wanted = [name.strip() for name in options.get(COLUMN_LIST, "").split(",") if name.strip()]
    if wanted:
        kinds = {name: leaf_type(schema, name) for name in wanted if name not in META_COLUMNS}
        unknown = [name for name, kind in kinds.items() if kind is None]
        if unknown:
            hint = did_you_mean(unknown[0], schema.names)
            raise OptionError(f"{COLUMN_LIST} names {unknown}, which are not columns of the table{hint}")
        listed = meta if newer else tuple(name for name in meta if name in wanted)
        own = [name for name in usable if name in wanted]
        fields = {name: kind for name, kind in kinds.items() if name not in schema.names and kind is not None}
        return [*listed, *own, *(name for name, kind in fields.items() if _is_indexable(kind, by_type=newer))]
    most = whole_number(options, _MOST_COLUMNS, 32, 0) if newer else len(usable)
    return [*meta, *usable[:most]]


def collect_statistics(
    table: pa.Table, file_name: str, partition: str, indexed_columns: Sequence[str], parquet_metadata: pq.FileMetaData
) -> pa.Table:
    """Statistics of a file that was just written, schema `STATISTICS_SCHEMA`.

    Args:
        table: the rows that were written, meta columns included.
        file_name: name of the file, without its folder.
        partition: its partition path.
        indexed_columns: see `indexable_columns`; those that the rows lack are left out.
        parquet_metadata: the file's footer, for the sizes.

    Returns:
        A row for each indexed column. No rows at all when a decimal does not fit a bound, or a text is not valid UTF-8:
        then no reader prunes the file.
    """
    footer = BaseFileFooter(
        parquet_metadata.schema.to_arrow_schema().remove_metadata(), {}, parquet_metadata, 0, file_name
    )
    leaves = ((name, leaf_column(table, name)) for name in indexed_columns)
    columns = (_column_values(name, leaf, footer) for name, leaf in leaves if leaf is not None)
    return statistics_of(columns, file_name, partition, parquet_metadata)


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """A column, or a few values of it that have the bounds of all.

    Attributes:
        name: of the column.
        values: some of them, with the least, the greatest and a NaN where there is one; only nulls when all are null.
        value_count: of the whole column, nulls included.
        null_count: of the whole column.
    """

    name: str
    values: pa.ChunkedArray[Any] | pa.Array[Any]
    value_count: int
    null_count: int


def _column_values(name: str, column: Any, footer: BaseFileFooter) -> ColumnValues:
    """A column that was just written: a few values with its bounds if the footer has them exactly, else all."""
    kind = value_type(column.type)
    values = column
    if name in footer.names and footer.schema.field(name).type == kind and footer.row_count == len(column):
        bounds = exact_statistics(footer, name, kind, None)
        if bounds is not None and bounds.lower is not None:
            values = pa.array([bounds.lower, bounds.upper], kind)
    return ColumnValues(name, values, len(column), column.null_count)


@dataclass(slots=True)
class GrowingBounds:
    """Gathers a column's bounds and counts over rows that come part by part.

    Attributes:
        name: of the column.
        kind: its type in the table.
    """

    name: str
    kind: pa.DataType
    _values: list[Any] = field(default_factory=list)
    _rows: int = 0
    _nulls: int = 0

    def add_rows(self, column: Any) -> None:
        """Add the column of some rows."""
        self._rows += len(column)
        self._nulls += column.null_count
        column = values_in_use(column)
        bounds = pc.min_max(column)
        values = [bounds[side] for side in ("min", "max") if bounds[side].is_valid]
        if types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            values.append(pa.scalar(float("nan"), column.type))
        self._values += values

    def add_exact(self, statistics: FooterStatistics) -> None:
        """Add rows by their statistics; see `exact_statistics`."""
        self._rows += statistics.row_count
        self._nulls += statistics.null_count or 0
        if statistics.lower is not None:
            self._values += [statistics.lower, statistics.upper]

    def values(self) -> ColumnValues:
        """The column, with a few values of the same bounds."""
        return ColumnValues(self.name, pa.array(self._values, self.kind), self._rows, self._nulls)


def exact_statistics(
    footer: BaseFileFooter, column: str, kind: pa.DataType, row_groups: Sequence[int] | None
) -> FooterStatistics | None:
    """The statistics of a column by the footer; None unless its bounds are values of the column.

    Args:
        footer: of the file.
        column: name of the column.
        kind: its type in the table.
        row_groups: their ordinals; None for all.
    """
    statistics = footer_statistics(footer, column, kind, row_groups)
    if statistics.null_count is None:
        return None
    if statistics.null_count < statistics.row_count:
        if statistics.lower is None or statistics.upper is None:
            return None
        # Bounds of timestamps may lie outside the range of Python's datetime.
        is_text = types.is_string(kind) or types.is_binary(kind)
        if is_text and (not has_whole_bounds(footer.metadata) or may_be_made_up(statistics.lower.as_py())):
            return None
    return statistics


def has_whole_bounds(metadata: pq.FileMetaData) -> bool:
    """Whether the writer of a file never truncates bounds in footers, so that they are values of the column."""
    return _WHOLE_BOUNDS.match(metadata.created_by or "") is not None


def may_be_made_up(bound: Any) -> bool:
    """Whether a bound may in fact be missing: older releases of pyarrow then give an empty string."""
    return _MAKES_BOUNDS_UP and bound in ("", b"")


def statistics_of(
    columns: Iterable[ColumnValues], file_name: str, partition: str, parquet_metadata: pq.FileMetaData
) -> pa.Table:
    """The statistics of a file's columns, schema `STATISTICS_SCHEMA`; see `collect_statistics`."""
    sizes = _chunk_sizes(parquet_metadata)
    rows = []
    try:
        for column in columns:
            bounds = column_bounds(column.values)
            kind = str(value_type(column.values.type))
            size = sizes.get(column.name, (0, 0))
            row = [partition, file_name, column.name, kind, bounds.lower, bounds.upper]
            rows.append([*row, column.value_count, column.null_count, *size])
    except (UnfitDecimalError, UnicodeDecodeError):  # another writer's text may be no UTF-8
        return STATISTICS_SCHEMA.empty_table()
    lists = list(zip(*rows, strict=True)) if rows else [()] * len(STATISTICS_SCHEMA)
    arrays = [pa.array(list(values), field.type) for values, field in zip(lists, STATISTICS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=STATISTICS_SCHEMA)


@dataclass(frozen=True, slots=True)
class EncodedBounds:
    """Avro bytes of a column's wrapped bounds; None when it holds no values."""

    lower: bytes | None
    upper: bytes | None


def column_bounds(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> EncodedBounds:
    """Sound bounds of a column's values.

    NaN makes the bounds infinite, since engines count it as greatest or leave it out of order; zeros become -0.0 below
    and 0.0 above; long strings are cut.

    Raises:
        UnfitDecimalError: a decimal has more digits before the point than the bound's wrapper holds.
    """
    kind = value_type(column.type)
    if column.null_count == len(column):
        return EncodedBounds(None, None)
    column = values_in_use(column)
    least, greatest = _least_and_greatest(column)
    if types.is_floating(kind):
        least, greatest = _floating(column, least, greatest)
    return EncodedBounds(
        encode_bound(lower_bound(least, kind), kind),
        encode_bound(upper_bound(greatest, kind), kind),
    )


def concat_statistics(tables: Iterable[pa.Table]) -> pa.Table:
    """The statistics of several files in one table."""
    return pa.concat_tables([STATISTICS_SCHEMA.empty_table(), *tables])


def _least_and_greatest(column: Any) -> tuple[Any, Any]:
    kind = column.type
    if isinstance(kind, pa.TimestampType):
        column = pc.cast(pc.cast(column, pa.timestamp("us", kind.tz)), pa.int64())
    elif types.is_date(kind):
        column = pc.cast(pc.cast(column, pa.date32()), pa.int32())
    bounds = pc.min_max(column)
    return bounds["min"].as_py(), bounds["max"].as_py()


def values_in_use(column: Any) -> Any:
    """The values of a dictionary column that rows refer to, as a column; any other column as it is."""
    if not isinstance(column.type, pa.DictionaryType):
        return column
    chunks = [column] if isinstance(column, pa.DictionaryArray) else column.chunks
    used = [chunk.dictionary.take(pc.unique(chunk.indices).drop_null()) for chunk in chunks]
    return pa.chunked_array(used, column.type.value_type)


def _floating(column: Any, least: Any, greatest: Any) -> tuple[float, float]:
    if least is None or pc.any(pc.is_nan(column)).as_py():
        return -math.inf, math.inf
    return (-0.0 if least == 0 else least), (0.0 if greatest == 0 else greatest)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, dictionary-encoded or not."""
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def _is_indexable(kind: pa.DataType, *, by_type: bool) -> bool:
    if isinstance(kind, pa.Decimal128Type):
        return not by_type or fits_decimal_wrapper(kind)
    simple = (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
    return kind in simple or types.is_timestamp(kind)


def _chunk_sizes(metadata: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """Compressed and uncompressed bytes of each primitive column, by its dotted path."""
    sizes: dict[str, tuple[int, int]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            chunk = row_group.column(index)
            before = sizes.get(chunk.path_in_schema, (0, 0))
            sizes[chunk.path_in_schema] = (
                before[0] + chunk.total_compressed_size,
                before[1] + chunk.total_uncompressed_size,
            )
    return sizes
