"""Names of the metadata table on storage: folder, partitions, file groups, files, instants.

Names of all table versions are parsed; names are made as in version 6. From version 8 on (timeline
layout 2), a log file is named after the deltacommit that wrote it rather than after its slice's base file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from table_format.storage import FileEntry, Storage

FOLDER = ".hoodie/metadata"
TIMELINE_FOLDER = f"{FOLDER}/.hoodie"
FILES = "files"
COLUMN_STATS = "column_stats"
BLOOM_FILTERS = "bloom_filters"
RECORD_INDEX = "record_index"
PARTITION_STATS = "partition_stats"
MAINTAINED = (BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX)
"""Partitions that our commits update; the record index if the writer reports changed keys."""

PARTITIONS_KEY = "hoodie.table.metadata.partitions"
INFLIGHT_PARTITIONS_KEY = "hoodie.table.metadata.partitions.inflight"

FILE_ID_PREFIXES = {
    FILES: "files-",
    COLUMN_STATS: "col-stats-",
    BLOOM_FILTERS: "bloom-filters-",
    RECORD_INDEX: "record-index-",
    PARTITION_STATS: "partition-stats-",
}

EMPTY_TABLE_INSTANT = "00000000000000"
"""In place of the latest data instant if a metadata table is created for a table without instants."""

TOKEN, ROLLBACK_TOKEN = "0-0-0", "1-0-1"
"""Write tokens, which in Spark identify a task attempt; rollbacks have their own."""

COMPACTION_SUFFIX = "001"
CLEAN_SUFFIX = "002"
ROLLBACK_SUFFIX = "006"
_FIRST_INIT_SUFFIX = 10
_SERVICE_SUFFIXES = ("001", "002", "003", "004", "005", "006")
_INSTANT_DIGITS = 17
_ATTEMPT = r"(?P<token>\d+-\d+-\d+)"
_BASE_FILE = re.compile(rf"(?P<id>[^.][^/]*)_{_ATTEMPT}_(?P<instant>\d+)\.hfile", re.ASCII)
_LOG_FILE = re.compile(rf"\.(?P<id>[^/]+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_{_ATTEMPT}", re.ASCII)
_FILE_ID = re.compile(r"(?P<family>.*-)(?P<shard>\d+)-\d+", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base HFile: path, size and last change (ms) in the data table's storage, and the instant that wrote it."""

    path: str
    size: int
    file_id: str
    instant: str
    modified: int = 0


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file of a file slice.

    Attributes:
        path: in the data table's storage.
        size: bytes.
        file_id: its file group.
        base_instant: in layout 1 the file slice's; in layout 2 the deltacommit that wrote the file.
        version: number among the log files of that name.
        token: the write token.
        modified: its last change, milliseconds since the epoch.
    """

    path: str
    size: int
    file_id: str
    base_instant: str
    version: int
    token: str
    modified: int = 0

    @property
    def order(self) -> tuple[str, int, str]:
        """Sort key of the order in which log files apply."""
        return self.base_instant, self.version, self.token


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All files of one shard of a partition, in order."""

    file_id: str
    base_files: tuple[BaseFile, ...]
    log_files: tuple[LogFile, ...]

    @property
    def family(self) -> str:
        """File id prefix before the shard number; shards are counted within it.

        It differs between the file groups of one metadata partition only in a partitioned record index, where each
        partition of the data table has shards of its own.
        """
        return _family_and_shard(self.file_id)[0]


def file_id(partition: str, shard: int) -> str:
    """The id of a shard's file group."""
    return f"{FILE_ID_PREFIXES[partition]}{shard:04d}-0"


def base_file_path(partition: str, group: str, instant: str, token: str = TOKEN) -> str:
    """Path of a base HFile, relative to the data table."""
    return f"{FOLDER}/{partition}/{group}_{token}_{instant}.hfile"


def log_file_path(partition: str, group: str, base_instant: str, version: int, token: str = TOKEN) -> str:
    """Path of a log file, relative to the data table."""
    return f"{FOLDER}/{partition}/.{group}_{base_instant}.log.{version}_{token}"


def init_instant(latest_data_instant: str, number: int) -> str:
    """Instant that builds a metadata partition: the data instant it is built from, and a number from 010 on."""
    return f"{latest_data_instant}{_FIRST_INIT_SUFFIX + number:03d}"


def has_service_suffix(instant: str) -> bool:
    """Whether an instant of the metadata table belongs to a table service or builds a partition.

    Such instants are not in the data table's timeline: their 17 digits are followed by three more.
    """
    if not instant.isdigit() or len(instant) != _INSTANT_DIGITS + 3:
        return False
    suffix = instant[_INSTANT_DIGITS:]
    return suffix in _SERVICE_SUFFIXES or int(suffix) >= _FIRST_INIT_SUFFIX


def builds_partition(instant: str) -> bool:
    """Whether an instant of the metadata table made one of its partitions."""
    if instant.startswith(EMPTY_TABLE_INSTANT):
        return True
    return has_service_suffix(instant) and int(instant[_INSTANT_DIGITS:]) >= _FIRST_INIT_SUFFIX


def names_of_files(groups: Sequence[FileGroup]) -> frozenset[str]:
    """Names of all files of some file groups."""
    paths = [base.path for group in groups for base in group.base_files]
    paths += [log.path for group in groups for log in group.log_files]
    return frozenset(path.rsplit("/", 1)[-1] for path in paths)


def list_file_groups(storage: Storage, partition: str) -> tuple[FileGroup, ...]:
    """File groups of a metadata partition by shard."""
    bases: dict[str, list[BaseFile]] = {}
    logs: dict[str, list[LogFile]] = {}
    for entry in storage.list(f"{FOLDER}/{partition}"):
        if entry.is_dir:
            continue
        base, log = _base_file(entry), _log_file(entry)
        if base is not None:
            bases.setdefault(base.file_id, []).append(base)
        elif log is not None:
            logs.setdefault(log.file_id, []).append(log)
    return tuple(
        FileGroup(
            name,
            tuple(sorted(bases.get(name, []), key=lambda file: file.instant)),
            tuple(sorted(logs.get(name, []), key=lambda file: file.order)),
        )
        for name in sorted(bases.keys() | logs.keys(), key=_family_and_shard)
    )


def _family_and_shard(file_id: str) -> tuple[str, int]:
    match = _FILE_ID.fullmatch(file_id)
    return (match["family"], int(match["shard"])) if match else (file_id, 0)


def _base_file(entry: FileEntry) -> BaseFile | None:
    match = _BASE_FILE.fullmatch(entry.name)
    return BaseFile(entry.path, entry.size, match["id"], match["instant"], entry.mtime_ms) if match else None


def _log_file(entry: FileEntry) -> LogFile | None:
    match = _LOG_FILE.fullmatch(entry.name)
    if match is None:
        return None
    return LogFile(
        entry.path, entry.size, match["id"], match["instant"], int(match["version"]), match["token"], entry.mtime_ms
    )
