"""Schema generations: files that hold columns of the table under earlier types, converted by Spark.

Spark's reader reads a file in the file's own types. It refuses most others, and in some releases takes a struct for
null whose wanted fields a file lacks. So files are divided by the types that they hold, each generation is read as it
is, and Spark converts its columns. Numbers that the reader widens itself (`promotions`) make no generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema

from catalog.snapshots.snapshot import Snapshot
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.codecs.avro_schema_tree import columns_of_hudi_types
from table_format.errors import SchemaError
from table_format.meta_columns import META_FIELDS
from table_format.schema.evolution import storage_schema
from table_format.table.client import SCHEMA_KEY

Rows: TypeAlias = NDArray[np.int64]
_THREADS: Final = 8
_NUMBERS: Final = (spark.IntegerType, spark.LongType, spark.FloatType, spark.DoubleType)
_DIGITS: Final[dict[type, int]] = {spark.IntegerType: 10, spark.LongType: 19}
_TEXTS: Final = frozenset({spark.StringType, spark.BinaryType})
Promotions: TypeAlias = Collection[tuple[type, type]]
_PROMOTED: Final[Promotions] = frozenset({
    (spark.IntegerType, spark.LongType),
    (spark.IntegerType, spark.DoubleType),
    (spark.FloatType, spark.DoubleType),
})  # fmt: skip
_PROMOTING: Final = 4


@dataclass(frozen=True)
class Generation:
    """Files that hold the table's columns under the same types.

    Attributes:
        rows: positions of the files in the snapshot, ascending.
        stored: columns of which the files hold another type than the table has, and that type.
        native: whether Spark's reader reads them; else workers of Python do.
        why: why not.
    """

    rows: Rows
    stored: Mapping[str, spark.DataType] = field(default_factory=dict)
    native: bool = True
    why: str = ""

    def schema(self, table: spark.StructType) -> spark.StructType:
        """The table's columns in the types that the files hold."""
        kinds = [(column.name, self.stored.get(column.name, column.dataType)) for column in table.fields]
        return spark.StructType([spark.StructField(name, kind) for name, kind in kinds])


def table_schema(snapshot: Snapshot) -> pa.Schema:
    """The columns of a DataFrame of a table, in the types in which files hold them."""
    meta = META_FIELDS if snapshot.config.populate_meta_fields else []
    return pa.schema([*meta, *storage_schema(snapshot.data_schema)]).remove_metadata()


def promotions(release: str) -> Promotions:
    """Types of files, and those of the table, as which the Parquet reader of a release of Spark reads them.

    Since 4.0 (SPARK-40876), in the vectorised reader and the other one. Filters of such columns are not pushed into
    files where the earlier type does not hold the literal (SPARK-46092). Fields inside structs are left to `converted`.
    """
    return _PROMOTED if int(release.partition(".")[0]) >= _PROMOTING else ()


def generations(snapshot: Snapshot, rows: Rows, promoted: Promotions = ()) -> list[Generation]:
    """Divide the files of a snapshot by the types that they hold.

    Args:
        snapshot: of the table.
        rows: positions of the file slices that are wanted.
        promoted: see `promotions`.
    """
    files = snapshot.take_files(rows)
    plain = valid_mask(one_chunk(files.column("file_name"))) & ~snapshot.has_logs[rows]
    divided = []
    if not plain.all():
        divided.append(Generation(rows[~plain], native=False, why="log files are merged over base files"))
    rows = rows[plain]
    if not len(rows):
        return divided
    special = columns_of_hudi_types(snapshot.client.table_schema_json(snapshot.timeline, snapshot.as_of))
    if special:
        return [*divided, Generation(rows, native=False, why=f"column {special[0]} is of a type that only Hudi knows")]
    return [*divided, *_by_types(snapshot, rows, promoted)]


def _by_types(snapshot: Snapshot, rows: Rows, promoted: Promotions) -> Iterator[Generation]:
    encoded: Any = one_chunk(snapshot.take_files(rows).column("instant")).dictionary_encode()
    instants: list[str] = encoded.dictionary.to_pylist()
    numbers = to_numpy(encoded.indices)
    kinds = _StoredTypes(snapshot, instants, rows[np.unique(numbers, return_index=True)[1]], promoted)
    groups: dict[tuple[tuple[str, str], ...] | str, list[int]] = {}
    for number, instant in enumerate(instants):
        groups.setdefault(kinds.key(instant), []).append(number)
    for key, members in groups.items():
        inside = rows[np.isin(numbers, members)]
        if isinstance(key, str):
            yield Generation(inside, native=False, why=key)
        else:
            stored = kinds.of(instants[members[0]])
            yield Generation(inside, {name: stored[name] for name, _ in key})


