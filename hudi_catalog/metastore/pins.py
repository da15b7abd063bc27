"""Snapshots that are kept for queries: an entry of a metastore for each, and when they go.

Several processes may pin and clean up at once, without a lock between them. A list of files is named by its content,
so whoever writes it writes the same. One that nobody used for the time of `retention` is announced to go first, and
goes a minute later at the earliest, if it still was not used by then; whoever wants to use it says so first and looks
for an announcement after, and takes another name if there is one. For some days a list that is gone still tells late
readers so.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from hudi_catalog.metastore.entries import PINNED
from hudi_catalog.metastore.manifests import ManifestFolder
from hudi_catalog.metastore.metastore import HiveTable, Metastore
from hudi_catalog.server.recent import Recent
from table_format.errors import MetastoreError

GRACE: Final = 60.0
REMEMBERED: Final = 7 * 86400.0
_TRUST: Final = 60.0
_MOST_KNOWN: Final = 10_000
_CLEAN_EVERY: Final = 60.0

_Key = tuple[str, str]


class Pins:
    """The pinned snapshots of a metastore.

    Args:
        metastore: with the entries.
        retention: seconds for which one outlives its last use.
        grace: seconds between the announcement that one goes, and that.
        remembered: seconds for which the list of one that is gone fails its readers, before nothing is left.
    """

    def __init__(
        self, metastore: Metastore, retention: float, *, grace: float = GRACE, remembered: float = REMEMBERED
    ) -> None:
        self._metastore = metastore
        self._retention = retention
        self._grace = grace
        self._remembered = remembered
        self._trust = min(_TRUST, retention / 4)
        self._lock = threading.Lock()
        self._busy: dict[_Key, threading.Lock] = {}
        self._known: Recent[tuple[float, str]] = Recent(_MOST_KNOWN)
        self._schemas: set[str] = set()
        self._cleaned: dict[str, float] = {}

    def keep(
        self, folder: ManifestFolder, name: str, content: Callable[[], bytes], entry: Callable[[str], HiveTable] | None
    ) -> str:
        """Make sure that a list of files, and the entry that points at it, are there and stay for a while.

        Args:
            folder: of the list.
            name: of the list, by its content.
            content: makes the list.
            entry: makes the entry for the name of a list; None for a list alone.

        Returns:
            The name under which the list is kept.
        """
        key = (folder.spelled, name if entry is None else f"{name}/entry")
        with self._one_at_a_time(key):
            known = self._known.get(key)
            if known is not None and time.monotonic() - known[0] < self._trust:
                return known[1]
            kept = name if known is None else known[1]
            while True:
                self._make(folder, kept, content, entry)
                if folder.idle(kept) > self._retention / 4 or known is None:
                    folder.touch(kept)
                if folder.doomed(kept) is not None:
                    kept = f"{name}_{uuid.uuid4().hex[:8]}"
                elif folder.exists(kept):  # not so when the last of it went away just now
                    break
            self._known.put(key, (time.monotonic(), kept))
            return kept

    def _make(
        self, folder: ManifestFolder, name: str, content: Callable[[], bytes], entry: Callable[[str], HiveTable] | None
    ) -> None:
        if not folder.exists(name):
            folder.write(name, content())
        if entry is None:
            return
        wanted = entry(name)
        found = self._metastore.table(wanted.schema, wanted.name)
        if found is None or found.location != wanted.location:
            if wanted.schema not in self._schemas:
                self._metastore.create_schema(wanted.schema)
            try:
                self._metastore.put_table(wanted)
            except MetastoreError:
                self._schemas.discard(wanted.schema)  # somebody may have dropped it
                raise
            self._schemas.add(wanted.schema)

    def is_due(self, folder: ManifestFolder) -> bool:
        """Whether it is time for `clean`; True at most once a minute."""
        with self._lock:
            now = time.monotonic()
            due = now - self._cleaned.get(folder.spelled, float("-inf")) >= _CLEAN_EVERY
            if due:
                self._cleaned[folder.spelled] = now
            return due

    def clean(self, folder: ManifestFolder, pointed_at: Callable[[], str], pin_name: Callable[[str], _Key]) -> int:
        """Take away what was not used for long.

        Args:
            folder: of the lists of one registered table.
            pointed_at: tells the location of the registered table's entry, as it is now.
            pin_name: schema and name of the entry for a list.

        Returns:
            How many were taken away.
        """
        gone = 0
        for name in folder.names():
            announced = folder.doomed(name)
            if announced is not None and folder.expired(name):
                if announced >= self._remembered:
                    folder.delete(name)
                continue
            if folder.idle(name) < self._retention or folder.name_at(pointed_at()) == name:
                continue
            if announced is None:
                folder.doom(name)
            elif announced >= self._grace:
                self._drop(folder, name, pin_name(name))
                gone += 1
        return gone

    def _drop(self, folder: ManifestFolder, name: str, pin: _Key) -> None:
        entry = self._metastore.table(*pin)
        if entry is not None and PINNED in entry.parameters and entry.location == folder.location(name):
            self._metastore.drop_table(*pin)
        folder.expire(name)

    def _one_at_a_time(self, key: _Key) -> threading.Lock:
        with self._lock:
            if len(self._busy) > _MOST_KNOWN:
                self._busy = {other: lock for other, lock in self._busy.items() if lock.locked()}
            return self._busy.setdefault(key, threading.Lock())
