"""Folders for temporary files, which the next process removes where one was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final, Self

from table_format.storage import stream_errors

_PREFIX: Final = "hudi-catalog-spill-"


class SpillFolder:
    """A folder for temporary files, created when it is first asked for, and removed with its files.

    The process locks it for as long as it lives. Folders of this user that nobody locks are those of killed processes,
    and are removed when another one is created beside them.

    Args:
        parent: where to create it; None for the system's own folder for temporary files.
    """

    def __init__(self, parent: str | None = None) -> None:
        self._parent = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = -1

    @property
    def path(self) -> str:
        """The folder.

        Raises:
            StorageError: it cannot be created.
        """
        if self._folder is None:
            parent = self._parent or tempfile.gettempdir()
            with stream_errors(parent):
                remove_abandoned(parent)
                while self._folder is None:
                    self._create(parent)
        return self._folder.name

    def _create(self, parent: str) -> None:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent)
        try:
            lock = os.open(folder.name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # another process took it for abandoned
            folder.cleanup()
            return
        with contextlib.suppress(OSError):  # some network file systems do not lock folders
            fcntl.flock(lock, fcntl.LOCK_EX)
        if Path(folder.name).exists():
            self._folder, self._lock = folder, lock
        else:
            folder.cleanup()
            os.close(lock)

    def remove(self) -> None:
        """Remove the folder with its files."""
        if self._folder is not None:
            self._folder.cleanup()
            os.close(self._lock)
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_abandoned(parent: str) -> None:
    """Remove the folders that this user's killed processes left.

    Args:
        parent: the folder they are in.
    """
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is in use, or is removed just now
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
