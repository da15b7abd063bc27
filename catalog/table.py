"""A table that is held open: scans of its newest and past states, refresh, history."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog.concurrency.caches import LruCache
from catalog.history import HistoryEntry, history_of
from catalog.narrow import PinnedTable
from catalog.scan import Scan
from catalog.slices.time_travel import instant_as_of, timeline_as_of
from catalog.snapshots.incremental import InstantRange, instant_range
from catalog.snapshots.refresh import refreshed
from catalog.snapshots.scan_options import SAMPLE, ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.column_index import DEFAULT_MEMORY
from pushdown.binding.bind import bind
from pushdown.expression import HudiExpression
from pushdown.simplify import simplify
from pushdown.sql import parse_sql
from table_format.config.option_values import known_options, whole_number
from table_format.config.table_config import TableConfig
from table_format.errors import ArgumentError, CorruptFileError, MissingFileError, OptionError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_format.timeline.whole import with_archive

STATISTICS_MEMORY = "hoodie.catalog.statistics.memory"
KEYS = (STATISTICS_MEMORY,)
SNAPSHOT, READ_OPTIMIZED = "snapshot", "read_optimized"
QUERY_TYPES = (SNAPSHOT, READ_OPTIMIZED)
_NARROW_SNAPSHOTS = 8


@dataclass(frozen=True)
class TableOptions:
    """Options of a table that is held open.

    Attributes:
        statistics_memory: bytes of column statistics that are cached for later scans; the least recently used columns
            are evicted. `hoodie.catalog.statistics.memory`.
    """

    statistics_memory: int = DEFAULT_MEMORY

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> TableOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, KEYS, "a table")
        return cls(whole_number(values, STATISTICS_MEMORY, cls.statistics_memory, 0))


class Table:
    """A Hudi table, opened for reading by `Table.open` or `Catalog.load`. Threads may share it.

    It stays at the state of its first use until `refresh`; statistics that one scan loaded serve the next.

    ::

        table = Table.open("/data/trips")
        scan = table.scan("day >= DATE '2024-05-01' AND city = 'Bern'", ["city", "fare"])
        print(len(scan.plan()), scan.count())
        rows = scan.to_arrow()

    Args:
        client: of the table.
        options: of the table.
        bucket_options: options of each scan that does not give them, in a table whose `hoodie.properties` do not say
            how many buckets it has: those of `BUCKET_KEYS`.
    """

    def __init__(
        self,
        client: TableClient,
        options: TableOptions | None = None,
        *,
        bucket_options: Mapping[str, str] | None = None,
    ) -> None:
        self.client = client
        self._limit = (options or TableOptions()).statistics_memory
        self._bucket_options = bucket_options or {}
        self._begin()

    def _begin(self) -> None:
        """Hold no state yet: the first use decides it."""
        self._lock = threading.Lock()
        self._pinned: PinnedTable | None = None
        self._snapshot: Snapshot | None = None
        self._narrow: LruCache[tuple[str, ...], Snapshot] = LruCache(_NARROW_SNAPSHOTS)
        self._older: tuple[tuple[str | None, bool], Snapshot] | None = None

    @classmethod
    def open(
        cls,
        uri: str | Storage,
        storage_options: Mapping[str, Any] | None = None,
        *,
        options: Mapping[str, str] | None = None,
    ) -> Table:
        """Open the table in a folder.

        Args:
            uri: path or URI of the table's folder, or its storage.
            storage_options: keyword arguments for the `pyarrow.fs` file system of a path or URI.
            options: see `catalog.table.TableOptions`.

        Raises:
            OptionError: an option is unknown, or its value does not fit it.
            TableNotFoundError: there is no Hudi table.
            UnsupportedTableError: it is of a version or kind that is not read.
        """
        parsed = TableOptions.parse(options)
        return cls(TableClient.open(uri, storage_options), parsed)

    def __getstate__(self) -> dict[str, Any]:
        # a copy, as in another process, is at the table's newest state when it is first used
        fresh = object.__new__(type(self))
        fresh._begin()
        return {name: value for name, value in vars(self).items() if name not in vars(fresh)}

    def __setstate__(self, values: dict[str, Any]) -> None:
        vars(self).update(values)
        self._begin()

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.client.storage.uri!r})"

    @property
    def name(self) -> str:
        """The table's name in `hoodie.properties`."""
        return self.client.config.name

    @property
    def config(self) -> TableConfig:
        """The table's properties, those of `hoodie.properties`."""
        return self.client.config

    @property
    def schema(self) -> pa.Schema:
        """All columns, Hudi's meta columns first."""
        return self.snapshot().schema

    def snapshot(self, as_of: str | None = None, query_type: str = SNAPSHOT) -> Snapshot:
        """The table's state now, or at an earlier time.

        Args:
            as_of: an instant (`yyyyMMddHHmmss[SSS]`), or an ISO 8601 time in the table's time zone.
            query_type: `snapshot`, or `read_optimized` for base files alone.

        Raises:
            OptionError: the text is not a time, the state of that time is gone, or there is no such query type.
            UnsupportedTableError: the table is of a kind that is not read.
        """
        _refuse_time(as_of)
        if query_type not in QUERY_TYPES:
            raise OptionError(f"query type {query_type!r}: use {' or '.join(QUERY_TYPES)}")
        base_only = query_type == READ_OPTIMIZED and self.config.table_type != "COPY_ON_WRITE"
        with self._lock:
            if as_of is None and not base_only:
                if self._snapshot is None:
                    self._snapshot = self._listed()
                    self._narrow = LruCache(_NARROW_SNAPSHOTS)
                return self._snapshot
            timeline = self._snapshot.timeline if self._snapshot else self.client.timeline()
            instant = None if as_of is None else instant_as_of(as_of, timeline, self.config.timeline_timezone)
            key = (instant, base_only)
            if self._older is None or self._older[0] != key:
                older = self._past(timeline, instant, base_only=base_only)
                self._older = (key, older)
            return self._older[1]

    def _past(self, timeline: Timeline, instant: str | None, *, base_only: bool = False) -> Snapshot:
        then = timeline if instant is None else timeline_as_of(instant, timeline)
        return Snapshot(
            self.client,
            then,
            instant,
            read_optimized=base_only,
            listing=None if then is timeline else timeline,
            statistics_limit=self._limit,
        )

    def refresh(self) -> Table:
        """Bring the table to its newest state; returns the table itself.

        If it was used before, only what later commits changed is read, and cached statistics stay. Scans that were made
        before keep their state.

        Raises:
            TableNotFoundError: the table was deleted.
        """
        with self._lock:
            self.client.reload()
            self._older = self._pinned = None
            self._narrow = LruCache(_NARROW_SNAPSHOTS)
            if self._snapshot is not None:
                self._snapshot = refreshed(self._snapshot, self.client)
        return self

    def scan(
        self,
        filter: str | HudiExpression | None = None,  # noqa: A002  # the name that readers know from PyIceberg
        columns: Iterable[str] | None = None,
        *,
        as_of: str | None = None,
        incremental: tuple[str, str | None] | None = None,
        query_type: str = SNAPSHOT,
        sample: str | None = None,
        options: Mapping[str, str] | None = None,
        case_sensitive: bool = False,
        time_zone: str = "UTC",
    ) -> Scan:
        """Describe a query; nothing is read yet.

        Args:
            filter: SQL text of a condition, or an expression made with `pushdown.col`.
            columns: names of the columns wanted; all when None.
            as_of: an instant or a time, see `snapshot`.
            incremental: only rows that were written after the first time and up to the second (None for now), as they
                were then; see `catalog.snapshots.incremental.instant_range`.
            query_type: `snapshot`, or `read_optimized` for base files without the log files that changed them since.
            sample: whole buckets of a bucketed table, `"3/64"` for 3 of every 64; see
                `catalog.snapshots.scan_options.Sample`. Planning raises an OptionError where the table's buckets do not
                give it.
            options: see `catalog.snapshots.scan_options.ScanOptions`.
            case_sensitive: whether columns of the filter that differ in case are different ones.
            time_zone: of the filter's dates and clock times where they are compared with instants.

        Raises:
            ExpressionError: the filter does not parse, does not fit the columns, or a column does not exist.
            OptionError: a time or an option cannot be used, or is combined with one that excludes it.
            PendingWriteError: a write of the incremental range is pending.
            UnsupportedTableError: an incremental query of a table whose rows have no commit time.
        """
        _refuse_arguments(filter, columns, as_of, incremental, options)
        sampled = {} if sample is None else {SAMPLE: sample}
        known = {} if self.config.bucket_count is not None else self._bucket_options
        parsed = ScanOptions.parse({**known, **(options or {}), **sampled})
        condition = parse_sql(filter) if isinstance(filter, str) else filter
        instants = None
        if incremental is None:
            newest = as_of is None and query_type == SNAPSHOT
            few = self._few_partitions(condition, case_sensitive, time_zone) if newest else None
            snapshot = few or self.snapshot(as_of, query_type)
        else:
            if as_of is not None or query_type != SNAPSHOT:
                raise OptionError("incremental cannot be combined with as_of or with query type read_optimized")
            instants, snapshot = self._state_of_range(*incremental, end_at_holes=parsed.end_at_holes)
        return Scan(
            snapshot=snapshot.with_block_size(parsed.block_size),
            filter=condition,
            columns=None if columns is None else tuple(columns),
            options=parsed,
            instants=instants,
            case_sensitive=case_sensitive,
            time_zone=time_zone,
        )

    def _few_partitions(
        self,
        condition: HudiExpression | None,
        case_sensitive: bool,
        time_zone: str,  # as of `scan`
    ) -> Snapshot | None:
        """A snapshot of the few partitions that a filter leaves; None if the whole is held or wanted."""
        with self._lock:
            if condition is None or self._snapshot is not None:
                return None
            if self._pinned is None:
                self._pinned = PinnedTable.of(self.client)
            pinned = self._pinned
            bound = simplify(bind(condition, pinned.schema, case_sensitive=case_sensitive, time_zone=time_zone))
            partitions = pinned.partitions_for(bound)
            if partitions is None:
                return None
            snapshot = self._narrow.get(partitions)
            if snapshot is None:
                snapshot = pinned.snapshot(self._limit, partitions, self.snapshot)
                self._narrow.put(partitions, snapshot)
            return snapshot

    def _listed(self) -> Snapshot:
        """The snapshot of all files, of the state that earlier scans saw."""
        if self._pinned is None:
            return Snapshot(self.client, self.client.timeline(), statistics_limit=self._limit)
        try:
            return self._pinned.snapshot(self._limit)
        except (CorruptFileError, MissingFileError) as error:
            raise MissingFileError(
                f"{self.client.storage.uri}: the table's state at the first scan, which listed few partitions, can no "
                f"longer be listed; refresh the table ({error})"
            ) from error

    def _state_of_range(self, begin: str, end: str | None, *, end_at_holes: bool) -> tuple[InstantRange, Snapshot]:
        """The range, and the table's state at its end."""
        newest = self.snapshot()
        instants = instant_range(begin, end, self.client, newest.timeline, end_at_holes=end_at_holes)
        if instants.timeline is newest.timeline:
            return instants, newest if instants.as_of is None else self.snapshot(instants.as_of)
        limit, then = self._limit, instants.timeline
        return instants, Snapshot(self.client, then, instants.as_of, listing=newest.timeline, statistics_limit=limit)

    def history(self, *, archived: bool = True) -> list[HistoryEntry]:
        """Commits, cleans and rollbacks, oldest first.

        Args:
            archived: whether to begin with what is archived; without it the history goes back as far as the active
                timeline, which is quicker to read.

        Raises:
            CorruptFileError: the archive is damaged.
        """
        timeline = self.client.timeline()
        return history_of(with_archive(timeline) if archived else timeline)