class _StoredTypes:
    """Types of the files that each instant wrote.

    Args:
        snapshot: of the table.
        instants: that wrote its files.
        rows: position of a file of each.
        promoted: see `promotions`.
    """

    def __init__(self, snapshot: Snapshot, instants: list[str], rows: Rows, promoted: Promotions) -> None:
        self._snapshot = snapshot
        self._promoted = promoted
        self._table = _spark_types(storage_schema(snapshot.data_schema))
        self._by_text: dict[str, dict[str, spark.DataType]] = {}
        writes = {write.time: write for write in snapshot.timeline.writes}
        texts = {
            time: snapshot.timeline.extra_metadata(writes[time]).get(SCHEMA_KEY) for time in instants if time in writes
        }
        self._texts = {time: text for time, text in texts.items() if text}
        # what is archived, or has no schema in its commit, is known by the footer of one of its files
        unknown = sorted((time, int(row)) for time, row in zip(instants, rows, strict=True) if time not in self._texts)
        self._footers: dict[str, dict[str, spark.DataType]] = {}
        if unknown and not self._read(unknown[:1]):
            self._read(unknown[1:])

    def of(self, instant: str) -> Mapping[str, spark.DataType]:
        """Types of the files' columns."""
        text = self._texts.get(instant)
        if text is None:
            return self._footers.get(instant, self._table)
        if text not in self._by_text:
            self._by_text[text] = _spark_types(storage_schema(avro_to_arrow(text)))
        return self._by_text[text]

    def key(self, instant: str) -> tuple[tuple[str, str], ...] | str:
        """Names and types of the columns that differ from the table's; or why Spark cannot read the files."""
        history = self._snapshot.schema_history
        if history is not None and history.stored_schema(instant).columns != history.current.columns:
            return "columns were renamed or dropped since"
        stored = self.of(instant)
        other = [
            name
            for name, kind in self._table.items()
            if name in stored
            and not _same(stored[name], kind)
            and (type(stored[name]), type(kind)) not in self._promoted
        ]
        for name in other:
            if not is_converted(stored[name], self._table[name]):
                return f"column {name} is {stored[name].simpleString()} in them"
        return tuple((name, stored[name].simpleString()) for name in other)

    def _read(self, unknown: list[tuple[str, int]]) -> bool:
        """Read one footer an instant; whether all have all of the table's columns in its types.

        Columns only ever widen: where the oldest file has them in the table's types, so have those written after it.
        """
        storage = self._snapshot.client.storage

        def kinds(row: int) -> dict[str, spark.DataType]:
            try:
                return _spark_types(storage_schema(footer(storage, str(self._snapshot.path(row))).schema))
            except (SchemaError, TypeError) as error:
                raise SchemaError(f"{self._snapshot.path(row)}: {error}") from error

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="hudi-footers") as pool:
            read = list(pool.map(kinds, (row for _, row in unknown)))
        self._footers |= {time: stored for (time, _), stored in zip(unknown, read, strict=True)}
        return all(
            name in stored and _same(stored[name], kind) for stored in read for name, kind in self._table.items()
        )


def _spark_types(schema: pa.Schema) -> dict[str, spark.DataType]:
    converted: spark.StructType = from_arrow_schema(schema.remove_metadata())
    return {field.name: field.dataType for field in converted.fields}


def _same(one: spark.DataType, other: spark.DataType) -> bool:
    """Whether types are equal but for nulls allowed inside, which the text leaves out."""
    return one.simpleString() == other.simpleString()


def is_converted(source: spark.DataType, target: spark.DataType) -> bool:  # noqa: PLR0911  # one line a kind
    """Whether Spark converts a column as `table_format.schema.evolution.conform` does."""
    if _same(source, target) or isinstance(source, spark.NullType):
        return True
    if isinstance(source, spark.StructType) and isinstance(target, spark.StructType):
        kinds = {member.name: member.dataType for member in source.fields}
        return all(is_converted(kinds.get(member.name, member.dataType), member.dataType) for member in target.fields)
    if isinstance(source, spark.ArrayType) and isinstance(target, spark.ArrayType):
        return is_converted(source.elementType, target.elementType)
    if isinstance(source, spark.MapType) and isinstance(target, spark.MapType):
        return _same(source.keyType, target.keyType) and is_converted(source.valueType, target.valueType)
    kinds_of = {type(source), type(target)}
    if type(source) in _NUMBERS and type(target) in _NUMBERS:
        return _NUMBERS.index(type(source)) < _NUMBERS.index(type(target))
    if isinstance(target, spark.DecimalType):
        digits = target.precision - target.scale
        if isinstance(source, spark.DecimalType):
            return source.scale <= target.scale and source.precision - source.scale <= digits
        return digits >= _DIGITS.get(type(source), target.precision + 1)
    return kinds_of <= _TEXTS or (type(source) in _DIGITS and isinstance(target, spark.StringType))


def is_order_kept(source: spark.DataType, target: spark.DataType) -> bool:
    """Whether Spark's comparison of the earlier type, which it makes of one of the table's, means the same."""
    return isinstance(source, spark.IntegerType) and isinstance(target, spark.LongType)


def converted(column: Column, source: spark.DataType, target: spark.DataType) -> Column:
    """A column of an earlier type in the table's type; see `is_converted`."""
    if _same(source, target):
        return column
    if isinstance(source, spark.StructType) and isinstance(target, spark.StructType):
        kinds = {member.name: member.dataType for member in source.fields}
        members = [
            converted(column.getField(member.name), kinds[member.name], member.dataType)
            if member.name in kinds
            else F.lit(None).cast(member.dataType)
            for member in target.fields
        ]
        named = [value.alias(member.name) for value, member in zip(members, target.fields, strict=True)]
        return F.when(column.isNull(), F.lit(None)).otherwise(F.struct(*named))
    if isinstance(source, spark.ArrayType) and isinstance(target, spark.ArrayType):
        before, after = source.elementType, target.elementType
        return F.transform(column, lambda element: converted(element, before, after))
    if isinstance(source, spark.MapType) and isinstance(target, spark.MapType):
        old, new = source.valueType, target.valueType
        return F.transform_values(column, lambda _, value: converted(value, old, new))
    return column.cast(target)
