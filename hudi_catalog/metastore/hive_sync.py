"""Sync of a Hudi table to Hive and Spark SQL.

The order of changes makes an interrupted sync harmless: first an entry's definition, then its partitions, and last the
commit it is synced to. The next sync compares everything again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from catalog.snapshots.snapshot import Snapshot
from catalog.table import SNAPSHOT, Table
from hudi_catalog.metastore import entries, trino_sync
from hudi_catalog.metastore.changes import Change, changes_of, schema_changes
from hudi_catalog.metastore.entries import (
    HIVE,
    EntryName,
    check_owner,
    deletion_warnings,
    hive_names,
    hive_schema,
    hudi_format,
    same_place,
)
from hudi_catalog.metastore.hive_entries import INSTANTS, MEASURED, HiveEntries
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.metastore import HivePartition, HiveTable, Metastore
from hudi_catalog.metastore.partitions import (
    RECORD_PREFIX,
    PartitionChanges,
    check_extractor,
    keeps_partitions,
    partitions_of,
    record_of,
    recorded,
    registered,
)
from hudi_catalog.metastore.stored_columns import HIVE_WITHOUT_HANDLER_RULES, StoredTypes
from hudi_catalog.metastore.sync_options import (
    APACHE,
    AS_DATASOURCE,
    COLUMN_STATISTICS,
    FORMAT,
    HANDLER,
    KEEP,
    PARTITION_FIELDS,
    SERVICE,
    SYMLINK,
    SyncOptions,
)
from table_format.errors import OptionError

_READER: Final = "Apache Hudi's input formats"
_MOST_ROUNDS: Final = 4
_OTHERWISE: Final = "register it with the storage handler (handler format), which does not derive values from paths"


@dataclass(frozen=True)
class HiveSync:
    """What was changed in the metastore, or would be.

    Attributes:
        schema: of the entries.
        names: of the entries; a merge-on-read table has several.
        instant: that they are synced to; "" for a table without commits.
        changes: empty if everything was up to date.
        warnings: about statements by which Hive would delete the table's files.
    """

    schema: str
    names: tuple[str, ...]
    instant: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()


def sync_to_hive(
    table: Table,
    metastore: Metastore,
    options: SyncOptions | None = None,
    *,
    format: str | None = None,  # noqa: A002  # the name of the flag
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    must_be_served: bool = False,
) -> HiveSync:
    """Register a table for Hive and Spark SQL, or update its entries.

    Args:
        table: refreshed first.
        metastore: used by Hive and Spark.
        options: see `SyncOptions`.
        format: `handler`: Hive reads by our storage handler; `apache`: by Apache Hudi's input formats; `symlink`: by a
            list of files, see `trino_sync`. None for the option's, else an existing entry's, else `handler`.
        dry_run: return the changes without making them.
        storage_options: keyword arguments for the `pyarrow.fs` file systems, for lists of files.
        must_be_served: refuse to make an entry for the handler of which nobody said where the service is.

    Raises:
        UnservedError: so refused.
        MetastoreError: a name is taken by another table, or the metastore does not answer.
        OptionError: options that exclude each other or do not fit the table.
        UnsupportedTableError: Hive cannot read the table in this format; the message names the column.
    """
    options = options or SyncOptions()
    registered_format = _format_there(table, metastore, options)
    wanted = format or options.hive.format or registered_format or HANDLER
    if must_be_served and wanted == HANDLER != registered_format and not (options.hive.service or _in_hive_site()):
        raise UnservedError("no service is known by which Hive would read it")
    if wanted != APACHE and not options.hive.as_datasource:
        # Spark would read the folder as plain Parquet: replaced rows, or none
        raise OptionError(f"{AS_DATASOURCE}=false goes with {FORMAT}={APACHE} only")
    if wanted == SYMLINK:
        done = trino_sync.sync_to_trino(
            table, metastore, options, for_spark=True, dry_run=dry_run, storage_options=storage_options
        )
        return HiveSync(done.schema, (done.name,), done.instant, done.changes, done.warnings)
    if wanted not in (HANDLER, APACHE):
        raise OptionError(f"format {wanted!r}: there are {HANDLER}, {APACHE} and {SYMLINK}")
    return _until_newest(_TableSync(metastore, table, options, wanted, dry_run=dry_run), table, dry_run=dry_run)


class UnservedError(OptionError):
    """An entry for the storage handler without a service; `REMEDY` says what to do."""

    REMEDY: Final = (
        "start `hudi-catalog serve hive WAREHOUSE` and name it by --service host:port; or --service hive-site, if "
        "Hive's own hive-site.xml names it or only Spark reads the entry; or, without a service, --format apache or "
        "symlink"
    )


def _in_hive_site() -> bool:
    """Whether the Hive configuration of this machine, if `HIVE_CONF_DIR` names one, has the service's address."""
    folder = os.environ.get("HIVE_CONF_DIR")
    try:
        text = Path(folder, "hive-site.xml").read_text(encoding="utf-8") if folder else ""
    except OSError:
        return False
    return f"<name>{SERVICE}</name>" in "".join(text.split())


