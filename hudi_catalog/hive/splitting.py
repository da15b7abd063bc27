"""The files of a plan in splits: each file whole, or a large one in parts of some row groups."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from catalog.statistics.row_groups import RowGroups, divide_all
from hudi_catalog.hive.files import HiveFile
from pushdown.expression import HudiExpression
from table_format.base_file.footer import footer
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
    """Row groups of files, of which nobody changes the content; threads may share it.

    Args:
        most_bytes: of footers that are kept.
    """

    def __init__(self, most_bytes: int = _MOST_FOOTER_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int], RowGroups] = OrderedDict()

    def get(self, storage: Storage, files: Sequence[HiveFile], most: int) -> list[RowGroups | None]:
        """The row groups of a table's files; None for those that cannot be read, or were not looked at.

        Args:
            storage: the table's.
            files: of it.
            most: so many footers are read; of more that are not known, none.

        Raises:
            StorageError: the storage failed.
        """
        keys = [(storage.uri, file.path, file.size) for file in files]
        found = [self._known(key) for key in keys]
        missing = [at for at, groups in enumerate(found) if groups is None]
        if len(missing) > most:
            return found
        if missing:
            with ThreadPoolExecutor(min(_FOOTER_THREADS, len(missing)), thread_name_prefix="hudi-footer") as pool:
                read = pool.map(lambda at: _row_groups(storage, files[at].path), missing)
                for at, groups in zip(missing, read, strict=True):
                    found[at] = groups
                    self._keep(keys[at], groups)
        return found

    def _known(self, key: tuple[str, str, int]) -> RowGroups | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: tuple[str, str, int], groups: RowGroups | None) -> None:
        with self._lock:
            if groups is not None and key not in self._kept:
                self._kept[key] = groups
                self._bytes += groups.footer.metadata.serialized_size
            while self._bytes > self._most:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.footer.metadata.serialized_size


class Splitter:
    """Divides files.

    Args:
        most_footers: so many footers are read for one scan; where it takes more, files are divided without a look.
        footers: of files that were divided before.
    """

    def __init__(self, most_footers: int, footers: Footers | None = None) -> None:
        self._most_footers = most_footers
        self._footers = footers or Footers()

    def splits(
        self, storage: Storage, files: Sequence[HiveFile], expression: HudiExpression | None, most_bytes: int
    ) -> list[HiveSplit]:
        """The splits of some files, in their order.

        Hive's readers take the row groups that begin in the range of a split. Of the ranges here, each row group that
        is read begins in one.

        Args:
            storage: the table's.
            files: to be read.
            expression: row groups in which no row makes this bound filter true are left out; None for none.
            most_bytes: larger files are divided; a single row group is never cut.

        Raises:
            MissingFileError: a file of which nothing tells the size is not there.
            StorageError: the storage failed.
        """
        files = [file if file.size > 0 else _measured(storage, file) for file in files]
        worth = min(most_bytes, _LARGE) if expression is not None else most_bytes
        large = [at for at, file in enumerate(files) if file.size > worth]
        found = self._footers.get(storage, [files[at] for at in large], self._most_footers)
        # of a single row group the plan has decided; a file that cannot be read is left to who reads it
        several = {
            at: groups for at, groups in zip(large, found, strict=True) if groups is not None and len(groups) > 1
        }
        parts = dict(zip(several, divide_all([*several.values()], expression, most_bytes), strict=True))
        single = {at for at, groups in zip(large, found, strict=True) if groups is not None and len(groups) <= 1}
        splits = []
        for at, file in enumerate(files):
            if at in parts:
                splits += [HiveSplit(file.path, part.start, part.length) for part in parts[at]]
            else:
                splits += _ranges(file, file.size if at in single else most_bytes)
        return splits


def _ranges(file: HiveFile, most_bytes: int) -> list[HiveSplit]:
    """A file in ranges of about the same size, wherever its row groups begin."""
    count = max(1, -(-file.size // most_bytes))
    bounds = [file.size * number // count for number in range(count + 1)]
    return [HiveSplit(file.path, start, end - start) for start, end in itertools.pairwise(bounds)]


def _row_groups(storage: Storage, path: str) -> RowGroups | None:
    try:
        return RowGroups(footer(storage, path))
    except (MissingFileError, CorruptFileError):
        return None


def _measured(storage: Storage, file: HiveFile) -> HiveFile:
    """A file of which nothing tells the size: by a size of nothing, Hive would leave it out."""
    entry = storage.entry(file.path)
    if entry is None:
        raise MissingFileError(f"{storage.uri}/{file.path}: no such file")
    return replace(file, size=entry.size)
