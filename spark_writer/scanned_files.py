"""Reading Parquet files by Arrow instead of Spark, and checking that the rows are the same.

Arrow reads only values that have one meaning. Types map one to one, nested columns have the standard form, and dates
and times are in the range on which old and new writers agree: since 1582-10-15, and for timestamps since 1900, or the
file records that Spark 3 or later wrote them without its legacy calendar. Timestamps of 96 bits, Spark's default, have
no bounds: they are read only from files with that record.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from spark_writer.bare_scan import BareScan, CannotScan, FileRange, ScannedColumn
from spark_writer.spark_types import arrow_schema
from table_format.base_file.footer import parquet
from table_format.codecs.avro_schema_tree import UTC_MICROS
from table_format.errors import StorageError
from table_format.schema.evolution import storage_type

types = pa.types

_BATCH_ROWS: Final = 1 << 16
_LEAST_ROWS: Final = 256
# Of a value in memory, where a dictionary makes it smaller in the file.
_VALUE_BYTES: Final = 12
# Bytes of a column chunk that are read at a time.
_BUFFER: Final = 256 << 10
_THREADS: Final = 8
_VERSION: Final = b"org.apache.spark.version"
_LEGACY: Final = b"org.apache.spark.legacyDateTime"
_FIRST_PROLEPTIC: Final = b"3.0.0"
_LEGACY_96_BITS: Final = b"org.apache.spark.legacyINT96"
_FIRST_PROLEPTIC_96_BITS: Final = b"3.1.0"
_FIRST_DATE: Final = (date(1582, 10, 15) - date(1970, 1, 1)).days
_FIRST_TIME: Final = int(datetime(1900, 1, 1, tzinfo=UTC).timestamp())

# By Spark's type: physical types of a leaf, and how its annotation begins.
_LEAVES: Final[Mapping[type, Mapping[str, tuple[str, ...]]]] = {
    spark.BooleanType: {"BOOLEAN": ("None",)},
    spark.ByteType: {"INT32": ("Int(bitWidth=8, isSigned=true)",)},
    spark.ShortType: {"INT32": ("Int(bitWidth=16, isSigned=true)",)},
    spark.IntegerType: {"INT32": ("None", "Int(bitWidth=32, isSigned=true)")},
    spark.LongType: {"INT64": ("None", "Int(bitWidth=64, isSigned=true)")},
    spark.FloatType: {"FLOAT": ("None",)},
    spark.DoubleType: {"DOUBLE": ("None",)},
    spark.StringType: {"BYTE_ARRAY": ("String",)},
    spark.BinaryType: {"BYTE_ARRAY": ("None",)},
    spark.DateType: {"INT32": ("Date",)},
    spark.TimestampType: {
        "INT64": (
            "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
            "Timestamp(isAdjustedToUTC=true, timeUnit=milliseconds",
        ),
        "INT96": ("None",),
    },
}


@dataclass(frozen=True)
class RowGroups:
    """Row groups of a file that one task reads.

    Attributes:
        path: of the file, on the local file system.
        size: its bytes.
        rows: those of the whole file.
        groups: ordinals of the row groups, ascending.
    """

    path: str
    size: int
    rows: int
    groups: tuple[int, ...]


@dataclass(frozen=True)
class ScannedRows:
    """Rows of Parquet files, divided among tasks as by Spark; it pickles.

    Attributes:
        names: of the columns, in order.
        stored: their names in the files.
        parts: the row groups of each task.
    """

    names: tuple[str, ...]
    stored: tuple[str, ...]
    parts: tuple[tuple[RowGroups, ...], ...]

    def batches(self, part: int, most: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a task.

        Args:
            part: number of the task.
            most: approximate bytes of a batch; None for no limit but one of rows.

        Raises:
            StorageError: a file is not the one that was planned.
        """
        columns = list(dict.fromkeys(self.stored))
        for piece in self.parts[part]:
            for batch in _batches(piece, columns, most):
                arrays = [_in_utc(batch.column(name)) for name in self.stored]
                yield pa.RecordBatch.from_arrays(arrays, names=list(self.names))


def scanned_rows(scan: BareScan) -> ScannedRows:
    """The row groups that hold a scan's rows.

    Raises:
        CannotScan: Arrow might read other rows than Spark.
    """
    ranges: dict[str, list[FileRange]] = {}
    for part in scan.parts:
        for piece in part:
            ranges.setdefault(piece.path, []).append(piece)
    check = _Check(scan.columns)
    with ThreadPoolExecutor(_THREADS) as pool:
        shares = [share for shares in pool.map(check, ranges.values()) for share in shares]
    groups_of = dict(shares)
    parts = tuple(tuple(groups for piece in part if (groups := groups_of[piece]).groups) for part in scan.parts)
    return ScannedRows(
        tuple(column.name for column in scan.columns), tuple(column.stored for column in scan.columns), parts
    )