def _until_newest(one: _TableSync, table: Table, *, dry_run: bool) -> HiveSync:
    """Sync, and repeat if a concurrent sync of a later commit was overwritten."""
    changes: tuple[Change, ...] = ()
    for _ in range(_MOST_ROUNDS):
        done = one.run()
        changes += done.changes
        if dry_run or not done.changes or done.instant == (table.refresh().snapshot(None, SNAPSHOT).instant or ""):
            break
    return replace(done, changes=changes)


def _format_there(table: Table, metastore: Metastore, options: SyncOptions) -> str | None:
    """How an existing entry of the table reads it; None if there is none."""
    schema, base = hive_schema(table, options), table.client.storage.full_uri("")
    own = trino_sync.entry_name(table, options)
    for key in dict.fromkeys([*((schema, name.name) for name in hive_names(table, options)), own]):
        entry = metastore.table(*key)
        if entry is not None and base == entry.parameters.get(entries.BASE_PATH, base):
            known = hudi_format(entry)
            if known is not None:
                return known
    return None


def check_statistics_are_kept(metastore: Metastore, options: SyncOptions) -> None:
    """Refuse to record statistics of columns in a metastore that has no place for them.

    Raises:
        OptionError: they were asked for.
    """
    if options.hive.column_statistics and not metastore.keeps_statistics:
        raise OptionError(f"{COLUMN_STATISTICS}: {metastore.uri} keeps no statistics; leave it out")


@dataclass(frozen=True)
class _Entry:
    """An entry as it is and as it should be, its partitions by path, and the paths that must stay dropped."""

    maker: HiveEntries
    before: HiveTable | None
    after: HiveTable
    partitions: Mapping[str, HivePartition]
    away: Collection[str] = ()


