"""A table that is held open: its newest state, past states, its history."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog.history import HistoryEntry, history_of
from catalog.scan import Scan
from catalog.slices.time_travel import instant_as_of
from catalog.snapshots.incremental import InstantRange, instant_range
from catalog.snapshots.refresh import refreshed
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.column_index import DEFAULT_MEMORY
from pushdown.expression import HudiExpression
from pushdown.sql import parse_sql
from table_format.config.option_values import known_options, whole_number
from table_format.config.table_config import TableConfig
from table_format.errors import OptionError
from table_format.storage import Storage
from table_format.table.client import TableClient

STATISTICS_MEMORY = "hoodie.catalog.statistics.memory"
KEYS = (STATISTICS_MEMORY,)
SNAPSHOT, READ_OPTIMIZED = "snapshot", "read_optimized"
QUERY_TYPES = (SNAPSHOT, READ_OPTIMIZED)


@dataclass(frozen=True)
class TableOptions:
    """Options of a table that is held open.

    Attributes:
        statistics_memory: bytes of column statistics that are kept for the scans to come; the columns that were used
            least recently make room. `hoodie.catalog.statistics.memory`.
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
    """A Hudi table.

    It stays at the state in which it was opened until `refresh`; statistics that one scan loaded serve the next.
    Threads may share it.
    """

    def __init__(self, client: TableClient, options: TableOptions | None = None) -> None:
        self.client = client
        self._limit = (options or TableOptions()).statistics_memory
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
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

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.client.storage.uri!r})"

    @property
    def name(self) -> str:
        """As in `hoodie.properties`."""
        return self.client.config.name

    @property
    def config(self) -> TableConfig:
        """What `hoodie.properties` say."""
        return self.client.config

    @property
    def schema(self) -> pa.Schema:
        """All columns, Hudi's meta columns first."""
        return self.snapshot().schema

    def snapshot(self, as_of: str | None = None, query_type: str = SNAPSHOT) -> Snapshot:
        """The table's state now, or at an earlier time.

        Args:
            as_of: an instant, or an ISO 8601 time in the table's time zone.
            query_type: `snapshot`, or `read_optimized` for base files alone.

        Raises:
            OptionError: the text is no time, the state of that time is gone, or there is no such query type.
        """
        if query_type not in QUERY_TYPES:
            raise OptionError(f"query type {query_type!r}: use {' or '.join(QUERY_TYPES)}")
        base_only = query_type == READ_OPTIMIZED and self.config.table_type != "COPY_ON_WRITE"
        with self._lock:
            if as_of is None and not base_only:
                if self._snapshot is None:
                    self._snapshot = Snapshot(self.client, self.client.timeline(), statistics_limit=self._limit)
                return self._snapshot
            timeline = self._snapshot.timeline if self._snapshot else self.client.timeline()
            instant = None if as_of is None else instant_as_of(as_of, timeline, self.config.timeline_timezone)
            key = (instant, base_only)
            if self._older is None or self._older[0] != key:
                limit = self._limit
                older = Snapshot(self.client, timeline, instant, read_optimized=base_only, statistics_limit=limit)
                self._older = (key, older)
            return self._older[1]

    def refresh(self) -> Table:
        """Load the commits since the last call; returns the table itself.

        Of a snapshot that is held, only what new commits changed is read, and its statistics are kept. A scan that was
        made before goes on seeing the state of then.
        """
        with self._lock:
            self.client.reload()
            self._older = None
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
                stand then; see `catalog.snapshots.incremental.instant_range`.
            query_type: `snapshot`, or `read_optimized` for base files without the log files that changed them since.
            options: see `catalog.snapshots.scan_options.ScanOptions`.
            case_sensitive: whether columns of the filter that differ in case are different ones.
            time_zone: of the filter's dates and clock times where they meet instants.

        Raises:
            ExpressionError: the filter or a column name is not understood.
            OptionError: a time or an option cannot be used, or these are not used together.
            PendingWriteError: a write of the incremental range is pending.
        """
        parsed = ScanOptions.parse(options)
        instants = None
        if incremental is None:
            snapshot = self.snapshot(as_of, query_type)
        else:
            if as_of is not None or query_type != SNAPSHOT:
                raise OptionError("incremental cannot be combined with as_of or with query type read_optimized")
            instants, snapshot = self._state_of_range(*incremental, end_at_holes=parsed.end_at_holes)
        return Scan(
            snapshot=snapshot.with_block_size(parsed.block_size),
            filter=parse_sql(filter) if isinstance(filter, str) else filter,
            columns=None if columns is None else tuple(columns),
            options=parsed,
            instants=instants,
            case_sensitive=case_sensitive,
            time_zone=time_zone,
        )

    def _state_of_range(self, begin: str, end: str | None, *, end_at_holes: bool) -> tuple[InstantRange, Snapshot]:
        """The range, and the table's state at its end."""
        newest = self.snapshot()
        instants = instant_range(begin, end, self.client, newest.timeline, end_at_holes=end_at_holes)
        if instants.timeline is newest.timeline:
            return instants, newest if instants.as_of is None else self.snapshot(instants.as_of)
        return instants, Snapshot(self.client, instants.timeline, listing=newest.timeline, statistics_limit=self._limit)

    def history(self) -> list[HistoryEntry]:
        """Commits, cleans and rollbacks, oldest first, as far back as the active timeline goes."""
        return history_of(self.client.timeline())
