"""Heartbeats: a file that a live writer touches now and then, so that others do not take it for dead."""

from __future__ import annotations

import threading
import time
from typing import Final

from table_format.errors import StorageError
from table_format.storage import Storage

FOLDER: Final = ".hoodie/.heartbeat"


class Heartbeat:
    """Shows that the writer of an instant lives, from `start` to `stop`.

    Args:
        storage: rooted at the table's base folder.
        instant: the write's.
        interval_ms: milliseconds between two beats.
    """

    def __init__(self, storage: Storage, instant: str, interval_ms: int) -> None:
        self._storage = storage
        self._path = f"{FOLDER}/{instant}"
        self._interval = interval_ms / 1000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{instant}", daemon=True)

    def start(self) -> None:
        """Write the file and keep it young."""
        self._storage.overwrite(self._path, b"")
        self._thread.start()

    def silence(self) -> None:
        """End the beat and leave the file to grow old."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def stop(self) -> None:
        """End the beat and delete the file."""
        self.silence()
        self._storage.delete(self._path)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self._storage.overwrite(self._path, b"")
            except StorageError:
                continue  # the next beat may do; others wait for several missed ones


def is_expired(storage: Storage, instant: str, interval_ms: int, misses: int) -> bool:
    """Whether a writer counts as dead: it has no heartbeat file, or missed too many beats."""
    entry = storage.entry(f"{FOLDER}/{instant}")
    return entry is None or time.time() * 1000 - entry.mtime_ms > interval_ms * misses


def heartbeats(storage: Storage) -> list[str]:
    """Instants that have a heartbeat file."""
    return [entry.name for entry in storage.list(FOLDER) if not entry.is_dir and entry.name.isdigit()]


def delete_heartbeat(storage: Storage, instant: str) -> None:
    """Drop the file of a writer that is gone."""
    storage.delete(f"{FOLDER}/{instant}")
