"""Where copies of file slices lie: which are there, which one makes, and when they go.

They lie inside the table's folder, for the storage handler reads no others. A file `<slice>.<number>.parquet` is
complete from the start and never changes, because splits were cut by its row groups; who makes one takes a number of
its own. Processes need no lock between them: `<slice>.making` says that somebody is at it, and if two are all the
same, there are two files of one content. Beside a file, `….used` is as young as its last use. One that was not used for
the time of `retention` goes; nobody begins to use one that was not used for half of that, but makes another.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hudi_catalog.hive.options import MATERIALIZE
from table_format.errors import AlreadyExistsError, StorageError
from table_format.storage import FileEntry, Storage

FOLDER: Final = ".hoodie/.catalog/hive"

_MADE: Final = ".parquet"

_USED: Final = ".used"

_MAKING: Final = ".making"

_WRITING: Final = ".writing"

# Somebody who has been at it for longer may have died.
_MAKING_SECONDS: Final = 60.0

_POLL_SECONDS: Final = 0.1

_LEFTOVER_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A complete file.

    Attributes:
        path: inside the table's folder.
        size: bytes.
        used: its last use, seconds since the epoch by the storage's clock.
    """

    path: str
    size: int
    used: float


class MadeFiles:
    """The files of one table.

    Args:
        storage: the table's.
        retention: seconds for which a file outlives its last use.
    """

    def __init__(self, storage: Storage, retention: float) -> None:
        self._storage = storage
        self._retention = retention

    @property
    def uri(self) -> str:
        """Where they lie."""
        return self._storage.full_uri(FOLDER)

    @property
    def table_folder(self) -> str:
        """The folder of the table, as its file system names it."""
        return self._storage.base

    def find(self, folder: str) -> dict[str, MadeFile]:
        """Those that may be used, by slice.

        Args:
            folder: name of what they have in common, see `slice_names`.
        """
        entries = self._storage.list(f"{FOLDER}/{folder}")
        found: dict[str, MadeFile] = {}
        for entry, used in _with_use(entries):
            name = entry.name.split(".")[0]
            if name not in found or found[name].used < used:
                found[name] = MadeFile(entry.path, entry.size, used)
        return {name: made for name, made in found.items() if self.may_be_used(made)}

    def may_be_used(self, made: MadeFile) -> bool:
        """Whether a file is far from going."""
        return time.time() - made.used < self._retention / 2

    def is_in_use(self, made: MadeFile) -> bool:
        """Whether somebody said a short time ago that a file is used."""
        return time.time() - made.used < self._retention / 8

    def use(self, made: MadeFile) -> MadeFile:
        """Say that a file is used now; it may lie where this process cannot write."""
        with contextlib.suppress(StorageError):
            _touch(self._storage, made.path + _USED)
        return MadeFile(made.path, made.size, time.time())

    def make(self, folder: str, name: str, write: Callable[[str], int]) -> MadeFile:
        """Make the file of a slice, or wait for somebody who is at it.

        Args:
            folder: as for `find`.
            name: of the slice.
            write: writes the file of a path, and returns its size.

        Raises:
            StorageError: the folder cannot be written to.
            HudiError: what `write` raises.
        """
        claim = f"{FOLDER}/{folder}/{name}{_MAKING}"
        while not self._claim(claim):
            found = self.find(folder).get(name)
            if found is not None:
                return found
            time.sleep(_POLL_SECONDS)
        try:
            found = self.find(folder).get(name)
            return found or self._make(f"{FOLDER}/{folder}/{name}.{uuid.uuid4().hex[:8]}", write)
        finally:
            with contextlib.suppress(StorageError):
                self._storage.delete(claim)

    def clean(self) -> int:
        """Delete files that were not used for long, and what processes that died left.

        Returns:
            How many files were deleted.
        """
        now = time.time()
        entries = [entry for entry in self._storage.list(FOLDER, recursive=True) if not entry.is_dir]
        stale = [entry.path for entry, used in _with_use(entries) if now - used > self._retention]
        made = {entry.path for entry in entries if entry.name.endswith(_MADE)}
        for path in stale:
            self._storage.delete(path)
        for entry in entries:
            age = now - entry.mtime_ms / 1000
            if entry.name.endswith(_USED):
                left = entry.path.removesuffix(_USED) not in made or entry.path.removesuffix(_USED) in stale
                left = left and age > self._retention
            else:
                left = not entry.name.endswith(_MADE) and age > max(_LEFTOVER_SECONDS, self._retention)
            if left:
                self._storage.delete(entry.path)
        return len(stale)

    def _claim(self, path: str) -> bool:
        try:
            self._storage.create(path, b"")
        except AlreadyExistsError:
            entry = self._storage.entry(path)
            if entry is not None and time.time() - entry.mtime_ms / 1000 > _MAKING_SECONDS:
                _touch(self._storage, path)
                return True
            return False
        except StorageError as error:
            raise StorageError(
                f"{path}: copies of files for Hive are written there, which failed: {error}; let the service write to "
                f"the table's folder, or set {MATERIALIZE}=false to have such queries refused"
            ) from error
        return True

    def _make(self, path: str, write: Callable[[str], int]) -> MadeFile:
        try:
            size = write(path + _WRITING)
            self._storage.move(path + _WRITING, path + _MADE)
        except BaseException:
            with contextlib.suppress(StorageError):
                self._storage.delete(path + _WRITING)
            raise
        return MadeFile(path + _MADE, size, time.time())


def _with_use(entries: list[FileEntry]) -> list[tuple[FileEntry, float]]:
    """Complete files, and the last use of each."""
    ages = {entry.path: entry.mtime_ms / 1000 for entry in entries}
    return [
        (entry, max(ages[entry.path], ages.get(entry.path + _USED, 0.0)))
        for entry in entries
        if entry.name.endswith(_MADE)
    ]


def _touch(storage: Storage, path: str) -> None:
    # only the file's time counts, so it need not outlive a crash
    with storage.open_output(path) as stream:
        stream.write(b"used")