class _TableSync:
    """One sync of one table."""

    def __init__(
        self, metastore: Metastore, table: Table, options: SyncOptions, entry_format: str, *, dry_run: bool
    ) -> None:
        self._metastore = metastore
        self._table = table
        self._options = options
        self._format = entry_format
        self._dry_run = dry_run
        self._base = table.client.storage.full_uri("")

    def run(self) -> HiveSync:
        schema, names = hive_schema(self._table, self._options), hive_names(self._table, self._options)
        self._check_partition_fields()
        check_statistics_are_kept(self._metastore, self._options)
        registered_entries = [self._metastore.table(schema, name.name) for name in names]
        for before in registered_entries:
            check_owner(before, HIVE, self._base, self._location(None), self._metastore)
        if self._options.locations is None:
            self._options = replace(
                self._options, locations=entries.registered_locations(registered_entries, self._base)
            )
        snapshot = self._newest(registered_entries)
        # everything that may be refused is checked before the first change
        planned = [
            self._plan(before, schema, name, snapshot) for before, name in zip(registered_entries, names, strict=True)
        ]
        changes = schema_changes(self._metastore, schema, may_create=self._options.hive.create_database)
        if changes and not self._dry_run:
            self._metastore.create_schema(schema)
        for entry in planned:
            changes += self._make(entry)
        warnings = deletion_warnings(self._metastore, schema, (entry.after for entry in planned), self._base)
        return HiveSync(schema, tuple(name.name for name in names), snapshot.instant or "", tuple(changes), warnings)

    def _newest(self, registered_entries: list[HiveTable | None]) -> Snapshot:
        """The newest snapshot, no older than what another sync registered, unless commits were rolled back."""
        snapshot = self._table.refresh().snapshot(None, SNAPSHOT)
        seen = [before.parameters.get(entries.INSTANT, "") for before in registered_entries if before is not None]
        if max(seen, default="") > (snapshot.instant or ""):
            snapshot = self._table.refresh().snapshot(None, SNAPSHOT)
        return snapshot

    def _location(self, before: HiveTable | None) -> str:
        """The engine's URI of the table's folder: as configured, else as in the existing entry."""
        if self._options.locations is not None:
            return self._options.locations.to_engine(self._base)
        if before is not None and same_place(before.location, self._base):
            return before.location
        return Locations().to_engine(self._base)

    def _check_partition_fields(self) -> None:
        requested = [field.lower() for field in self._options.hive.partition_fields]
        own = self._table.config.partition_fields
        if requested and requested != [field.lower() for field in own]:
            raise OptionError(
                f"{PARTITION_FIELDS}={','.join(requested)}: {self._table.name} is partitioned by "
                f"{', '.join(own) or 'none'}"
            )

    def _plan(self, before: HiveTable | None, schema: str, name: EntryName, snapshot: Snapshot) -> _Entry:
        location = self._location(before)
        maker = HiveEntries(snapshot, self._base, location, self._format, self._options)
        after = maker.entry(before, schema, name)
        partitions: Mapping[str, HivePartition] = {}
        away: Collection[str] = ()
        if self._format == APACHE:
            entries.check_files_have_columns(snapshot, HIVE_WITHOUT_HANDLER_RULES)
            StoredTypes(HIVE_WITHOUT_HANDLER_RULES).check(snapshot)
            partitions = partitions_of(snapshot, location, _READER, _OTHERWISE)
            check_extractor(self._options.hive.extractor, partitions)
            if partitions:
                after = replace(after, parameters={**after.parameters, **record_of(partitions)})
            if self._options.hive.dropped == KEEP:
                away = self._dropped(before, after, partitions)
                partitions = {path: one for path, one in partitions.items() if path not in away}
        return _Entry(maker, before, after, partitions, away)

    def _dropped(self, before: HiveTable | None, after: HiveTable, partitions: Mapping[str, HivePartition]) -> set[str]:
        """Partitions that the last sync registered and that are gone from the metastore."""
        if before is None or not keeps_partitions(before, after):
            return set()
        once = recorded(before.parameters)
        present = self._metastore.partition_values(before) if once else set()
        return {path for path, one in partitions.items() if path in once and one.values not in present}

    def _make(self, entry: _Entry) -> list[Change]:
        """Update an entry: its partitions and statistics before the commit it is synced to."""
        before, after = entry.before, entry.after
        unmarked = replace(after, parameters=_with_marks(after, before))
        defined_anew = bool(changes_of(before, unmarked))
        measured = after.parameters.get(MEASURED)
        is_measured = before is not None and not defined_anew and measured == before.parameters.get(MEASURED)
        if defined_anew and (after.partition_columns or measured) and not self._dry_run:
            # the metastore may lose the partitions now: only those dropped before count as dropped on purpose
            parameters = {key: value for key, value in unmarked.parameters.items() if not _is_mark(key)}
            parameters |= record_of(entry.away) if entry.away else {}
            before = replace(unmarked, parameters=parameters)
            self._metastore.put_table(before)
        present: Mapping[tuple[str, ...], HivePartition | None]
        if before is not None and keeps_partitions(before, after) and not changes_of(before, after):
            # locations and columns were compared when the entry was synced to this commit
            present = dict.fromkeys(self._metastore.partition_values(before))
        else:
            present = registered(self._metastore, before, after)
        partitions = PartitionChanges(self._metastore, after, list(entry.partitions.values()), present)
        moved = partitions.changes()
        if self._options.hive.conditional and not defined_anew and not moved and _is_marked(entry.before, measured):
            return []
        if not self._dry_run:
            partitions.make()
            if measured and not is_measured:
                self._metastore.put_statistics(after, entry.maker.column_statistics(after, entry.partitions))
            if changes_of(before, after):
                self._metastore.put_table(after)
        return [*changes_of(entry.before, after), *moved]


def _with_marks(after: HiveTable, before: HiveTable | None) -> dict[str, str]:
    """Wanted parameters, except that those recording progress keep their current values."""
    parameters = {key: value for key, value in after.parameters.items() if not _is_mark(key)}
    if before is not None:
        parameters |= {key: value for key, value in before.parameters.items() if _is_mark(key)}
    return parameters


def _is_mark(key: str) -> bool:
    return key in INSTANTS or key.startswith(RECORD_PREFIX)


def _is_marked(entry: HiveTable | None, measured: str | None) -> bool:
    """Whether an entry records the commit it is synced to, with statistics if wanted; not so after an interruption."""
    if entry is None or entries.INSTANT not in entry.parameters:
        return False
    return measured is None or MEASURED in entry.parameters
