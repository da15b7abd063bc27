"""File lists that entries point at, and pinned snapshots: lists that are kept for running queries.

A symlink table of Hive reads the files named in text files in its folder, one per line. Each list has a folder of its
own, named by its content, and does not change while in use. Beside the folder, the modification time of `<name>.used`
is the list's last use, and `<name>.dropping` announces its removal.

Several processes may pin and clean up without locks. Since a list is named by its content, all writers agree on it.
A list unused for `retention` is first announced for removal, and removed at least a minute later if still unused. Users
mark a list as used first and then check for an announcement; if there is one, they take another name.

Trino takes a missing folder for one without files, so a late query would see an empty table. A removed list is
therefore first overwritten by one that names a file that never existed, which is an error, and for some days it keeps
failing late readers.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import LruCache
from catalog.slices.slice_set import Rows
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.metastore import entries
from hudi_catalog.metastore.entries import PINNED
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.metastore import HiveTable, Metastore
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import MetastoreError, MissingFileError, ServiceError, UnsupportedTableError
from table_format.storage import Storage

FOLDER: Final = ".hoodie/.catalog"
_NAME: Final = "manifest"
_USED: Final = ".used"
_DROPPING: Final = ".dropping"
_DROPPED: Final = "this-pinned-snapshot-was-dropped"
_LONGEST_REASON: Final = 240


def manifest_of(paths: Any) -> bytes:
    """The text of a list: one path per line, in UTF-8.

    Args:
        paths: an array of strings.

    Raises:
        UnsupportedTableError: a path contains a line break.
    """
    if not len(paths):
        return b""
    nothing: Any = pa.scalar("", pa.large_string())
    line_end = pa.scalar("\n", nothing.type)
    lines = pc.binary_join_element_wise(one_chunk(paths).cast(pa.large_string()), nothing, line_end)
    # Arrow stores the strings contiguously, as a file does its lines
    made = bytes(memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()])
    if made.count(b"\n") != len(paths) or b"\r" in made:
        path = paths.filter(pc.match_substring_regex(paths, "[\r\n]"))[0].as_py()
        raise UnsupportedTableError(f"{path!r}: a path with a line break cannot be listed for an engine")
    return made


@dataclass(frozen=True)
class ListAge:
    """How long ago something became of a list, in seconds; None if there is no mark of it.

    Attributes:
        used: it was marked as used.
        announced: its removal was announced.
    """

    used: float | None = None
    announced: float | None = None


@dataclass(frozen=True)
class ManifestFolder:
    """Folder with the lists of one registered table.

    Attributes:
        storage: of the lists.
        path: of the folder, in that storage.
        engine_uri: the folder as the engine writes it.
    """

    storage: Storage
    path: str
    engine_uri: str

    def location(self, name: str) -> str:
        """A list's folder as the engine writes it."""
        return f"{self.engine_uri}/{name}"

    def name_at(self, location: str) -> str | None:
        """The list at a location; None if it is not in this folder."""
        inside = location.removeprefix(f"{self.engine_uri}/")
        return inside if inside != location and "/" not in inside else None

    def name_for(self, name: str, location: str) -> str:
        """The list at a location if it has the content of that name (see `Pins`); else that name."""
        current = self.name_at(location) or ""
        return current if current == name or current.startswith(f"{name}_") else name

    def write(self, name: str, content: bytes) -> None:
        """Write a list."""
        self.storage.overwrite(f"{self.path}/{name}/{_NAME}", content)

    def exists(self, name: str) -> bool:
        """Whether a list exists."""
        return self.storage.exists(f"{self.path}/{name}/{_NAME}")

    def touch(self, name: str) -> None:
        """Mark a list as used just now."""
        # only the modification time matters, so the file need not survive a crash
        with self.storage.open_output(f"{self.path}/{name}{_USED}") as stream:
            stream.write(b"used")

    def idle(self, name: str) -> float:
        """Seconds since a list's last use or creation; infinite if it does not exist."""
        for path in (f"{self.path}/{name}{_USED}", f"{self.path}/{name}/{_NAME}"):
            entry = self.storage.entry(path)
            if entry is not None:
                return time.time() - entry.mtime_ms / 1000
        return float("inf")

    def announce_removal(self, name: str) -> None:
        """Announce a list's removal."""
        self.storage.overwrite(f"{self.path}/{name}{_DROPPING}", b"")

    def removal_announced(self, name: str) -> float | None:
        """Seconds since a list's removal was announced, None if it was not."""
        entry = self.storage.entry(f"{self.path}/{name}{_DROPPING}")
        return None if entry is None else time.time() - entry.mtime_ms / 1000

    def expire(self, name: str) -> None:
        """Overwrite a list so that its readers fail."""
        self.write(name, self.failing(name, _DROPPED))
        self.storage.delete(f"{self.path}/{name}{_USED}")

    def expired(self, name: str) -> bool:
        """Whether a list fails its readers or does not exist."""
        line = self.failing(name, _DROPPED)
        try:
            return self.storage.read_range(f"{self.path}/{name}/{_NAME}", 0, len(line)) == line
        except MissingFileError:
            return True

    def failing(self, name: str, reason: str) -> bytes:
        """The content of a list that fails its readers; Trino's message shows the path, which contains the reason."""
        words = " ".join(reason.replace("/", " ").split())
        return f"{self.location(name)}/{words[:_LONGEST_REASON]}\n".encode()

    def delete(self, name: str) -> None:
        """Delete a list, its announcement last."""
        self.storage.delete_dir(f"{self.path}/{name}")
        self.storage.delete(f"{self.path}/{name}{_USED}")
        self.storage.delete(f"{self.path}/{name}{_DROPPING}")

    def names(self) -> list[str]:
        """Names of all lists, complete or not."""
        return sorted(self.ages())

    def ages(self) -> dict[str, ListAge]:
        """All lists, complete or not, by one listing."""
        now = time.time()
        ages: dict[str, ListAge] = {}
        for entry in self.storage.list(self.path):
            name = entry.name if entry.is_dir else entry.name.removesuffix(_USED).removesuffix(_DROPPING)
            age = ages.get(name, ListAge())
            if not entry.is_dir and entry.name != name:
                seconds = now - entry.mtime_ms / 1000
                used = entry.name.endswith(_USED)
                age = replace(age, used=seconds) if used else replace(age, announced=seconds)
            ages[name] = age
        return ages


