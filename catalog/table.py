"""A table that is held open: its newest state, older ones, its history."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from catalog.history import HistoryEntry, history_of
from catalog.scan import Scan, make_scan
from catalog.snapshot import Snapshot
from catalog.time_travel import instant_as_of
from pushdown.expression import HudiExpression
from table_format.meta_client import TableClient
from table_format.table_config import TableConfig


class Table:
    """A Hudi table.

    It stays at the state in which it was opened until `refresh`; statistics that one scan loaded serve the next.
    Threads may share it.
    """

    def __init__(self, client: TableClient) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._older: tuple[str, Snapshot] | None = None

    @classmethod
    def open(cls, uri: str, storage_options: Mapping[str, Any] | None = None) -> Table:
        """Open the table in a folder.

        Args:
            uri: path or URI of the table's folder.
            storage_options: keyword arguments for the `pyarrow.fs` file system.

        Raises:
            TableNotFoundError: there is no Hudi table.
            UnsupportedTableError: it is of a version or kind that is not read.
        """
        return cls(TableClient.open(uri, storage_options))

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

    def snapshot(self, as_of: str | None = None) -> Snapshot:
        """The table's state now, or at an earlier time.

        Args:
            as_of: an instant, or an ISO 8601 time in the table's time zone.

        Raises:
            OptionError: the text is no time, or the state of that time is gone.
        """
        with self._lock:
            if as_of is None:
                if self._snapshot is None:
                    self._snapshot = Snapshot(self.client, self.client.timeline())
                return self._snapshot
            timeline = self._snapshot.timeline if self._snapshot else self.client.timeline()
            instant = instant_as_of(as_of, timeline, self.config.timeline_timezone)
            if self._older is None or self._older[0] != instant:
                self._older = (instant, Snapshot(self.client, timeline, instant))
            return self._older[1]

    def refresh(self) -> Table:
        """Take in what was committed since; returns the table itself."""
        with self._lock:
            self.client.reload()
            self._snapshot = self._older = None
        return self

    def scan(
        self,
        filter: str | HudiExpression | None = None,  # noqa: A002  # the name that readers know from PyIceberg
        columns: Iterable[str] | None = None,
        *,
        as_of: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Ask for rows.

        Args:
            filter: SQL text of a condition, or an expression made with `pushdown.col`.
            columns: names of the columns wanted; all when None.
            as_of: an instant or a time, see `snapshot`.
            options: see `catalog.scan_options.ScanOptions`.

        Raises:
            ExpressionError: the filter or a column name is not understood.
        """
        return make_scan(self.snapshot(as_of), filter, columns, options)

    def history(self) -> list[HistoryEntry]:
        """What was done to the table, oldest first, as far back as its active timeline goes."""
        return history_of(self.client.timeline())
