"""Division of large base files between row groups; row groups in which no row can match are left out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from catalog.concurrency.caches import LruCache
from catalog.slices.file_slice import FileSlice
from catalog.statistics.row_groups import RowGroups, outcomes_of
from pushdown.expression import HudiExpression
from table_format.base_file.footer import footer
from table_format.errors import CorruptFileError, MissingFileError
from table_format.storage import Storage

# Smallest file whose footer a server reads for pruning row groups.
_PRUNE_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class SplitRules:
    """How base files are divided.

    Attributes:
        threads: footers read at once.
        max_footers: of more large files than this whose footers are not cached, no footer is read; None for no limit.
        prune_bytes: with a filter, footers of files above this size are read too where they need no division, to leave
            out row groups; None for those that are divided only.
        footer_memory: bytes of footers that are cached; 0 to read them each time.
        byte_ranges: a reader takes the row groups that begin in a range of bytes (Hive), and needs the size of each
            file. A file of a single row group stays whole, and one whose footer is not read is cut at any byte. Else
            readers take row groups by ordinal, and such a file stays whole.
    """

    threads: int = 8
    max_footers: int | None = None
    prune_bytes: int | None = None
    footer_memory: int = 0
    byte_ranges: bool = False

    @classmethod
    def of_server(cls, max_footers: int | None) -> SplitRules:
        """Rules of a server that keeps footers between the queries of an engine whose readers take ranges of bytes.

        Args:
            max_footers: as the attribute.
        """
        return cls(
            threads=16,
            max_footers=max_footers,
            prune_bytes=_PRUNE_BYTES,
            footer_memory=256 << 20,
            byte_ranges=True,
        )


class Splitter:
    """Divides file slices. Threads may share it.

    Args:
        rules: how base files are divided.
    """

    def __init__(self, rules: SplitRules) -> None:
        self._rules = rules
        self._footers: LruCache[tuple[str, str, int], RowGroups] = LruCache(
            rules.footer_memory, lambda groups: int(groups.footer.metadata.serialized_size)
        )

    def divide(
        self,
        storage: Storage,
        slices: Sequence[FileSlice],
        filters: Sequence[HudiExpression | None],
        max_bytes: int,
    ) -> list[list[FileSlice]]:
        """The parts of some file slices to read.

        Slices with log files stay whole, and so do base files that cannot be read; reading their rows reports that.

        Args:
            storage: of the table.
            slices: of the table.
            filters: for each slice, the bound filter that its rows must meet; None when all rows are wanted.
            max_bytes: larger base files are divided; a single row group is never cut.

        Returns:
            For each slice, its parts in order; none when no row group of it can hold a matching row.

        Raises:
            MissingFileError: a file whose size is needed and not known is not there.
            StorageError: the storage failed.
        """
        rules = self._rules
        parts = [[one] for one in slices]
        if rules.byte_ranges:
            slices = [one if one.base is None or one.base_size > 0 else _measured(storage, one) for one in slices]
            parts = [_ranges(one, max_bytes) if _is_base_file(one) else [one] for one in slices]
        large = [at for at, one in enumerate(slices) if self._is_large(one, filters[at], max_bytes)]
        row_groups = self._row_groups(storage, [slices[at] for at in large])
        by_filter: dict[int, list[tuple[int, RowGroups]]] = {}  # by identity: equal filters may be large
        for at, groups in zip(large, row_groups, strict=True):
            if groups is not None and rules.byte_ranges and len(groups) <= 1:
                parts[at] = [slices[at]]  # statistics of the file are those of its only row group
            elif groups is not None:
                by_filter.setdefault(id(filters[at]), []).append((at, groups))
        for files in by_filter.values():
            positions, groups_of_files = zip(*files, strict=True)
            divided = _divided([slices[at] for at in positions], groups_of_files, filters[positions[0]], max_bytes)
            for at, of_slice in zip(positions, divided, strict=True):
                parts[at] = of_slice
        return parts

    def _is_large(self, one: FileSlice, expression: HudiExpression | None, max_bytes: int) -> bool:
        prune_bytes = self._rules.prune_bytes
        least = max_bytes if prune_bytes is None or expression is None else min(max_bytes, prune_bytes)
        return _is_base_file(one) and one.base_size > least

    def _row_groups(self, storage: Storage, slices: Sequence[FileSlice]) -> list[RowGroups | None]:
        """The row groups of base files; None for those that cannot be read, or are too many."""
        keys = [(storage.uri, str(one.base), one.base_size) for one in slices]
        row_groups = [self._footers.get(key) for key in keys]
        missing = [at for at, groups in enumerate(row_groups) if groups is None]
        if not missing or (self._rules.max_footers is not None and len(missing) > self._rules.max_footers):
            return row_groups
        with ThreadPoolExecutor(min(self._rules.threads, len(missing)), thread_name_prefix="hudi-footer") as pool:
            for at, groups in zip(missing, pool.map(lambda at: _read(storage, keys[at][1]), missing), strict=True):
                row_groups[at] = groups
                if groups is not None:
                    self._footers.put(keys[at], groups)
        return row_groups


@dataclass(frozen=True, slots=True)
class _Group:
    ordinal: int
    start: int
    end: int
    rows: int
    fully_matching: bool


def _divided(
    slices: Sequence[FileSlice], files: Sequence[RowGroups], expression: HudiExpression | None, max_bytes: int
) -> list[list[FileSlice]]:
    """Parts of consecutive row groups that may hold a matching row; the filter is evaluated once for all files."""
    outcomes = None if expression is None else outcomes_of(files, expression)
    parts = []
    first = 0
    for one, file in zip(slices, files, strict=True):
        groups = []
        for ordinal, (start, end, rows) in enumerate(file.extents):
            at = first + ordinal
            if rows and (outcomes is None or outcomes.can_true[at]):
                sure = outcomes is None or bool(outcomes.only_true[at])
                groups.append(_Group(ordinal, start, end, rows, sure))
        parts.append([_part(one, consecutive) for consecutive in _joined(groups, max_bytes)])
        first += len(file)
    return parts


def _joined(groups: Sequence[_Group], max_bytes: int) -> list[list[_Group]]:
    """Consecutive row groups together, as many as fit."""
    parts: list[list[_Group]] = []
    for group in groups:
        last = parts[-1] if parts else None
        if last is None or last[-1].ordinal != group.ordinal - 1 or group.end - last[0].start > max_bytes:
            parts.append([group])
        else:
            last.append(group)
    return parts


def _part(one: FileSlice, groups: Sequence[_Group]) -> FileSlice:
    return replace(
        one,
        row_groups=tuple(group.ordinal for group in groups),
        start=groups[0].start,
        length=groups[-1].end - groups[0].start,
        record_count=sum(group.rows for group in groups),
        fully_matching=all(group.fully_matching for group in groups),
    )


def _is_base_file(one: FileSlice) -> bool:
    """Whether a slice has no log files; with them it is merged as a whole."""
    return one.base is not None and not one.logs


def _ranges(one: FileSlice, max_bytes: int) -> list[FileSlice]:
    """A base file in ranges of about the same size, wherever its row groups begin."""
    count = max(1, -(-one.base_size // max_bytes))
    bounds = [one.base_size * number // count for number in range(count + 1)]
    return [replace(one, start=start, length=end - start) for start, end in itertools.pairwise(bounds)]


def _read(storage: Storage, path: str) -> RowGroups | None:
    try:
        return RowGroups(footer(storage, path))
    except (MissingFileError, CorruptFileError):
        return None


def _measured(storage: Storage, one: FileSlice) -> FileSlice:
    """A slice with the size of its base file looked up: Hive skips files of no bytes."""
    entry = storage.entry(str(one.base))
    if entry is None:
        raise MissingFileError(f"{storage.uri}/{one.base}: no such file")
    return replace(one, base_size=entry.size, length=entry.size)
