"""The archived timeline of layout 2 (Hudi's LSM timeline): completed instants that left the active timeline.

The history is a log-structured merge tree of Parquet files, named `<first instant>_<last instant>_<level>.parquet`, of
which the newest manifest lists the valid ones. Snapshot queries hardly ever need it; see `log_slices`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from table_format.actions.commit import CommitMetadata
from table_format.actions.table_services import CleanMetadata
from table_format.errors import CorruptFileError, MissingFileError, StorageError
from table_format.instant import Action, Instant, State
from table_format.storage import FileEntry, Storage

_TRIES: Final = 3
Result = TypeVar("Result")
HISTORY_SCHEMA: Final = pa.schema([("instant", pa.string()), ("completion", pa.string()), ("action", pa.string())])
_COLUMNS: Final = pa.schema([pa.field(name, pa.string()) for name in ("instantTime", "completionTime", "action")])
_CONTENTS: Final = pa.schema(
    [_COLUMNS.field("instantTime"), _COLUMNS.field("action"), pa.field("metadata", pa.binary())]
)
_MANIFEST: Final = re.compile(r"manifest_([0-9]+)", re.ASCII)
_FILE: Final = re.compile(r"([0-9]+)_([0-9]+)_([0-9]+)\.parquet", re.ASCII)


def retried(read: Callable[[], Result]) -> Result:
    """The result of a read of archive files; retried, since archiving merges files into larger ones and deletes them.

    Raises:
        MissingFileError: a file is gone at each attempt.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(MissingFileError):
            return read()
    return read()


def load_history(storage: Storage, folder: str, start: str | None = None, end: str | None = None) -> pa.Table:
    """Load archived completed instants in a range of instant times.

    Args:
        storage: rooted at the table's base folder.
        folder: of the history, usually `.hoodie/timeline/history`.
        start: first instant time; files that end before it are not read.
        end: last instant time.

    Returns:
        A table of `HISTORY_SCHEMA` by instant, one row per instant; empty if nothing was archived.

    Raises:
        CorruptFileError: a manifest or a file of the history is damaged.
        MissingFileError: a file that the manifest lists is gone.
    """

    def read() -> list[pa.Table]:
        names = [name for name in _file_names(storage, folder) if _overlaps(name, start, end)]
        return [_read_instants(storage, f"{folder}/{name}") for name in names]

    parts = retried(read)
    whole: Any = pa.concat_tables([HISTORY_SCHEMA.empty_table(), *parts])
    if start is not None:
        whole = whole.filter(pc.greater_equal(whole["instant"], start))
    if end is not None:
        whole = whole.filter(pc.less_equal(whole["instant"], end))
    # an interrupted merge may leave an instant in files of two levels
    groups = whole.group_by(["instant"], use_threads=False).aggregate([("completion", "max"), ("action", "max")])
    table: pa.Table = groups.rename_columns(HISTORY_SCHEMA.names).cast(HISTORY_SCHEMA).sort_by("instant")
    return table


def completion_times(storage: Storage, folder: str, start: str | None = None, end: str | None = None) -> dict[str, str]:
    """Completion times of archived instants, by instant time; see `load_history`."""
    rows = load_history(storage, folder, start, end)
    instants: list[Any] = rows["instant"].to_pylist()
    return dict(zip(instants, rows["completion"].to_pylist(), strict=True))


def first_archived(storage: Storage, folder: str) -> str | None:
    """Oldest archived instant time, by file names."""
    matches = [_FILE.fullmatch(name) for name in _file_names(storage, folder)]
    return min((match[1] for match in matches if match), default=None)


def archive_files(storage: Storage, folder: str) -> list[FileEntry]:
    """Valid files of the history; empty if nothing was archived.

    Raises:
        CorruptFileError: the manifest is damaged.
    """
    # names are never reused, so size and time are not needed to distinguish files
    return [FileEntry(f"{folder}/{name}", 0, 0, is_dir=False) for name in _file_names(storage, folder)]


