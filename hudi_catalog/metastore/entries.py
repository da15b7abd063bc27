"""Entries of a Hudi table in a metastore: which it gets, what they contain, and whose an existing entry is.

For Hive and Spark a copy-on-write table gets one entry. A merge-on-read table gets, as from Apache Hudi 0.14 on,
`t_ro`, which reads base files only, and `t_rt` and `t`, which read the newest rows; or one of the two kinds alone,
under the table's own name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from catalog.snapshots.snapshot import Snapshot
from catalog.table import READ_OPTIMIZED, SNAPSHOT, Table
from hudi_catalog.metastore.hive_types import hive_columns
from hudi_catalog.metastore.locations import Locations, normal_uri
from hudi_catalog.metastore.metastore import (
    HANDLER_CLASSES,
    HUDI_FORMAT,
    HUDI_REAL_TIME_FORMAT,
    STORAGE_HANDLER,
    SYMLINK_FORMAT,
    HiveTable,
    Metastore,
)
from hudi_catalog.metastore.stored_columns import TRINO_RULES, ReadingRules, StoredTypes, differing_names
from hudi_catalog.metastore.sync_options import ALL, APACHE, HANDLER, READ_OPTIMIZED_ONLY, SYMLINK, SyncOptions
from table_format.errors import MetastoreError, UnsupportedTableError
from table_format.meta_columns import META_COLUMNS

DEFAULT_SCHEMA: Final = "default"
_READ_OPTIMIZED_SUFFIX: Final = "_ro"
_REAL_TIME_SUFFIX: Final = "_rt"


@dataclass(frozen=True)
class EntryName:
    """An entry's name and how it reads the table.

    Attributes:
        name: in lower case.
        query_type: `snapshot` or `read_optimized`.
    """

    name: str
    query_type: str


def hive_schema(table: Table, options: SyncOptions) -> str:
    """The database of a table's entries, in lower case: the option's, else the table's own."""
    return (options.database or table.config.database or DEFAULT_SCHEMA).lower()


def hive_names(table: Table, options: SyncOptions) -> tuple[EntryName, ...]:
    """The entries of a table for Hive and Spark.

    Args:
        table: to register.
        options: an explicit name; the strategy for merge-on-read tables.
    """
    name = (options.table or table.name).lower()
    hive = options.hive
    newest = EntryName(name, SNAPSHOT)
    if table.config.table_type == "COPY_ON_WRITE":
        return (newest,)
    if hive.strategy != ALL:
        return (EntryName(name, READ_OPTIMIZED) if hive.strategy == READ_OPTIMIZED_ONLY else newest,)
    real_time = EntryName(name + _REAL_TIME_SUFFIX, SNAPSHOT)
    if hive.skip_ro_suffix:
        return (EntryName(name, READ_OPTIMIZED), real_time)
    both = (EntryName(name + _READ_OPTIMIZED_SUFFIX, READ_OPTIMIZED), real_time)
    return (*both, newest) if hive.snapshot_name else both


BASE_PATH: Final = "hoodie.catalog.base.path"
ENTRY_ID: Final = "hoodie.catalog.sync.id"
TARGET: Final = "hoodie.catalog.sync.target"
QUERY_TYPE: Final = "hoodie.catalog.query.type"
INSTANT: Final = "hoodie.catalog.instant"
LOCATIONS: Final = "hoodie.catalog.sync.locations"
MANIFESTS: Final = "hoodie.catalog.sync.manifests"
META_FIELDS: Final = "hoodie.catalog.sync.meta.fields"
PINNED: Final = "hoodie.catalog.pinned"
TRINO: Final = "trino"
SPARK_PREFIX: Final = "spark.sql.sources."
PROVIDER: Final = f"{SPARK_PREFIX}provider"
_ID: Final = re.compile("[0-9a-f]{1,64}")
_EXTERNAL: Final = {"EXTERNAL": "TRUE"}