def _batches(piece: RowGroups, columns: Sequence[str], most: int | None) -> Iterator[pa.RecordBatch]:
    try:
        with _opened(piece.path) as file:
            if os.stat(piece.path).st_size != piece.size or file.metadata.num_rows != piece.rows:
                raise StorageError(f"{piece.path}: the file changed while it was read")
            rows = _BATCH_ROWS if most is None else _fitting_rows(file.metadata, piece.groups, columns, most)
            yield from file.iter_batches(rows, list(piece.groups), columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{piece.path}: {error}") from error


def _fitting_rows(metadata: Any, groups: Sequence[int], columns: Sequence[str], most: int) -> int:
    """Rows of about `most` bytes, by the widest row group."""
    wanted = set(columns)
    widest = 1
    for number in groups:
        group = metadata.row_group(number)
        chunks = [group.column(index) for index in range(group.num_columns)]
        size = sum(
            max(chunk.total_uncompressed_size, _VALUE_BYTES * chunk.num_values)
            for chunk in chunks
            if chunk.path_in_schema.split(".", 1)[0] in wanted
        )
        widest = max(widest, size // max(1, group.num_rows))
    return max(_LEAST_ROWS, min(_BATCH_ROWS, most // widest))


def _opened(path: str) -> Any:
    # Reading ahead would keep all chunks of the row groups in memory until the last row is read.
    return parquet.ParquetFile(path, coerce_int96_timestamp_unit="us", pre_buffer=False, buffer_size=_BUFFER)


class _Check:
    """Checks that Arrow reads a file as Spark does, and assigns row groups to its ranges.

    Args:
        columns: those that are read.
    """

    def __init__(self, columns: Sequence[ScannedColumn]) -> None:
        self._columns = columns
        schema = spark.StructType([spark.StructField(column.stored, column.kind) for column in columns])
        self._wanted = [_bare(field.type) for field in arrow_schema(schema)]

    def __call__(self, ranges: Sequence[FileRange]) -> list[tuple[FileRange, RowGroups]]:
        """The row groups of all ranges of one file."""
        path = ranges[0].path
        try:
            state = os.stat(path)
            with _opened(path) as file:
                metadata = file.metadata
                self._check_columns(metadata, file.schema_arrow)
        except (pa.ArrowException, OSError) as error:
            raise CannotScan(f"{path}: {error}") from error
        if any((piece.size, piece.mtime_ms) not in _states(state) for piece in ranges):
            raise CannotScan(f"{path} is not as Spark listed it")
        return [
            (piece, RowGroups(path, piece.size, metadata.num_rows, groups))
            for piece, groups in zip(ranges, _dealt(metadata, ranges), strict=True)
        ]

    def _check_columns(self, metadata: Any, schema: pa.Schema) -> None:
        names = [name.lower() for name in schema.names]
        leaves = _leaves_by_column(metadata.schema)
        for column, wanted in zip(self._columns, self._wanted, strict=True):
            name = column.stored
            if names.count(name.lower()) != 1 or name not in leaves:
                raise CannotScan(f"column {name!r} is not in a file, or not once")
            expected = list(_expected(column.kind, (name,), 0))
            file_leaves = leaves[name]
            if len(expected) != len(file_leaves):
                raise CannotScan(f"column {name!r} has other members in a file")
            for leaf, (index, node) in zip(expected, file_leaves, strict=True):
                leaf.check(node)
                if isinstance(leaf.kind, (spark.DateType, spark.TimestampType)):
                    _check_calendar(metadata, index, node)
            if _bare(_utc(schema.field(schema.names.index(name)).type)) != wanted:
                raise CannotScan(f"column {name!r} is of another type in a file")


@dataclass(frozen=True)
class _Leaf:
    """The Parquet column that a Spark type requires."""

    path: str
    repeated: int
    kind: spark.DataType

    def check(self, node: Any) -> None:
        if node.path != self.path or node.max_repetition_level != self.repeated or not self._is_kind(node):
            raise CannotScan(f"column {node.path!r} is stored in an ambiguous way")

    def _is_kind(self, node: Any) -> bool:
        text = str(node.logical_type)
        if isinstance(self.kind, spark.DecimalType):
            exact = f"Decimal(precision={self.kind.precision}, scale={self.kind.scale})"
            return text == exact and node.physical_type in ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY")
        texts = _LEAVES.get(type(self.kind), {}).get(node.physical_type, ())
        return any(text == wanted or text.startswith(f"{wanted},") for wanted in texts)


def _expected(kind: spark.DataType, path: tuple[str, ...], repeated: int) -> Iterator[_Leaf]:
    """The leaves of a column in the standard form, in order."""
    if isinstance(kind, spark.StructType):
        for field in kind.fields:
            if "." in field.name:
                raise CannotScan(f"field {field.name!r} has a dot in its name")
            yield from _expected(field.dataType, (*path, field.name), repeated)
    elif isinstance(kind, spark.ArrayType):
        yield from _expected(kind.elementType, (*path, "list", "element"), repeated + 1)
    elif isinstance(kind, spark.MapType):
        yield from _expected(kind.keyType, (*path, "key_value", "key"), repeated + 1)
        yield from _expected(kind.valueType, (*path, "key_value", "value"), repeated + 1)
    else:
        yield _Leaf(".".join(path), repeated, kind)


def _leaves_by_column(schema: Any) -> dict[str, list[tuple[int, Any]]]:
    """The leaves of each top-level column, with their ordinals in the file."""
    leaves: dict[str, list[tuple[int, Any]]] = {}
    for index in range(len(schema)):
        node = schema.column(index)
        leaves.setdefault(node.path.split(".", 1)[0], []).append((index, node))
    return leaves


def _check_calendar(metadata: Any, index: int, node: Any) -> None:
    """Refuse dates and times that Spark may move from one calendar to the other, or refuses itself."""
    texts = metadata.metadata or {}
    if node.physical_type == "INT96":
        # other writers may have meant local times
        spark_wrote = (metadata.created_by or "").startswith("parquet-mr ") and _LEGACY_96_BITS not in texts
        if not spark_wrote or texts.get(_VERSION, b"") < _FIRST_PROLEPTIC_96_BITS:
            raise CannotScan(f"column {node.path!r} may hold values of the old calendar")
        return
    # Spark compares the same strings
    if texts.get(_VERSION, b"") >= _FIRST_PROLEPTIC and _LEGACY not in texts:
        return
    if node.physical_type == "INT32":
        first = _FIRST_DATE
    else:
        first = _FIRST_TIME * (1000 if "milliseconds" in str(node.logical_type) else 1_000_000)
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(index)
        statistics = chunk.statistics
        if statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values:
            continue
        if statistics is None or not statistics.has_min_max or statistics.min_raw < first:
            raise CannotScan(f"column {node.path!r} may hold values of the old calendar")


def _dealt(metadata: Any, ranges: Sequence[FileRange]) -> list[tuple[int, ...]]:
    """Assign each row group of a file to one range.

    Raises:
        CannotScan: the ranges do not cover the file.
    """
    places = sorted(ranges, key=lambda piece: piece.start)
    ends = [piece.start + piece.length for piece in places]
    if [piece.start for piece in places] != [0, *ends[:-1]] or ends[-1] != places[0].size:
        raise CannotScan(f"{places[0].path} is not read as a whole")
    if len(places) == 1:
        return [tuple(range(metadata.num_row_groups))]
    dealt: dict[FileRange, list[int]] = {piece: [] for piece in places}
    for number in range(metadata.num_row_groups):
        middle = _middle(metadata.row_group(number))
        dealt[places[min(bisect_right(ends, middle), len(places) - 1)]].append(number)
    return [tuple(dealt[piece]) for piece in ranges]


def _middle(group: Any) -> int:
    """The byte by which Spark assigns a row group to a task."""
    first = group.column(0)
    start = first.data_page_offset
    if first.has_dictionary_page and first.dictionary_page_offset is not None:
        start = min(start, first.dictionary_page_offset)
    size = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
    return int(start + size // 2)


def _states(state: os.stat_result) -> set[tuple[int, int]]:
    """Size and time of a file as in the JVM, which may round the time to seconds."""
    milliseconds = state.st_mtime_ns // 1_000_000
    return {(state.st_size, milliseconds), (state.st_size, milliseconds // 1000 * 1000)}


def _bare(kind: Any) -> Any:
    """A type as tables store it, without what readers ignore: names of elements, and whether they are required."""
    kind = storage_type(kind)
    if isinstance(kind, pa.StructType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, _bare(field.type)) for field in fields])
    if types.is_map(kind):
        return pa.map_(_bare(kind.key_type), _bare(kind.item_type))
    if types.is_list(kind):
        return pa.list_(pa.field("element", _bare(kind.value_type)))
    return kind


def _in_utc(column: Any) -> Any:
    """A column whose timestamps have a zone; those of 96 bits have none, but are instants."""
    kind = _utc(column.type)
    return column if kind == column.type else column.cast(kind)


def _utc(kind: Any) -> Any:
    if types.is_timestamp(kind):
        return kind if kind.tz else UTC_MICROS
    if isinstance(kind, pa.StructType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([field.with_type(_utc(field.type)) for field in fields])
    if types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_utc(kind.item_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc(kind.value_type)))
    return kind
