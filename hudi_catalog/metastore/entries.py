"""What a Hudi table's entry in a metastore says, made from one snapshot of the table."""

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
    """An entry to be.

    Attributes:
        name: in lower case.
        query_type: `snapshot` or `read_optimized`.
    """

    name: str
    query_type: str


def hive_schema(table: Table, options: SyncOptions) -> str:
    """The database of a table's entries: the options', else the table's own, in lower case."""
    return (options.database or table.config.database or DEFAULT_SCHEMA).lower()


def hive_names(table: Table, options: SyncOptions) -> tuple[EntryName, ...]:
    """The entries of a table.

    Args:
        table: to be registered.
        options: the name, if it is not the table's own; the strategy for merge-on-read tables.
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
    """An entry brought to a snapshot: its columns, and the list of its files.

    Args:
        entry: as it was; its parameters stay, and comments that somebody gave to columns which have none of their own.
        snapshot: of the table.
        location: of the list, as the engine spells it.

    Raises:
        UnsupportedTableError: a column that Hive has no type for.
    """
    fields = [field for field in snapshot.schema if keeps_meta_fields(entry) or field.name not in META_COLUMNS]
    own = column_comments(snapshot)
    given = {column.name: column.comment for column in entry.columns if column.comment}
    comments = {field.name: own.get(field.name) or given.get(field.name.lower()) or "" for field in fields}
    parameters = {**entry.parameters, **_EXTERNAL, INSTANT: snapshot.instant or ""}
    columns = hive_columns(pa.schema(fields), comments)
    form = replace(SYMLINK_FORMAT, serde_parameters=entry.format.serde_parameters)
    return replace(entry, columns=columns, location=location, format=form, parameters=parameters)


def keeps_meta_fields(entry: HiveTable) -> bool:
    """Whether Hudi's meta columns are among an entry's columns."""
    return entry.parameters.get(META_FIELDS) != "false"


def is_ours(entry: HiveTable) -> bool:
    """Whether an entry was made by the sync for Trino, and is no pinned snapshot."""
    said = entry.parameters
    return BASE_PATH in said and said.get(TARGET) == TRINO and PINNED not in said and entry_id(entry) is not None


def told_locations(found: Iterable[HiveTable | None], base: str) -> Locations | None:
    """How entries of a table say that their engine spells places; None where none of them says it.

    Args:
        found: the entries that are there.
        base: URI of the table's folder, as we spell it.
    """
    for entry in found:
        text = entry.parameters.get(LOCATIONS) if entry is not None else None
        if entry is not None and text and entry.parameters.get(BASE_PATH) == base:
            return Locations.parse(text)
    return None


def entry_id(entry: HiveTable) -> str | None:
    """The number after which an entry's lists are named; None for what cannot be one, for it becomes a folder."""
    number = entry.parameters.get(ENTRY_ID, "")
    return number if _ID.fullmatch(number) else None


def column_comments(snapshot: Snapshot) -> Mapping[str, str]:
    """What the table's Avro schema says of its columns."""
    text = snapshot.client.table_schema_json(snapshot.timeline, snapshot.as_of)
    fields: list[Any] = json.loads(text).get("fields", []) if text else []
    return {field["name"]: field["doc"] for field in fields if isinstance(field.get("doc"), str) and field["doc"]}


def check_files_have_columns(snapshot: Snapshot, rules: ReadingRules) -> None:
    """Refuse a snapshot of which some files hold a column under another name, or something else under its name.

    Engines that read Parquet files by the names of columns would see nulls, or a column that was dropped.

    Args:
        snapshot: of the table.
        rules: of the engine, for the message.

    Raises:
        UnsupportedTableError: there is such a file; the message names the column.
    """
    if snapshot.schema_history is None:
        return
    instants: list[Any] = snapshot.take_files(snapshot.live_rows).column("instant").unique().to_pylist()
    for instant in instants:
        odd = differing_names(snapshot, instant)
        if odd:
            raise UnsupportedTableError(
                f"{snapshot.config.name}: column {odd[0]} was renamed, replaced or changed since files of {instant} "
                f"were written, and {rules.engine}, which reads Parquet by names, would get it wrong; rewrite the "
                f"files (clustering), {rules.otherwise}"
            )