def symlink_entry(entry: HiveTable, snapshot: Snapshot, location: str) -> HiveTable:
    """An entry brought up to a snapshot: its columns, and the list of its files.

    Args:
        entry: as it was; its parameters are kept, and comments that users gave to columns without one of their own.
        snapshot: of the table.
        location: of the list, as the engine writes it.

    Raises:
        UnsupportedTableError: a column without a matching type in Hive.
    """
    fields = [field for field in snapshot.schema if keeps_meta_fields(entry) or field.name not in META_COLUMNS]
    own = column_comments(snapshot)
    user_comments = {column.name: column.comment for column in entry.columns if column.comment}
    comments = {field.name: own.get(field.name) or user_comments.get(field.name.lower()) or "" for field in fields}
    parameters = {**entry.parameters, **_EXTERNAL, INSTANT: snapshot.instant or ""}
    columns = hive_columns(pa.schema(fields), comments)
    form = replace(SYMLINK_FORMAT, serde_parameters=entry.format.serde_parameters)
    return replace(entry, columns=columns, location=location, format=form, parameters=parameters)


def keeps_meta_fields(entry: HiveTable) -> bool:
    """Whether an entry includes Hudi's meta columns."""
    return entry.parameters.get(META_FIELDS) != "false"


def is_ours(entry: HiveTable) -> bool:
    """Whether an entry was made by the sync for Trino and is not a pinned snapshot."""
    parameters = entry.parameters
    return (
        BASE_PATH in parameters
        and parameters.get(TARGET) == TRINO
        and PINNED not in parameters
        and entry_id(entry) is not None
    )


def registered_locations(registered: Iterable[HiveTable | None], base: str) -> Locations | None:
    """The location mapping that a table's entries record; None if none does.

    Args:
        registered: existing entries.
        base: our URI of the table's folder.
    """
    for entry in registered:
        text = entry.parameters.get(LOCATIONS) if entry is not None else None
        if entry is not None and text and entry.parameters.get(BASE_PATH) == base:
            return Locations.parse(text)
    return None


def entry_id(entry: HiveTable) -> str | None:
    """The id that names an entry's folder of file lists; None if missing or malformed."""
    number = entry.parameters.get(ENTRY_ID, "")
    return number if _ID.fullmatch(number) else None


def column_comments(snapshot: Snapshot) -> Mapping[str, str]:
    """Column comments from the table's Avro schema."""
    text = snapshot.client.table_schema_json(snapshot.timeline, snapshot.as_of)
    fields: list[Any] = json.loads(text).get("fields", []) if text else []
    return {field["name"]: field["doc"] for field in fields if isinstance(field.get("doc"), str) and field["doc"]}


def check_files_have_columns(snapshot: Snapshot, rules: ReadingRules) -> None:
    """Refuse a snapshot with files that hold a column under another name, or something else under its name.

    Engines that read Parquet by column names would return nulls, or a dropped column.

    Args:
        snapshot: of the table.
        rules: of the engine, for the message.

    Raises:
        UnsupportedTableError: such a file exists; the message names the column.
    """
    if snapshot.schema_history is None:
        return
    instants: list[Any] = snapshot.take_files(snapshot.live_rows).column("instant").unique().to_pylist()
    for instant in instants:
        differing = differing_names(snapshot, instant)
        if differing:
            raise UnsupportedTableError(
                f"{snapshot.config.name}: column {differing[0]} was renamed, replaced or changed since files of "
                f"{instant} were written, and {rules.engine}, which reads Parquet by names, would get it wrong; "
                f"rewrite the files (clustering), {rules.otherwise}"
            )


def check_servable(snapshot: Snapshot, types: StoredTypes) -> None:
    """Refuse tables whose base files an engine that reads by columns' names and types would misread.

    Args:
        snapshot: of the table.
        types: columns of the table's files.

    Raises:
        UnsupportedTableError: the engine would misread the table.
    """
    config = snapshot.config
    if config.drop_partition_columns and config.partition_fields:
        raise UnsupportedTableError(
            f"{config.name}: its files lack the partition columns {', '.join(config.partition_fields)} "
            "(hoodie.datasource.write.drop.partition.columns); read the table through `hudi-catalog serve trino`"
        )
    check_files_have_columns(snapshot, TRINO_RULES)
    types.check(snapshot)


HIVE: Final = "hive"
PURGE: Final = "external.table.purge"

_HUDI_FORMATS: Final = frozenset(
    {HUDI_FORMAT.input_format, HUDI_REAL_TIME_FORMAT.input_format}
    # of releases before Hudi joined Apache
    | {"com.uber.hoodie.hadoop.HoodieInputFormat", "com.uber.hoodie.hadoop.realtime.HoodieRealtimeInputFormat"}
)

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


