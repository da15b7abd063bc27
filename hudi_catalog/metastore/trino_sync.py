"""Sync of a Hudi table to Trino: the entry, and the file list that it points at.

Optionally a second entry for Trino's own Hudi connector. That connector lists the folders of the partitions in the
metastore: a partitioned table without partitions there silently reads as empty.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from catalog.snapshots.snapshot import Snapshot
from catalog.table import READ_OPTIMIZED, SNAPSHOT, Table
from hudi_catalog.metastore import entries, hive_entries
from hudi_catalog.metastore.changes import Change, changes_of, schema_changes
from hudi_catalog.metastore.entries import check_owner, deletion_warnings, hive_schema
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.manifests import Pins, list_name, manifest_folder, manifest_of, paths_of
from hudi_catalog.metastore.metastore import HUDI_FORMAT, SYMLINK_FORMAT, HiveTable, Metastore
from hudi_catalog.metastore.partitions import PartitionChanges, partitions_of, registered
from hudi_catalog.metastore.stored_columns import StoredTypes
from hudi_catalog.metastore.sync_options import SyncOptions

HUDI_CONNECTOR: Final = "Trino's Hudi connector"
HUDI_TARGET: Final = "hudi"


def hudi_entry(entry: HiveTable, snapshot: Snapshot, name: str, location: str) -> HiveTable:
    """The entry for Trino's Hudi connector, with separate partition columns as the connector requires.

    Args:
        entry: our own entry.
        snapshot: of the table.
        name: of the new entry.
        location: of the table, as the engine writes it.
    """
    fields = [field.lower() for field in snapshot.config.partition_fields]
    by_name = {column.name: column for column in entry.columns}
    parameters = {
        "EXTERNAL": "TRUE",
        entries.BASE_PATH: entry.parameters[entries.BASE_PATH],
        entries.TARGET: HUDI_TARGET,
    }
    return replace(
        entry,
        name=name,
        columns=tuple(column for column in entry.columns if column.name not in fields),
        partition_columns=tuple(by_name[field] for field in fields),
        location=location,
        format=HUDI_FORMAT,
        parameters=parameters,
    )


_READ_OPTIMIZED = "_ro"


@dataclass(frozen=True)
class TrinoSync:
    """What was changed in the metastore, or would be.

    Attributes:
        schema: of the entry.
        name: of the entry; ends in `_ro` if only base files are read.
        instant: that the entry is synced to; "" for a table without commits.
        changes: empty if everything was up to date.
        warnings: about statements by which Hive would delete the table's files.
    """

    schema: str
    name: str
    instant: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The entry's name, as a tuple of one."""
        return (self.name,)


