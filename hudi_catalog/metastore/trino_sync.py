"""The entry under which Trino's own Hudi connector reads a table.

That connector lists the table's folders itself, those of the partitions that the metastore names: of a partitioned
table without partitions in the metastore it silently reads nothing.
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
from hudi_catalog.metastore.entries import check_owner, deletions, hive_schema
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.manifests import Pins, list_name, manifest_folder, manifest_of, paths_of
from hudi_catalog.metastore.metastore import HUDI_FORMAT, SYMLINK_FORMAT, HiveTable, Metastore
from hudi_catalog.metastore.partitions import PartitionChanges, partitions_of, registered
from hudi_catalog.metastore.stored_columns import StoredTypes
from hudi_catalog.metastore.sync_options import SyncOptions

HUDI_CONNECTOR: Final = "Trino's Hudi connector"

HUDI_TARGET: Final = "hudi"


def hudi_entry(entry: HiveTable, snapshot: Snapshot, name: str, location: str) -> HiveTable:
    """The entry beside ours; partition columns stand apart from the others in it, for the connector asks for that.

    Args:
        entry: ours.
        snapshot: of the table.
        name: of the other entry.
        location: of the table, as the engine spells it.
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
        name: of the entry; it ends in `_ro` where only base files are read.
        instant: that the entry lists now; "" for a table without commits.
        changes: none when everything was as it should be.
        warnings: by which statements Hive would delete the table's files.
    """

    schema: str
    name: str
    instant: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The entry's name, as the only one."""
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
    """Register a table for Trino's Hive connector, or bring its entry up to date.

    The entry is a symlink table that lists exactly the base files of the newest snapshot. Partition columns are
    ordinary columns of it, for they are in the files. Of a merge-on-read table the read-optimized one is registered,
    as `<name>_ro`.

    Args:
        table: brought up to date first.
        metastore: that Trino's Hive connector uses.
        options: see `SyncOptions`.
        also_hudi: register the table for Trino's own Hudi connector too, under another name.
        for_spark: let Spark SQL read the entry by Hudi's data source; it would take the list for rows.
        dry_run: tell the changes, make none.
        storage_options: keyword arguments for the `pyarrow.fs` file systems.

    Raises:
        MetastoreError: the name is taken by another table, or the metastore does not answer.
        UnsupportedTableError: Trino cannot read the table's files as they are; the message says what can.
    """
    options = options or SyncOptions()
    query_type = SNAPSHOT if table.config.table_type == "COPY_ON_WRITE" else READ_OPTIMIZED
    snapshot = table.refresh().snapshot(None, query_type)
    entries.check_servable(snapshot, StoredTypes())
    schema, name = entry_name(table, options)
    before = metastore.table(schema, name)
    if options.locations is None:
        options = replace(options, locations=entries.told_locations([before], table.client.storage.full_uri("")))
    place = _Place(metastore, table, options, dict(storage_options or {}))
    check_owner(before, entries.TRINO, place.base, place.spelled, metastore)
    wanted = place.symlink(before, schema, name, snapshot, query_type, dry_run=dry_run)
    if for_spark:
        wanted = _with_spark(wanted, snapshot, place.spelled, options, read_optimized=query_type == READ_OPTIMIZED)
    pairs = [(before, wanted)]
    partitions = None
    if also_hudi:
        other = hudi_entry(wanted, snapshot, options.hudi_name.format(table=name), place.spelled)
        there = metastore.table(schema, other.name)
        check_owner(there, HUDI_TARGET, place.base, place.spelled, metastore)
        pairs.append((there, other))
        listed = partitions_of(snapshot, place.spelled, HUDI_CONNECTOR).values()
        partitions = PartitionChanges(metastore, other, listed, registered(metastore, there, other))
    changes = schema_changes(metastore, schema, may_create=options.hive.create_database)
    altered = [(after, changes_of(there, after)) for there, after in pairs]
    changes += [change for _, found in altered for change in found]
    changes += partitions.changes() if partitions else []
    if changes and not dry_run:
        metastore.create_schema(schema)
        for after, found in altered:
            if found:
                metastore.put_table(after)
        if partitions:
            partitions.make()
    warnings = deletions(metastore, schema, (after for _, after in pairs), place.base)
    return TrinoSync(schema, name, snapshot.instant or "", tuple(changes), warnings)


def entry_name(table: Table, options: SyncOptions) -> tuple[str, str]:
    """Schema and name under which a table is registered: the options', else the table's own, in lower case."""
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
    said = hive_entries.spark_properties(
        fields, snapshot.config.partition_fields, comments, hive.schema_part, hive.spark_version
    )
    kept = {key: v for key, v in entry.parameters.items() if not key.startswith(entries.SPARK_PREFIX)}
    serde = hive_entries.spark_serde_properties(location, read_optimized=read_optimized)
    form = replace(entry.format, serde_parameters={**entry.format.serde_parameters, **serde})
    return replace(entry, parameters=kept | said, format=form)


@dataclass(frozen=True)
class _Place:
    """Where a table is registered, and how places are spelled there."""

    metastore: Metastore
    table: Table
    options: SyncOptions
    storage_options: Mapping[str, Any]

    @property
    def base(self) -> str:
        return self.table.client.storage.full_uri("")

    @property
    def spelled(self) -> str:
        return (self.options.locations or Locations()).spelled(self.base)

    def symlink(
        self, before: HiveTable | None, schema: str, name: str, snapshot: Snapshot, query_type: str, *, dry_run: bool
    ) -> HiveTable:
        """The entry as it should be; unless for a dry run, the list that it points at is there then."""
        entry = self._with_identity(before, schema, name, query_type)
        locations = self.options.locations or Locations()
        folder = manifest_folder(entry, self.table.client.storage, locations, self.storage_options)
        kept = folder.name_for(list_name(self.spelled, snapshot), entry.location)
        if not dry_run:
            pins = Pins(self.metastore, self.options.retention)
            kept = pins.keep(folder, kept, lambda: manifest_of(paths_of(self.spelled, snapshot)), None)
        return entries.symlink_entry(entry, snapshot, folder.location(kept))

    def _with_identity(self, before: HiveTable | None, schema: str, name: str, query_type: str) -> HiveTable:
        """The entry, as much of it as does not depend on the snapshot."""
        options = self.options
        entry = before or HiveTable(schema, name, (), "", SYMLINK_FORMAT, {})
        said = {
            entries.BASE_PATH: self.base,
            entries.TARGET: entries.TRINO,
            entries.QUERY_TYPE: query_type,
            entries.ENTRY_ID: entries.entry_id(entry) or uuid.uuid4().hex[:12],
            entries.META_FIELDS: str(not options.omit_meta_fields).lower(),
            entries.LOCATIONS: options.locations.to_text() if options.locations else "",
            entries.MANIFESTS: options.manifests or "",
        }
        parameters = {key: value for key, value in entry.parameters.items() if key not in said}
        return replace(entry, parameters=parameters | {key: value for key, value in said.items() if value})
