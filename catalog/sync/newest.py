"""A table that is held open for many at once, brought up to date as often as it must be."""

from __future__ import annotations

import threading

from catalog.snapshot import Snapshot
from catalog.sync.stored_types import StoredTypes
from catalog.table import READ_OPTIMIZED, Table


class NewestSnapshot:
    """The newest snapshot of a table.

    Args:
        table: to be held open.
        query_type: see `Table.snapshot`.

    Attributes:
        types: what is known of the columns of the table's files.
        last: the snapshot that was the newest when last looked at; None before.
    """

    def __init__(self, table: Table, query_type: str) -> None:
        self.table = table
        self.query_type = query_type
        self.types = StoredTypes()
        self._lock = threading.Lock()
        self._begun = 0
        self._good = 0
        self.last: Snapshot | None = None

    def get(self) -> Snapshot:
        """The newest state, no older than this call; those who wait at once share one look at the table.

        Raises:
            HudiError: the table cannot be read.
        """
        seen = self._begun
        with self._lock:
            # one that began after this call did may have been all that was waited for
            if self.last is None or self._good <= seen:
                self._begun += 1
                self.last = self._look()
                self._good = self._begun
            return self.last

    def _look(self) -> Snapshot:
        table = self.table
        if self.query_type != READ_OPTIMIZED or table.config.table_type == "COPY_ON_WRITE":
            return table.refresh().snapshot(None, self.query_type)
        last = self.last
        if last is not None and table.client.timeline().instants == last.timeline.instants:
            return last
        return table.refresh().snapshot(None, self.query_type)