def check_owner(before: HiveTable | None, target: str, base: str, location: str, metastore: Metastore) -> None:
    """Refuse to overwrite an entry that belongs to another table or to another engine's sync.

    For Hive, entries that Apache Hudi's sync, Spark or a user made for the same table are taken over.

    Args:
        before: the existing entry; None if there is none.
        target: of the sync: `hive`, `trino` or `hudi`.
        base: our URI of the table's folder.
        location: the engine's URI of it.
        metastore: for the message.

    Raises:
        MetastoreError: the entry belongs to something else.
    """
    if before is None:
        return
    registered_base, registered_target = before.parameters.get(BASE_PATH), before.parameters.get(TARGET)
    if registered_target is None:
        if target == HIVE and hudi_format(before) and same_place(before.location, base, location):
            return
        what = "a table that the sync did not make"
    elif registered_base != base:
        what = f"the Hudi table {registered_base}"
    elif registered_target != target:
        what = f"this table's entry for {registered_target}"
    else:
        return
    raise MetastoreError(
        f"{metastore.uri}: {before.schema}.{before.name} is {what}; drop it, or choose another name or schema"
    )


def check_same_table(wanted: HiveTable, existing: HiveTable, uri: str) -> None:
    """Refuse to replace an entry of another table, which somebody has made since the sync looked for one.

    Args:
        wanted: the entry to be made.
        existing: the one that was made meanwhile.
        uri: of the metastore, for the message.

    Raises:
        MetastoreError: they are of different tables.
    """
    base, other = (entry.parameters.get(BASE_PATH) or entry.location for entry in (wanted, existing))
    if not same_place(base, other):
        raise MetastoreError(
            f"{uri}: {existing.schema}.{existing.name} has just been made for {other}; choose another name or schema"
        )


def hudi_format(entry: HiveTable) -> str | None:
    """How an entry reads a Hudi table: `handler`, `apache` or `symlink`; None if it is not a Hudi table's."""
    parameters = entry.parameters
    if parameters.get(STORAGE_HANDLER) in HANDLER_CLASSES.values():
        return HANDLER
    if parameters.get(TARGET) == TRINO:
        return SYMLINK
    is_hudi = entry.format.input_format in _HUDI_FORMATS or parameters.get(PROVIDER, "").lower() == "hudi"
    return APACHE if is_hudi else None


def same_place(place: str, *ours: str) -> bool:
    """Whether a location equals one of several others, possibly spelled differently.

    >>> same_place("s3a://b/t/", "s3://b/t"), same_place("file:/a", "file:///a"), same_place("s3://b/t", "s3://b/u")
    (True, True, False)
    """
    return _normalized(place) in {_normalized(uri) for uri in ours}


def is_inside(place: str, folder: str) -> bool:
    """Whether a location is a folder or inside it, possibly spelled differently.

    >>> is_inside("s3a://b/t/x", "s3://b/t/"), is_inside("s3://b/t", "s3://b/t"), is_inside("s3://b/tx", "s3://b/t")
    (True, True, False)
    """
    return f"{_normalized(place)}/".startswith(f"{_normalized(folder)}/")


def deletion_warnings(metastore: Metastore, schema: str, made: Iterable[HiveTable], base: str) -> tuple[str, ...]:
    """Warnings about statements by which Hive would silently delete a table's files.

    Args:
        metastore: with the entries.
        schema: of the entries.
        made: the current entries.
        base: our URI of the table's folder.
    """
    warnings = []
    listed = list(made)
    for folder in metastore.schema_folders(schema):
        if any(is_inside(place, folder) for place in (base, *(entry.location for entry in listed))):
            warnings.append(
                f"{normal_uri(base)} lies inside {folder}, the folder of database {schema}: DROP DATABASE {schema} "
                "deletes the table's files, whether registered there or not; give the database another folder "
                "(ALTER DATABASE … SET LOCATION), or let the metastore refuse that (hudicatalog.hive.FolderGuard)"
            )
            break
    warnings += [
        f"{schema}.{entry.name} has {PURGE}=true: DROP TABLE deletes the table's files; set it to false"
        for entry in listed
        if entry.parameters.get(PURGE, "").lower() == "true"
    ]
    return tuple(warnings)


def _normalized(uri: str) -> str:
    scheme, slashes, rest = normal_uri(uri).partition("://")
    return f"{_SCHEMES.get(scheme.lower(), scheme)}{slashes}{rest}"