def read_instants(storage: Storage, path: str) -> Iterator[tuple[str, str, str]]:
    """Time, action and completion time of the completed instants of one file.

    Raises:
        CorruptFileError: the file is damaged.
        MissingFileError: it was merged into another file meanwhile.
    """
    rows = _read_instants(storage, path)
    columns: Any = zip(*(rows[name].to_pylist() for name in HISTORY_SCHEMA.names), strict=True)
    for time, completion, action in columns:
        yield time, action, completion or time


def _read_instants(storage: Storage, path: str) -> pa.Table:
    return _read(storage, path, _COLUMNS).rename_columns(HISTORY_SCHEMA.names)


def read_replaced(storage: Storage, path: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Replacecommits of one file, as time and replaced file ids by partition; raises as `read_instants` does."""
    for time, data in _metadata(storage, path, Action.REPLACECOMMIT):
        yield time, CommitMetadata.parse(data, f"{path}: {time}").partition_to_replace_file_ids or {}


def read_cleans(storage: Storage, path: str) -> Iterator[tuple[str, CleanMetadata]]:
    """Cleans of one file, with their instant times; raises as `read_instants` does."""
    for time, data in _metadata(storage, path, Action.CLEAN):
        yield time, CleanMetadata.from_avro(data, f"{path}: {time}")


def read_files(storage: Storage, path: str) -> Iterator[tuple[Instant, Callable[[], bytes]]]:
    """The timeline files that one file stands for, with functions that give their content.

    Completed files, and plans as requested files; raises as `read_instants` does.
    """
    rows = _read(storage, path, pa.schema([*_COLUMNS, _CONTENTS.field("metadata"), pa.field("plan", pa.binary())]))
    columns: Any = zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True)
    for time, completion, action, data, plan in columns:
        yield Instant(time, action, State.COMPLETED, completion), functools.partial(bytes, data or b"")
        if plan:
            yield Instant(time, action, State.REQUESTED), functools.partial(bytes, plan)


def _metadata(storage: Storage, path: str, action: str) -> Iterator[tuple[str, bytes]]:
    """Time and content of the completed file of all instants of an action."""
    if action not in _read_instants(storage, path)["action"].to_pylist():
        return
    rows = _read(storage, path, _CONTENTS)
    rows = rows.filter(pc.equal(rows["action"], action))
    times: list[Any] = rows["instantTime"].to_pylist()
    for time, data in zip(times, rows["metadata"].to_pylist(), strict=True):
        if not data:
            raise CorruptFileError(path, 0, f"no content of the {action} {time}; restore the file")
        yield time, data


def _file_names(storage: Storage, folder: str) -> list[str]:
    """Files listed by the current manifest."""
    versions = {int(m[1]) for entry in storage.list(folder) if (m := _MANIFEST.fullmatch(entry.name))}
    if not versions:
        return []
    path = f"{folder}/manifest_{_version(storage, folder, versions)}"
    try:
        files = json.loads(storage.read(path))["files"]
        return [str(file["fileName"]) for file in files]
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptFileError(path, 0, f"no manifest of an archived timeline: {error!r}") from error


def _version(storage: Storage, folder: str, versions: set[int]) -> int:
    """Version in `_version_`; the greatest version if that file is missing or half written."""
    try:
        named = int(storage.read(f"{folder}/_version_"))
    except (MissingFileError, ValueError):
        return max(versions)
    return named if named in versions else max(versions)


def _overlaps(name: str, start: str | None, end: str | None) -> bool:
    match = _FILE.fullmatch(name)
    if match is None:
        return True
    return (start is None or match[2] >= start) and (end is None or match[1] <= end)


def _read(storage: Storage, path: str, columns: pa.Schema) -> pa.Table:
    try:
        with storage.open_input(path) as stream:
            table = pq.read_table(stream, columns=columns.names, page_checksum_verification=True)
            return table.select(columns.names).cast(columns)
    except StorageError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptFileError(path, 0, f"not a file of an archived timeline, or a damaged one: {error}") from error
