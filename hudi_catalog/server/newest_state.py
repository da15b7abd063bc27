"""The newest state of something that is held open for many at once, looked for as often as it must be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from catalog.snapshot.snapshot import Snapshot
from catalog.table import READ_OPTIMIZED, Table

T = TypeVar("T")


class SharedLook(Generic[T]):
    """What a look finds, no older than whoever asks for it: those who wait at once share one look.

    Args:
        look: finds the value.

    Attributes:
        last: what was found last; None before.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self.last: T | None = None
        self._look = look
        self._lock = threading.Lock()
        self._began = float("-inf")

    def get(self, tolerance: float = 0.0) -> T:
        """The value as it was when this was called, or later.

        Args:
            tolerance: seconds before the call from which on a look counts too.

        Raises:
            Exception: what the look raises; who asks next looks again.
        """
        arrived = time.monotonic()
        with self._lock:
            # a look that began after this call did serves it as well as one of its own
            if self.last is None or self._began < arrived - tolerance:
                began = time.monotonic()
                self.last = self._look()
                self._began = began
            return self.last

    def forget(self) -> None:
        """Let the next call look again, whatever its tolerance."""
        self._began = float("-inf")


class NewestState:
    """The newest snapshot of a table.

    Args:
        table: to be held open.
        query_type: see `Table.snapshot`.
    """

    def __init__(self, table: Table, query_type: str) -> None:
        self.table = table
        self.query_type = query_type
        self._shared = SharedLook(lambda: self._look())  # noqa: PLW0108  # looked up when called, for tests

    @property
    def last(self) -> Snapshot | None:
        """The snapshot that was the newest when last looked at; None before."""
        return self._shared.last

    def get(self, tolerance: float = 0.0) -> Snapshot:
        """The newest state, no older than this call, or than so many seconds before it.

        Raises:
            HudiError: the table cannot be read.
        """
        return self._shared.get(tolerance)

    def _look(self) -> Snapshot:
        table = self.table
        if self.query_type != READ_OPTIMIZED or table.config.table_type == "COPY_ON_WRITE":
            return table.refresh().snapshot(None, self.query_type)
        last = self.last
        if last is not None and table.client.timeline().instants == last.timeline.instants:
            return last
        return table.refresh().snapshot(None, self.query_type)
