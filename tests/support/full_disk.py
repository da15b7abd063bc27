"""A disk that is full: a storage with a quota, and a small file system where one may be mounted."""

from __future__ import annotations

import contextlib
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from table_format.errors import NoSpaceError
from table_format.storage import Storage

PAGE = 4096


class QuotaStorage(Storage):
    """Files take whole pages; those beyond `limit` pages do not fit. Empty files take none."""

    limit = 1 << 30

    def used(self) -> int:
        return sum(-(-entry.size // PAGE) for entry in self.list("", recursive=True) if not entry.is_dir)

    def _take(self, path: str, data: bytes) -> None:
        if data and self.used() + -(-len(data) // PAGE) > QuotaStorage.limit:
            raise NoSpaceError(f"{path}: no space left in this test's quota")


def _limited(name: str) -> Any:
    plain = getattr(Storage, name)

    @functools.wraps(plain)
    def call(self: QuotaStorage, path: str, data: bytes, **more: Any) -> None:
        self._take(path, data)
        plain(self, path, data, **more)

    return call


for _name in ("create", "overwrite"):
    setattr(QuotaStorage, _name, _limited(_name))


@contextlib.contextmanager
def limited_to(pages: int) -> Iterator[None]:
    """Within it, all quota storages together with what they hold already have so many pages."""
    QuotaStorage.limit = pages
    try:
        yield
    finally:
        QuotaStorage.limit = 1 << 30


@contextlib.contextmanager
def small_file_system(folder: Path, size: str) -> Iterator[Path | None]:
    """A file system in memory; None if this process may mount none."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
