"""Entries of a Hudi table for Hive and Spark, made from one snapshot of the table.

Two formats: our storage handler, for which partition columns are ordinary ones, and Apache Hudi's input formats, for
which they are separate and the metastore holds the partitions. For Spark SQL the parameters contain the schema as JSON,
as Apache Hudi's sync writes it: cut into parts, since metastores limit a parameter's length, partition columns last.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from catalog.row_summary import summarize_snapshot
from catalog.snapshots.snapshot import Snapshot
from catalog.table import READ_OPTIMIZED
from hudi_catalog.metastore import entries, partitions, sync_options
from hudi_catalog.metastore.entries import HIVE, PROVIDER, SPARK_PREFIX, EntryName, same_place
from hudi_catalog.metastore.hive_types import SIMPLE_TYPES, column_statistics, hive_columns
from hudi_catalog.metastore.metastore import (
    EXTERNAL_TABLE,
    HANDLER_CLASSES,
    HANDLER_FORMAT,
    HUDI_FORMAT,
    HUDI_REAL_TIME_FORMAT,
    ROW_HANDLER_FORMAT,
    STORAGE_HANDLER,
    ColumnStatistics,
    HiveColumn,
    HivePartition,
    HiveTable,
    StorageFormat,
)
from hudi_catalog.metastore.sync_options import SyncOptions
from table_format.errors import OptionError, UnsupportedTableError
from table_format.instant import Instant, format_instant_time
from table_format.meta_columns import META_COLUMNS

SPARK_PATH: Final = "path"
SPARK_VERSION: Final = "spark.sql.create.version"
_PARTS: Final = f"{SPARK_PREFIX}schema.numParts"
_PART: Final = f"{SPARK_PREFIX}schema.part."
_PARTITION_COLUMNS: Final = f"{SPARK_PREFIX}schema.numPartCols"
_PARTITION_COLUMN: Final = f"{SPARK_PREFIX}schema.partCol."
_READ_OPTIMIZED: Final = "hoodie.query.as.ro.table"

_SIMPLE: Final = {
    **SIMPLE_TYPES,
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
}


def spark_properties(
    schema: pa.Schema, partition_fields: Sequence[str], comments: Mapping[str, str], part: int, version: str | None
) -> dict[str, str]:
    """Parameters by which Spark SQL recognizes a table of the Hudi data source.

    Args:
        schema: the table's columns.
        partition_fields: names of the partition columns.
        comments: by column name.
        part: most characters of the schema per parameter.
        version: of Spark; None to omit it.

    Raises:
        UnsupportedTableError: a column without a matching type in Spark.
    """
    by_name = {column.name.lower(): column for column in schema}
    apart = [by_name[name.lower()] for name in partition_fields if name.lower() in by_name]
    last = {column.name: column for column in apart}
    ordered = [column for column in schema if column.name not in last] + list(last.values())
    fields = [_field(column, comments.get(column.name)) for column in ordered]
    text = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    parts = [text[start : start + part] for start in range(0, len(text), part)]
    properties = {PROVIDER: "hudi", _PARTS: str(len(parts))}
    properties |= {f"{_PART}{number}": piece for number, piece in enumerate(parts)}
    if last:
        properties[_PARTITION_COLUMNS] = str(len(last))
        properties |= {f"{_PARTITION_COLUMN}{number}": name for number, name in enumerate(last)}
    return properties | ({SPARK_VERSION: version} if version else {})


def spark_serde_properties(location: str, *, read_optimized: bool) -> dict[str, str]:
    """Parameters of an entry's SerDe: the table's path and query type for Spark's data source.

    Args:
        location: of the table.
        read_optimized: base files only.
    """
    return {SPARK_PATH: location, _READ_OPTIMIZED: str(read_optimized).lower()}


def spark_type(kind: pa.DataType, column: str) -> Any:
    """Spark's JSON of a type: a name, or an object for nested types.

    Args:
        kind: of the values.
        column: for messages.

    Raises:
        UnsupportedTableError: Spark has no matching type.
    """
    types = pa.types
    text: Any = _SIMPLE.get(kind)
    if isinstance(kind, pa.TimestampType):
        text = "timestamp" if kind.tz else "timestamp_ntz"
    elif types.is_time(kind):
        text = "integer" if types.is_time32(kind) else "long"
    elif isinstance(kind, pa.Decimal128Type):
        text = f"decimal({kind.precision},{kind.scale})"
    elif types.is_fixed_size_binary(kind):
        text = "binary"
    elif isinstance(kind, pa.MapType):
        text = {
            "type": "map",
            "keyType": spark_type(kind.key_type, column),
            "valueType": spark_type(kind.item_type, column),
            "valueContainsNull": kind.item_field.nullable,
        }
    elif isinstance(kind, pa.StructType):
        text = {"type": "struct", "fields": [_field(kind.field(i), None) for i in range(kind.num_fields)]}
    elif isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        value = kind.value_field
        text = {
            "type": "array",
            "elementType": spark_type(value.type, column),
            "containsNull": value.nullable,
        }
    if text is None:
        raise UnsupportedTableError(f"column {column}: Spark has no type for {kind}; leave the column out, or cast it")
    return text


def _field(column: pa.Field[Any], comment: str | None) -> dict[str, Any]:
    kind = spark_type(column.type, column.name)
    metadata = {"comment": comment} if comment else {}
    return {"name": column.name, "type": kind, "nullable": column.nullable, "metadata": metadata}


QUERY_TYPE: Final = "hoodie.catalog.hive.query.type"
LAST_SYNCED: Final = "last_commit_time_sync"
LAST_COMPLETED: Final = "last_commit_completion_time_sync"
TOTAL_SIZE, NUM_FILES, NUM_ROWS = "totalSize", "numFiles", "numRows"
_STATISTICS: Final = (TOTAL_SIZE, NUM_FILES, NUM_ROWS)
MEASURED: Final = "hoodie.catalog.sync.column.statistics.instant"
"""Parameter with the commit whose statistics of columns the metastore was given."""
INSTANTS: Final = (entries.INSTANT, LAST_SYNCED, LAST_COMPLETED, MEASURED, *_STATISTICS)
"""Parameters with the commit that an entry is synced to, and its statistics."""

_TIMESTAMP: Final = "timestamp"
_NUMBER: Final = "bigint"

# the type, not a struct field of this name
_HAS_TIMES: Final = re.compile(r"(?<![\w$])timestamp(?![\w$:])")
_HANDLER_SETTINGS: Final = "hoodie.catalog.hive."

_OWN: Final = frozenset(
    {entries.BASE_PATH, entries.TARGET, entries.QUERY_TYPE, entries.META_FIELDS, entries.ENTRY_ID, entries.LOCATIONS}
    | {entries.MANIFESTS, sync_options.FORMAT, QUERY_TYPE, STORAGE_HANDLER, *INSTANTS}
    # Hive's statistics of an earlier state of the table
    | {"COLUMN_STATS_ACCURATE", "rawDataSize"}
)


@dataclass(frozen=True)
class HiveEntries:
    """Makes the entries of one table.

    Attributes:
        snapshot: of the table.
        base: our URI of the table's folder.
        location: the engine's URI of it.
        format: `handler` or `apache`.
        options: of the sync.
    """

    snapshot: Snapshot
    base: str
    location: str
    format: str
    options: SyncOptions

    def entry(self, before: HiveTable | None, schema: str, name: EntryName) -> HiveTable:
        """An entry as it should be, without its partitions.

        Parameters that engines and users added are kept, as are their comments on columns without one of their own.

        Args:
            before: the existing entry; None if there is none.
            schema: its database.
            name: its name and query type.

        Raises:
            OptionError: an option that excludes the format.
            UnsupportedTableError: a column without a matching type in Hive or Spark; the message names it.
        """
        base = before or HiveTable(schema, name.name, (), self.location, HUDI_FORMAT, {})
        comments = self._comments(base)
        typed = hive_columns(self._fields, comments, times=self._times(base))
        columns = [replace(column, type=column.type.lower()) for column in typed]
        apart = self._partition_columns(columns) if self.format == sync_options.APACHE else ()
        names = {column.name for column in apart}
        return replace(
            base,
            columns=tuple(column for column in columns if column.name not in names),
            partition_columns=apart,
            location=self.location,
            format=self._storage_format(base, name),
            parameters=self._parameters(base, name, comments),
            table_type=EXTERNAL_TABLE,
        )

    @functools.cached_property
    def _fields(self) -> pa.Schema:
        omitted = META_COLUMNS if self.options.omit_meta_fields else ()
        return pa.schema([field for field in self.snapshot.schema if field.name not in omitted])

    def _comments(self, before: HiveTable) -> dict[str, str]:
        """Comments by column: the table's own, else those that users gave in the existing entry."""
        own = entries.column_comments(self.snapshot) if self.options.hive.comments else {}
        columns = (*before.columns, *before.partition_columns)
        user_comments = {column.name: column.comment for column in columns if column.comment}
        comments = {field.name: own.get(field.name) or user_comments.get(field.name.lower()) for field in self._fields}
        return {name: comment for name, comment in comments.items() if comment}

    def _times(self, before: HiveTable) -> str:
        """The Hive type of timestamps; Apache's sync registers them as numbers by default."""
        wanted = self.options.hive.timestamps
        if self.format == sync_options.HANDLER:
            if wanted is False:
                raise OptionError(
                    f"{sync_options.TIMESTAMPS}=false goes with {sync_options.FORMAT}={sync_options.APACHE} only"
                )
            return _TIMESTAMP
        if wanted is None:
            either = zip(
                hive_columns(self._fields, times=_TIMESTAMP), hive_columns(self._fields, times=_NUMBER), strict=True
            )
            times = {column.name for column, other in either if column != other}
            columns = (*before.columns, *before.partition_columns)
            wanted = any(column.name in times and _HAS_TIMES.search(column.type) for column in columns)
        return _TIMESTAMP if wanted else _NUMBER

    def _partition_columns(self, columns: list[HiveColumn]) -> tuple[HiveColumn, ...]:
        """The partition columns; those missing from the table's schema are strings, as in Apache's sync."""
        by_name = {column.name: column for column in columns}
        fields = [field.lower() for field in self.snapshot.config.partition_fields]
        return tuple(by_name.get(field) or HiveColumn(field, "string") for field in fields)

    def _storage_format(self, before: HiveTable, name: EntryName) -> StorageFormat:
        """The classes by which Hive reads the entry; other SerDe parameters are kept."""
        if self.format == sync_options.HANDLER:
            form = (
                ROW_HANDLER_FORMAT if any(pa.types.is_nested(field.type) for field in self._fields) else HANDLER_FORMAT
            )
        else:
            with_logs = name.query_type != READ_OPTIMIZED and self.snapshot.config.table_type != "COPY_ON_WRITE"
            form = HUDI_REAL_TIME_FORMAT if with_logs else HUDI_FORMAT
        hive = self.options.hive
        serde = {**before.format.serde_parameters, **hive.serde_properties}
        if hive.as_datasource:
            registered_path = serde.get(SPARK_PATH, "")
            path = (
                registered_path
                if registered_path and same_place(registered_path, self.base, self.location)
                else self.location
            )
            read_optimized = name.query_type == READ_OPTIMIZED
            serde |= spark_serde_properties(path, read_optimized=read_optimized)
        return replace(form, serde_parameters=serde)

    def _parameters(self, before: HiveTable, name: EntryName, comments: Mapping[str, str]) -> dict[str, str]:
        hive = self.options.hive
        with_handler = self.format == sync_options.HANDLER
        foreign = (partitions.RECORD_PREFIX,) if with_handler else (partitions.RECORD_PREFIX, _HANDLER_SETTINGS)
        user_parameters = {
            key: value
            for key, value in before.parameters.items()
            if key not in _OWN and not key.startswith((entries.SPARK_PREFIX, *foreign))
        }
        if hive.service == sync_options.HIVE_SITE:
            user_parameters.pop(sync_options.SERVICE, None)
        own_parameters = {
            "EXTERNAL": "TRUE",
            entries.BASE_PATH: self.base,
            entries.TARGET: HIVE,
            entries.META_FIELDS: str(not self.options.omit_meta_fields).lower(),
            sync_options.FORMAT: self.format,
            **self._instants(before),
        }
        if with_handler:
            own_parameters[STORAGE_HANDLER] = HANDLER_CLASSES[self._storage_format(before, name).input_format]
            if hive.service and hive.service != sync_options.HIVE_SITE:
                own_parameters[sync_options.SERVICE] = hive.service
            if self.snapshot.config.table_type != "COPY_ON_WRITE":
                own_parameters[QUERY_TYPE] = name.query_type
        if self.options.locations and self.options.locations.prefixes:
            own_parameters[entries.LOCATIONS] = self.options.locations.to_text()
        spark = {}
        if hive.as_datasource:
            fields = self.snapshot.config.partition_fields
            spark = spark_properties(self._fields, fields, comments, hive.schema_part, hive.spark_version)
        return {**user_parameters, **hive.table_properties, **spark, **own_parameters}

    def _instants(self, before: HiveTable) -> dict[str, str]:
        """Parameters with the commit that the entry is synced to; Apache's sync continues from there."""
        last = self.snapshot.timeline.last_completed_write(self.snapshot.as_of)
        if last is None:
            return {}
        marks = {entries.INSTANT: last.time, LAST_SYNCED: last.time, LAST_COMPLETED: _completed(self.snapshot, last)}
        if self.format == sync_options.HANDLER:
            marks |= self._statistics(before, last)
        if self.options.hive.column_statistics:
            marks[MEASURED] = last.time
        return {key: value for key, value in marks.items() if value}

    def _statistics(self, before: HiveTable, last: Instant) -> dict[str, str | None]:
        """Files, bytes and rows as Hive's parameters name them; without them Hive lists the folder on each query.

        Rows only where they are counted: others read the number as exact.
        """
        if before.parameters.get(TOTAL_SIZE) and before.parameters.get(entries.INSTANT) == last.time:
            return {key: before.parameters.get(key) for key in _STATISTICS}
        known = summarize_snapshot(self.snapshot, with_columns=False)
        values = {TOTAL_SIZE: known.bytes, NUM_FILES: known.files, NUM_ROWS: known.rows if known.exact else None}
        return {key: str(value) for key, value in values.items() if value}

    def column_statistics(
        self, entry: HiveTable, registered: Mapping[str, HivePartition]
    ) -> dict[tuple[str, ...], list[ColumnStatistics]]:
        """Statistics of an entry's columns, by the values of its partitions; under `()` of the table, if it has none.

        Args:
            entry: as `entry` makes it.
            registered: its partitions by path.
        """
        if not entry.partition_columns:
            return {(): column_statistics(entry.columns, summarize_snapshot(self.snapshot))}
        live = self.snapshot.live_rows
        numbers = self.snapshot.partition_index[live]
        order = np.argsort(numbers, kind="stable")
        with_files, starts = np.unique(numbers[order], return_index=True)
        slices = dict(zip(with_files.tolist(), np.split(live[order], starts[1:]), strict=True))
        by_values = {}
        for number, path in enumerate(self.snapshot.partitions):
            if path in registered and number in slices:
                summary = summarize_snapshot(self.snapshot, slices[number])
                by_values[registered[path].values] = column_statistics(entry.columns, summary)
        return by_values


def _completed(snapshot: Snapshot, write: Instant) -> str | None:
    """A write's completion time; timeline layout 1 does not record it, so the file's time is used."""
    noted = snapshot.timeline.completion_time(write.time)
    entry = None if noted else snapshot.client.storage.entry(snapshot.timeline.path(write))
    if entry is None:
        return noted
    zone = dt.UTC if snapshot.config.timeline_timezone == "UTC" else None
    return format_instant_time(dt.datetime.fromtimestamp(entry.mtime_ms / 1000, dt.UTC).astimezone(zone))