def sync_to_trino(
    table: Table,
    metastore: Metastore,
    options: SyncOptions | None = None,
    *,
    also_hudi: bool = False,
    for_spark: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> TrinoSync:
    """Register a table for Trino's Hive connector, or update its entry.

    The entry is a symlink table that lists exactly the base files of the newest snapshot. Partition columns are
    ordinary columns, since the files contain them. A merge-on-read table is registered read-optimized, as `<name>_ro`.

    Args:
        table: refreshed first.
        metastore: used by Trino's Hive connector.
        options: see `SyncOptions`.
        also_hudi: also register the table for Trino's own Hudi connector, under another name.
        for_spark: let Spark SQL read the entry by Hudi's data source instead of reading the list as rows.
        dry_run: return the changes without making them.
        storage_options: keyword arguments for the `pyarrow.fs` file systems.

    Raises:
        MetastoreError: the name is taken by another table, or the metastore does not answer.
        UnsupportedTableError: Trino cannot read the table's files as they are; the message names an alternative.
    """
    options = options or SyncOptions()
    query_type = SNAPSHOT if table.config.table_type == "COPY_ON_WRITE" else READ_OPTIMIZED
    snapshot = table.refresh().snapshot(None, query_type)
    entries.check_servable(snapshot, StoredTypes())
    schema, name = entry_name(table, options)
    before = metastore.table(schema, name)
    if options.locations is None:
        options = replace(options, locations=entries.registered_locations([before], table.client.storage.full_uri("")))
    place = _Place(metastore, table, options, dict(storage_options or {}))
    check_owner(before, entries.TRINO, place.base, place.location, metastore)
    wanted = place.symlink(before, schema, name, snapshot, query_type, dry_run=dry_run)
    if for_spark:
        wanted = _with_spark(wanted, snapshot, place.location, options, read_optimized=query_type == READ_OPTIMIZED)
    pairs = [(before, wanted)]
    partitions = None
    if also_hudi:
        other = hudi_entry(wanted, snapshot, options.hudi_name.format(table=name), place.location)
        existing = metastore.table(schema, other.name)
        check_owner(existing, HUDI_TARGET, place.base, place.location, metastore)
        pairs.append((existing, other))
        listed = partitions_of(snapshot, place.location, HUDI_CONNECTOR).values()
        partitions = PartitionChanges(metastore, other, listed, registered(metastore, existing, other))
    changes = schema_changes(metastore, schema, may_create=options.hive.create_database)
    altered = [(after, changes_of(existing, after)) for existing, after in pairs]
    changes += [change for _, entry_changes in altered for change in entry_changes]
    changes += partitions.changes() if partitions else []
    if changes and not dry_run:
        metastore.create_schema(schema)
        for after, entry_changes in altered:
            if entry_changes:
                metastore.put_table(after)
        if partitions:
            partitions.make()
    warnings = deletion_warnings(metastore, schema, (after for _, after in pairs), place.base)
    return TrinoSync(schema, name, snapshot.instant or "", tuple(changes), warnings)


def entry_name(table: Table, options: SyncOptions) -> tuple[str, str]:
    """Schema and lower-case name of the entry: the options', else the table's own."""
    name = options.table or table.name
    ending = (
        "" if table.config.table_type == "COPY_ON_WRITE" or name.lower().endswith(_READ_OPTIMIZED) else _READ_OPTIMIZED
    )
    return hive_schema(table, options), name.lower() + ending


def _with_spark(
    entry: HiveTable, snapshot: Snapshot, location: str, options: SyncOptions, *, read_optimized: bool
) -> HiveTable:
    hive = options.hive
    columns = {column.name: column for column in entry.columns}
    fields = pa.schema([field for field in snapshot.schema if field.name.lower() in columns])
    comments = {field.name: columns[field.name.lower()].comment or "" for field in fields}
    spark = hive_entries.spark_properties(
        fields, snapshot.config.partition_fields, comments, hive.schema_part, hive.spark_version
    )
    others = {key: v for key, v in entry.parameters.items() if not key.startswith(entries.SPARK_PREFIX)}
    serde = hive_entries.spark_serde_properties(location, read_optimized=read_optimized)
    form = replace(entry.format, serde_parameters={**entry.format.serde_parameters, **serde})
    return replace(entry, parameters=others | spark, format=form)


@dataclass(frozen=True)
class _Place:
    """A table, the metastore it is registered in, and its locations there."""

    metastore: Metastore
    table: Table
    options: SyncOptions
    storage_options: Mapping[str, Any]

    @property
    def base(self) -> str:
        return self.table.client.storage.full_uri("")

    @property
    def location(self) -> str:
        return (self.options.locations or Locations()).to_engine(self.base)

    def symlink(
        self, before: HiveTable | None, schema: str, name: str, snapshot: Snapshot, query_type: str, *, dry_run: bool
    ) -> HiveTable:
        """The wanted entry; unless for a dry run, its file list is written."""
        entry = self._with_identity(before, schema, name, query_type)
        locations = self.options.locations or Locations()
        folder = manifest_folder(entry, self.table.client.storage, locations, self.storage_options)
        kept_name = folder.name_for(list_name(self.location, snapshot), entry.location)
        if not dry_run:
            pins = Pins(self.metastore, self.options.retention)
            kept_name = pins.keep(folder, kept_name, lambda: manifest_of(paths_of(self.location, snapshot)), None)
        return entries.symlink_entry(entry, snapshot, folder.location(kept_name))

    def _with_identity(self, before: HiveTable | None, schema: str, name: str, query_type: str) -> HiveTable:
        """The entry without what depends on the snapshot."""
        options = self.options
        entry = before or HiveTable(schema, name, (), "", SYMLINK_FORMAT, {})
        identity = {
            entries.BASE_PATH: self.base,
            entries.TARGET: entries.TRINO,
            entries.QUERY_TYPE: query_type,
            entries.ENTRY_ID: entries.entry_id(entry) or uuid.uuid4().hex[:12],
            entries.META_FIELDS: str(not options.omit_meta_fields).lower(),
            entries.LOCATIONS: options.locations.to_text() if options.locations else "",
            entries.MANIFESTS: options.manifests or "",
        }
        parameters = {key: value for key, value in entry.parameters.items() if key not in identity}
        return replace(entry, parameters=parameters | {key: value for key, value in identity.items() if value})