def paths_of(root: str, snapshot: Snapshot, rows: Rows | None = None) -> Any:
    """URIs of base files as an engine writes them.

    Args:
        root: the table's folder.
        snapshot: of the table.
        rows: positions of file slices; None for all live ones.

    Returns:
        An array of strings.

    Raises:
        ServiceError: log files change the base files, so these alone are not the table.
    """
    at = snapshot.live_rows if rows is None else rows
    if snapshot.has_logs[at].any():
        raise ServiceError(f"{snapshot.config.name}: logs change its files, so they cannot be read by themselves")
    paths = one_chunk(snapshot.take_files(at).column("path"))
    return pc.binary_join_element_wise(pa.scalar(root), paths, "/")


def list_name(root: str, snapshot: Snapshot, rows: Rows | None = None) -> str:
    """The name of a file list: a digest of everything that an entry made from it depends on.

    The instant alone is not enough: a commit that began earlier may complete later.

    Raises:
        ServiceError: as for `paths_of`.
        UnsupportedTableError: a path cannot be listed.
    """
    digest = hashlib.blake2b(snapshot.schema.serialize().to_pybytes(), digest_size=8)
    digest.update(manifest_of(paths_of(root, snapshot, rows)))
    return f"{snapshot.instant or 0}__{digest.hexdigest()}"