def check_servable(snapshot: Snapshot, types: StoredTypes) -> None:
    """Refuse tables whose base files an engine that goes by columns' names and types would misread.

    Args:
        snapshot: of the table.
        types: what is known of the columns of the table's files.

    Raises:
        UnsupportedTableError: it is such a table.
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
    # as releases before Apache's had them
    | {"com.uber.hoodie.hadoop.HoodieInputFormat", "com.uber.hoodie.hadoop.realtime.HoodieRealtimeInputFormat"}
)

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


def check_owner(before: HiveTable | None, target: str, base: str, location: str, metastore: Metastore) -> None:
    """Refuse to write over an entry that is not a table's, or that another engine's sync keeps.

    Entries that Apache Hudi's sync, Spark or a user made for the same table are taken over for Hive.

    Args:
        before: the entry as it is; None when there is none.
        target: of the sync: `hive`, `trino` or `hudi`.
        base: URI of the table's folder, as we spell it.
        location: the same as the engine spells it.
        metastore: for the message.

    Raises:
        MetastoreError: the entry is something else's.
    """
    if before is None:
        return
    said, kept = before.parameters.get(BASE_PATH), before.parameters.get(TARGET)
    if kept is None:
        if target == HIVE and hudi_format(before) and same_place(before.location, base, location):
            return
        what = "a table that the sync did not make"
    elif said != base:
        what = f"the Hudi table {said}"
    elif kept != target:
        what = f"this table's entry for {kept}"
    else:
        return
    raise MetastoreError(
        f"{metastore.uri}: {before.schema}.{before.name} is {what}; drop it, or choose another name or schema"
    )


def hudi_format(entry: HiveTable) -> str | None:
    """By what an entry reads a Hudi table: `handler`, `apache` or `symlink`; None for an entry of something else."""
    said = entry.parameters
    if said.get(STORAGE_HANDLER) in HANDLER_CLASSES.values():
        return HANDLER
    if said.get(TARGET) == TRINO:
        return SYMLINK
    is_hudi = entry.format.input_format in _HUDI_FORMATS or said.get(PROVIDER, "").lower() == "hudi"
    return APACHE if is_hudi else None


def same_place(there: str, *ours: str) -> bool:
    """Whether a location is one of some others, be it spelled otherwise.

    >>> same_place("s3a://b/t/", "s3://b/t"), same_place("file:/a", "file:///a"), same_place("s3://b/t", "s3://b/u")
    (True, True, False)
    """
    return _folded(there) in {_folded(uri) for uri in ours}


def lies_inside(place: str, folder: str) -> bool:
    """Whether a location is a folder or inside it, be it spelled otherwise.

    >>> lies_inside("s3a://b/t/x", "s3://b/t/"), lies_inside("s3://b/t", "s3://b/t"), lies_inside("s3://b/tx", "s3://b/t")
    (True, True, False)
    """
    return f"{_folded(place)}/".startswith(f"{_folded(folder)}/")


def deletions(metastore: Metastore, schema: str, made: Iterable[HiveTable], base: str) -> tuple[str, ...]:
    """By which statements Hive would delete a table's files, for a warning; Hive says nothing before it does.

    Args:
        metastore: with the entries.
        schema: of the entries.
        made: the entries, as they are now.
        base: URI of the table's folder, as we spell it.
    """
    found = []
    listed = list(made)
    for folder in metastore.schema_folders(schema):
        if any(lies_inside(place, folder) for place in (base, *(entry.location for entry in listed))):
            found.append(
                f"{normal_uri(base)} lies inside {folder}, the folder of database {schema}: DROP DATABASE {schema} "
                "deletes the table's files, be it registered there or not; give the database another folder "
                "(ALTER DATABASE … SET LOCATION), or let the metastore refuse that (hudicatalog.hive.FolderGuard)"
            )
            break
    found += [
        f"{schema}.{entry.name} has {PURGE}=true: DROP TABLE deletes the table's files; set it to false"
        for entry in listed
        if entry.parameters.get(PURGE, "").lower() == "true"
    ]
    return tuple(found)


def _folded(uri: str) -> str:
    scheme, slashes, rest = normal_uri(uri).partition("://")
    return f"{_SCHEMES.get(scheme.lower(), scheme)}{slashes}{rest}"