def _refuse_arguments(condition: Any, columns: Any, as_of: Any, incremental: Any, options: Any) -> None:
    """Refuse arguments of other types than a scan's."""
    if not (condition is None or isinstance(condition, (str, HudiExpression))):
        raise ArgumentError(
            f'filter={condition!r}: give SQL text such as "id = 1", or an expression such as '
            'col("id") == 1 (of a boolean column col("flag") == True)'
        )
    if isinstance(columns, str):
        raise ArgumentError(f"columns={columns!r}: give a list of names, such as [{columns!r}]")
    if columns is not None and not isinstance(columns, Iterable):
        raise ArgumentError(f"columns={columns!r}: give a list of names, such as ['id']")
    _refuse_time(as_of)
    times = incremental if isinstance(incremental, (tuple, list)) and len(incremental) == 2 else (incremental,)
    if incremental is not None and not (
        len(times) == 2 and isinstance(times[0], str) and isinstance(times[1], (str, type(None)))
    ):
        raise ArgumentError(f"incremental={incremental!r}: give two times, such as ('earliest', None)")
    if not (options is None or isinstance(options, Mapping)):
        raise ArgumentError(f"options are a dict from keys to values, not {options!r}")


def _refuse_time(as_of: Any) -> None:
    if not (as_of is None or isinstance(as_of, str)):
        raise ArgumentError(f"as_of={as_of!r}: give an instant or a time as text, such as '2026-01-31 12:00:00'")