def manifest_folder(
    entry: HiveTable, table: Storage, locations: Locations, storage_options: Mapping[str, Any] | None = None
) -> ManifestFolder:
    """Folder of an entry's lists: inside the table, or where the entry says.

    Args:
        entry: of the table.
        table: its storage.
        locations: mapping to the engine's URIs.
        storage_options: keyword arguments for the `pyarrow.fs` file system, if the lists are outside the table.

    Raises:
        MetastoreError: the entry has no valid id.
    """
    number = entries.entry_id(entry)
    if number is None:
        raise MetastoreError(
            f"{entry.schema}.{entry.name}: {entries.ENTRY_ID} is missing or malformed; sync the table again"
        )
    elsewhere = entry.parameters.get(entries.MANIFESTS)
    storage = Storage(elsewhere, storage_options) if elsewhere else table
    path = number if elsewhere else f"{FOLDER}/{number}"
    return ManifestFolder(storage, path, f"{locations.to_engine(storage.full_uri(''))}/{path}")


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
        retention: seconds that one is kept after its last use.
        grace: seconds between the announcement of a removal and the removal.
        remembered: seconds that a removed list keeps failing its readers before it is deleted.
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
        self._known: LruCache[_Key, tuple[float, str]] = LruCache(_MOST_KNOWN)
        self._schemas: set[str] = set()
        self._cleaned: dict[str, float] = {}
        self._expired: LruCache[_Key, bool] = LruCache(_MOST_KNOWN)

    def keep(
        self, folder: ManifestFolder, name: str, content: Callable[[], bytes], entry: Callable[[str], HiveTable] | None
    ) -> str:
        """Ensure that a file list, and the entry pointing at it, exist and are kept for a while.

        Args:
            folder: of the list.
            name: of the list, by its content.
            content: makes the list.
            entry: makes the entry for a list's name; None for a list without an entry.

        Returns:
            The name under which the list is kept.
        """
        key = (folder.engine_uri, name if entry is None else f"{name}/entry")
        with self._one_at_a_time(key):
            known = self._known.get(key)
            if known is not None and time.monotonic() - known[0] < self._trust:
                return known[1]
            kept_name = name if known is None else known[1]
            while True:
                self._make(folder, kept_name, content, entry)
                if folder.idle(kept_name) > self._retention / 4 or known is None:
                    folder.touch(kept_name)
                if folder.removal_announced(kept_name) is not None:
                    kept_name = f"{name}_{uuid.uuid4().hex[:8]}"
                elif folder.exists(kept_name):  # unless it was removed just now
                    break
            self._known.put(key, (time.monotonic(), kept_name))
            return kept_name

    def _make(
        self, folder: ManifestFolder, name: str, content: Callable[[], bytes], entry: Callable[[str], HiveTable] | None
    ) -> None:
        if not folder.exists(name):
            folder.write(name, content())
        if entry is None:
            return
        wanted = entry(name)
        existing = self._metastore.table(wanted.schema, wanted.name)
        if existing is None or existing.location != wanted.location:
            if wanted.schema not in self._schemas:
                self._metastore.create_schema(wanted.schema)
            try:
                self._metastore.put_table(wanted)
            except MetastoreError:
                self._schemas.discard(wanted.schema)  # it may have been dropped
                raise
            self._schemas.add(wanted.schema)

    def is_due(self, folder: ManifestFolder) -> bool:
        """Whether to run `clean` now; True at most once a minute per folder."""
        with self._lock:
            now = time.monotonic()
            due = now - self._cleaned.get(folder.engine_uri, float("-inf")) >= _CLEAN_EVERY
            if due:
                self._cleaned[folder.engine_uri] = now
            return due

    def clean(self, folder: ManifestFolder, pointed_at: Callable[[], str], pin_name: Callable[[str], _Key]) -> int:
        """Remove lists that are no longer used.

        Args:
            folder: of the lists of one registered table.
            pointed_at: returns the current location of the registered table's entry.
            pin_name: schema and name of the entry for a list.

        Returns:
            Number of lists removed.
        """
        dropped = 0
        ages = folder.ages()
        current = folder.name_at(pointed_at()) if ages else None
        for name, age in sorted(ages.items()):
            if age.used is not None and age.used < self._retention:
                continue
            if age.announced is not None and self._is_expired(folder, name):
                if age.announced >= self._remembered:
                    folder.delete(name)
                continue
            # without a mark the list's own age counts, which the listing does not give
            if name == current or (age.used is None and folder.idle(name) < self._retention):
                continue
            if age.announced is None:
                folder.announce_removal(name)
            elif age.announced >= self._grace and folder.name_at(pointed_at()) != name:
                self._drop(folder, name, pin_name(name))
                dropped += 1
        return dropped

    def _is_expired(self, folder: ManifestFolder, name: str) -> bool:
        """Whether a list whose removal was announced fails its readers, as it does from then on until it is deleted."""
        key = (folder.engine_uri, name)
        known = self._expired.get(key) is not None or folder.expired(name)
        if known:
            self._expired.put(key, True)
        return known

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
