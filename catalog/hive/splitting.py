"""The files of a plan in splits: each file whole, or a large one in parts of some row groups."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from catalog.hive.files import HiveFile
from catalog.row_groups import divide
from pushdown.expression import HudiExpression
from table_format.base_file import BaseFileFooter, footer
from table_format.errors import CorruptFileError, MissingFileError
from table_format.storage import Storage

_FOOTER_THREADS = 16
# Of a file from this size on, a filter may leave out so many bytes that its footer is worth a look.
_LARGE = 8 << 20
_MOST_FOOTER_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class HiveSplit:
    """Some row groups of a file that lie one behind the other, or all of them.

    Attributes:
        path: inside the table's folder.
        start: first byte.
        length: in bytes.
    """

    path: str
    start: int
    length: int


class Footers:
    """Footers of files, of which nobody changes the content; threads may share it.

    Args:
        most_bytes: of footers that are kept.
    """

    def __init__(self, most_bytes: int = _MOST_FOOTER_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int], BaseFileFooter] = OrderedDict()

    def get(self, storage: Storage, file: HiveFile) -> BaseFileFooter:
        """The footer of a table's file.

        Raises:
            CorruptFileError: the file is no Parquet file.
            StorageError: it cannot be read.
        """
        key = (storage.uri, file.path, file.size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = footer(storage, file.path)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._bytes += found.metadata.serialized_size
            while self._bytes > self._most and self._kept:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.metadata.serialized_size
        return found


class Splitter:
    """Divides files.

    Args:
        footers: of files that were divided before.
    """

    def __init__(self, footers: Footers | None = None) -> None:
        self._footers = footers or Footers()

    def splits(
        self, storage: Storage, files: Sequence[HiveFile], expression: HudiExpression | None, most_bytes: int
    ) -> list[HiveSplit]:
        """The splits of some files, in their order.

        Hive's readers take the row groups that begin in the range of a split; the row groups of a split that was made
        here do, and no others.

        Args:
            storage: the table's.
            files: to be read.
            expression: row groups in which no row makes this bound filter true are left out; None for none.
            most_bytes: larger files are divided; a single row group is never cut.

        Raises:
            MissingFileError: a file of which nothing tells the size is not there.
        """
        files = [file if file.size > 0 else _measured(storage, file) for file in files]
        worth = min(most_bytes, _LARGE) if expression is not None else most_bytes
        large = [at for at, file in enumerate(files) if file.size > worth]
        parts: dict[int, list[HiveSplit]] = {}
        if large:
            with ThreadPoolExecutor(min(_FOOTER_THREADS, len(large)), thread_name_prefix="hudi-footer") as pool:
                found = pool.map(lambda at: self._parts(storage, files[at], expression, most_bytes), large)
                parts = dict(zip(large, found, strict=True))
        return [split for at, file in enumerate(files) for split in parts.get(at) or self._whole(file, at in parts)]

    @staticmethod
    def _whole(file: HiveFile, divided: bool) -> list[HiveSplit]:
        return [] if divided else [HiveSplit(file.path, 0, file.size)]

    def _parts(
        self, storage: Storage, file: HiveFile, expression: HudiExpression | None, most_bytes: int
    ) -> list[HiveSplit]:
        try:
            found = self._footers.get(storage, file)
        except (MissingFileError, CorruptFileError):
            return [HiveSplit(file.path, 0, file.size)]  # whoever reads the file will say so
        if found.metadata.num_row_groups == 1:  # of which the plan has decided
            return [HiveSplit(file.path, 0, found.size)]
        parts = divide(found, expression, most_bytes)
        return [HiveSplit(file.path, part.start, part.length) for part in parts]


def _measured(storage: Storage, file: HiveFile) -> HiveFile:
    """A file of which nothing tells the size: by a size of nothing, Hive would leave it out."""
    entry = storage.entry(file.path)
    if entry is None:
        raise MissingFileError(f"{storage.uri}/{file.path}: no such file")
    return replace(file, size=entry.size)
