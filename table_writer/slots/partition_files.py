"""The latest base file of each file group, looked up by partition: a write costs only what it touches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import ArgumentError
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_slices import latest_base_files, list_data_files, replaced_file_groups
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline

_AT_A_TIME: Final = 64
_RECENT: Final = 8


class PartitionFiles:
    """The latest base files of a table without log files.

    File names come from the metadata table, or from a listing where the table has none. Results are neither
    cached nor pickled.

    Args:
        client: the table.
        timeline: loaded when or after the write began, so that no commit is missed unnoticed.
        replaced: `replaced_file_groups(timeline)`, if known.
        open_metadata: opens the metadata table, if not this instance alone reads it.
    """

    def __init__(
        self,
        client: TableClient,
        timeline: Timeline,
        replaced: pa.Table | None = None,
        open_metadata: Callable[[], MetadataTable | None] | None = None,
    ) -> None:
        self._open_metadata = open_metadata
        self._client = client
        self._timeline = timeline
        self._replaced = replaced_file_groups(timeline) if replaced is None else replaced
        self._gaps = timeline.has_gaps

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionFiles, (self._client, self._timeline, self._replaced)

    def of(self, partitions: Sequence[str] | None = None) -> pa.Table:
        """The files of some partitions, or of the whole table, of `BASE_FILES_SCHEMA`.

        Raises:
            UnsupportedTableError: a log file, or a base file that is not Parquet.
        """
        metadata = self._metadata
        files = list_data_files(self._client.storage, partitions) if metadata is None else metadata.files(partitions)
        base_files = latest_base_files(files, self._timeline, replaced=self._replaced)
        if self._timeline.has_gaps == self._gaps:
            return base_files
        # these files have shown that the archive may name replaced file groups, too
        self._replaced, self._gaps = replaced_file_groups(self._timeline), self._timeline.has_gaps
        return latest_base_files(files, self._timeline, replaced=self._replaced)

    def partitions(self) -> list[str]:
        """All partition paths; some may have no file."""
        metadata = self._metadata
        if metadata is not None:
            return metadata.all_partitions()
        names: list[str] = pc.unique(list_data_files(self._client.storage)["partition"]).to_pylist()
        return names

    def recent(self) -> pa.Table:
        """The files of some partitions into which the newest write wrote; empty without one."""
        newest = self._timeline.last_completed_write()
        stats = {} if newest is None else self._timeline.commit_metadata(newest).partition_to_write_stats
        return self.of(sorted(itertools.islice(stats, _RECENT)))

    def paths(self) -> Iterator[str]:
        """Paths of all files, looked up a few at a time; a path may come twice."""
        recent: list[Any] = self.recent()["path"].to_pylist()
        yield from recent
        names = iter(self.partitions())
        while some := list(itertools.islice(names, _AT_A_TIME)):
            paths: list[Any] = self.of(some)["path"].to_pylist()
            yield from paths

    @functools.cached_property
    def _metadata(self) -> MetadataTable | None:
        if self._open_metadata is not None:
            return self._open_metadata()
        return MetadataTable.open(self._client, self._timeline)


def matches_partition(name: str, pattern: str) -> bool:
    """Whether a partition's path is one, or matches a pattern, of those that callers give.

    Only `*` is special, as in Apache's option of partitions to delete.

    >>> matches_partition("day=2026-11-27", "day=2026-*"), matches_partition("a?", "a?/"), matches_partition("ab", "a?")
    (True, True, False)
    """
    return fnmatchcase(name, pattern.strip("/").replace("[", "[[]").replace("?", "[?]"))


def unmatched_partitions(names: Collection[str], patterns: Sequence[str]) -> list[str]:
    """Those of the paths or patterns that callers give which no partition has; see `matches_partition`."""
    return [one for one in patterns if not any(matches_partition(name, one) for name in names)]


def refuse_unmatched_partitions(names: Collection[str], patterns: Sequence[str]) -> None:
    """Refuse a path or pattern of partitions, maybe misspelt, where there is no such partition.

    Args:
        names: paths of the partitions that have files.
        patterns: see `matches_partition`.

    Raises:
        ArgumentError: no partition matches one of the patterns.
    """
    for one in unmatched_partitions(names, patterns):
        raise ArgumentError(
            f"partition {one}: no partition with files is named so; `hudi-catalog partitions` lists them"
        )
