"""Storage of materialized files: which exist, which process makes one, and when they are deleted.

They lie inside the table's folder, since the storage handler reads no others. A file `<slice>.<number>.parquet` is
complete from the start and never changes, because splits refer to its row groups; each maker picks its own number.
Processes coordinate without locks: `<slice>.making` announces that a process is at work, and if two are all the same,
there are two files of the same content. The modification time of `….used` beside a file is its last use. A file unused
for `retention` is deleted; one unused for half of it is made anew at the next use.
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

# A claim older than this is taken over: its process may have died.
_MAKING_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_LEFTOVER_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class MaterializedFile:
    """A complete file.

    Attributes:
        path: relative to the table's folder.
        size: bytes.
        used: time of its last use, in seconds since the epoch by the storage's clock.
    """

    path: str
    size: int
    used: float


class MaterializedFiles:
    """The materialized files of one table.

    Args:
        storage: of the table.
        retention: seconds that a file is kept after its last use.
    """

    def __init__(self, storage: Storage, retention: float) -> None:
        self._storage = storage
        self._retention = retention

    @property
    def uri(self) -> str:
        """Their folder's URI."""
        return self._storage.full_uri(FOLDER)

    @property
    def table_folder(self) -> str:
        """The table's folder, as its file system names it."""
        return self._storage.base

    def find(self, folder: str) -> dict[str, MaterializedFile]:
        """The usable files by slice name.

        Args:
            folder: see `materialization.folder_name`.
        """
        entries = self._storage.list(f"{FOLDER}/{folder}")
        newest: dict[str, MaterializedFile] = {}
        for entry, used in _with_use(entries):
            name = entry.name.split(".")[0]
            if name not in newest or newest[name].used < used:
                newest[name] = MaterializedFile(entry.path, entry.size, used)
        return {name: made for name, made in newest.items() if self.may_be_used(made)}

    def may_be_used(self, made: MaterializedFile) -> bool:
        """Whether a file is far from being deleted."""
        return time.time() - made.used < self._retention / 2

    def is_in_use(self, made: MaterializedFile) -> bool:
        """Whether a file was marked as used recently."""
        return time.time() - made.used < self._retention / 8

    def use(self, made: MaterializedFile) -> MaterializedFile:
        """Mark a file as used now, unless this process cannot write there."""
        with contextlib.suppress(StorageError):
            _touch(self._storage, made.path + _USED)
        return MaterializedFile(made.path, made.size, time.time())

    def make(self, folder: str, name: str, write: Callable[[str], int]) -> MaterializedFile:
        """Make the file of a slice, or wait for the process that is making it.

        Args:
            folder: as for `find`.
            name: of the slice.
            write: writes a file at a path and returns its size.

        Raises:
            StorageError: the folder cannot be written to.
            HudiError: raised by `write`.
        """
        claim = f"{FOLDER}/{folder}/{name}{_MAKING}"
        while not self._claim(claim):
            existing = self.find(folder).get(name)
            if existing is not None:
                return existing
            time.sleep(_POLL_SECONDS)
        try:
            existing = self.find(folder).get(name)
            return existing or self._make(f"{FOLDER}/{folder}/{name}.{uuid.uuid4().hex[:8]}", write)
        finally:
            with contextlib.suppress(StorageError):
                self._storage.delete(claim)

    def clean(self) -> int:
        """Delete unused files, and leftovers of processes that died.

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
                f"{path}: materialized files for Hive cannot be written there: {error}; let the service write to "
                f"the table's folder, or set {MATERIALIZE}=false to have such queries refused"
            ) from error
        return True

    def _make(self, path: str, write: Callable[[str], int]) -> MaterializedFile:
        try:
            size = write(path + _WRITING)
            self._storage.move(path + _WRITING, path + _MADE)
        except BaseException:
            with contextlib.suppress(StorageError):
                self._storage.delete(path + _WRITING)
            raise
        return MaterializedFile(path + _MADE, size, time.time())


def _with_use(entries: list[FileEntry]) -> list[tuple[FileEntry, float]]:
    """Complete files with the time of their last use."""
    ages = {entry.path: entry.mtime_ms / 1000 for entry in entries}
    return [
        (entry, max(ages[entry.path], ages.get(entry.path + _USED, 0.0)))
        for entry in entries
        if entry.name.endswith(_MADE)
    ]


def _touch(storage: Storage, path: str) -> None:
    # only the modification time matters, so the file need not survive a crash
    with storage.open_output(path) as stream:
        stream.write(b"used")
