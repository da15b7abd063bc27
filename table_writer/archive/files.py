"""The files of an archive: a new one for each archiving run, and small ones joined into larger ones."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final

from table_format.actions.avro_schemas import Schema
from table_format.codecs.avro_file import read_avro_record, write_avro_file
from table_format.errors import CorruptFileError, MissingFileError
from table_format.log.blocks import BlockType, HeaderKey, LogBlock
from table_format.storage import FileEntry, Storage
from table_format.timeline.archive_log import PREFIX, archive_files, last_state, read_blocks, read_states, split_records
from table_writer.archive.entries import ENTRY_JSON
from table_writer.encoding.log_blocks import write_log_block
from table_writer.timeline.options import ArchiveOptions

_NUMBER: Final = re.compile(re.escape(PREFIX) + r"([0-9]+)(?:_[0-9]+-[0-9]+-[0-9]+)?", re.ASCII)
_HEAD: Final = Struct(">ii")
_LENGTH: Final = Struct(">i")
_VERSION: Final = 3

#: File in the archive's folder while files are being joined, as Apache's archivers name it, who finish it too.
_PLAN: Final = "mergeArchivePlan"
_PLAN_SCHEMA: Final[Schema] = {
    "type": "record",
    "name": "HoodieMergeArchiveFilePlan",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "candidate", "type": ["null", {"type": "array", "items": "string"}], "default": None},
        {"name": "mergedArchiveFileName", "type": ["null", "string"], "default": None},
    ],
}
_SMALLEST: Final = 1 << 17
_GROWTH: Final = 4


def write_archive_file(storage: Storage, folder: str, entries: Sequence[bytes]) -> str:
    """Write encoded entries as a new file of the archive.

    Returns:
        Its path.
    """
    path = _next_path(storage, folder)
    storage.create(path, _block(ENTRY_JSON, entries))
    return path


def newest_states(storage: Storage, folder: str, active: Collection[tuple[str, str]]) -> set[tuple[str, str, str]]:
    """Time, action and state of the entries in the newest file: where an interrupted run has put its instants.

    Empty if that run deleted the last of them from the timeline, as it then did with all: so a large file, into which
    others were joined, need not be decoded. A file that is damaged, such as one that its writer did not finish, counts
    as empty, too.

    Args:
        storage: of the table.
        folder: of the archive.
        active: time and action of the instants that are still on the timeline.
    """
    files = sorted(archive_files(storage, folder), key=_number)
    if not files:
        return set()
    try:
        blocks = list(read_blocks(storage, files[-1].path))
        last = last_state(blocks[-1]) if blocks else None
        return set(read_states(storage, files[-1].path)) if last in active else set()
    except (CorruptFileError, MissingFileError):
        return set()


def join_small_files(storage: Storage, folder: str, options: ArchiveOptions) -> int:
    """Join files of about the same size, as often as there are enough of them, so that their number stays small.

    The plan tells which files are joined into which; it is deleted after them, so that a run that was interrupted is
    finished by the next one, or by Apache's archiver. Until then instants are in two files, which readers allow for.

    Args:
        storage: of the table.
        folder: of the archive.
        options: number and size of files to join.

    Returns:
        How many files were joined.
    """
    joined = _finish(storage, folder)
    while files := _mergeable(archive_files(storage, folder), options):
        target = _next_path(storage, folder)
        plan = {"candidate": [_name(file.path) for file in files], "mergedArchiveFileName": _name(target)}
        content = _joined(storage, [file.path for file in files])
        storage.create(f"{folder}/{_PLAN}", write_avro_file(_PLAN_SCHEMA, [plan]))
        storage.create(target, content)
        joined += _delete_joined(storage, folder, [file.path for file in files])
    return joined


def _delete_joined(storage: Storage, folder: str, paths: Sequence[str]) -> int:
    """Delete files that were joined, and then the plan."""
    for path in paths:
        storage.delete(path)
    storage.delete(f"{folder}/{_PLAN}")
    return len(paths)


def _finish(storage: Storage, folder: str) -> int:
    """Delete the files that were joined, and the plan; only the plan where the joined file was not written."""
    plan = _read_plan(storage, folder)
    if plan is None:
        return 0
    count = 0
    names, target = plan
    if target and storage.exists(f"{folder}/{target}"):
        merged = f"{folder}/{target}"
        present = [path for path in (f"{folder}/{name}" for name in names) if storage.exists(path)]
        joined = _states(storage, merged)
        parts = {state for path in present for state in read_states(storage, path)}
        if joined is not None and joined >= parts:
            for path in present:
                storage.delete(path)
            count = len(present)
        elif len(present) < len(names):
            raise CorruptFileError(merged, 0, "it lacks archived instants that were joined into it; restore the file")
        elif joined is None or joined < parts:
            storage.delete(merged)  # Apache's writer died while appending to it; what it joins is all there
    storage.delete(f"{folder}/{_PLAN}")
    return count


def _read_plan(storage: Storage, folder: str) -> tuple[list[str], str] | None:
    """Names of the files that are being joined, and of the joined one; None if none are.

    Both are empty where the plan's writer died while writing it.
    """
    path = f"{folder}/{_PLAN}"
    try:
        plan = read_avro_record(storage.read(path), path, dict)
        return [_name(str(name)) for name in plan["candidate"] or ()], _name(str(plan["mergedArchiveFileName"]))
    except MissingFileError:
        return None
    except (CorruptFileError, KeyError):
        return [], ""


def _states(storage: Storage, path: str) -> set[tuple[str, str, str]] | None:
    """Time, action and state of a file's entries; None where it is damaged."""
    try:
        return set(read_states(storage, path))
    except CorruptFileError:
        return None


def _joined(storage: Storage, paths: Iterable[str]) -> bytes:
    """The blocks of several files in one, those of one schema that follow each other as one block."""
    blocks = [block for path in paths for block in read_blocks(storage, path)]
    parts = []
    for schema, run in itertools.groupby(blocks, key=lambda block: block.schema_json):
        records = [record for block in run for record in _records(block)]
        parts.append(_block(schema or "", list(dict.fromkeys(records))))
    return b"".join(parts)


def _records(block: LogBlock) -> list[bytes]:
    try:
        return list(split_records(bytes(block.content)))
    except (ValueError, struct_error) as error:
        raise CorruptFileError(
            block.path, block.content_offset, f"damaged entries of an archived timeline: {error}; restore the file"
        ) from error


def _block(schema: str, records: Sequence[bytes]) -> bytes:
    """A block of Avro records: version, count, then each record after its length."""
    content = bytearray(_HEAD.pack(_VERSION, len(records)))
    for record in records:
        content += _LENGTH.pack(len(record)) + record
    header: dict[int, str] = {HeaderKey.SCHEMA: schema}
    return write_log_block(BlockType.AVRO_DATA, header, bytes(content))


def _mergeable(files: Iterable[FileEntry], options: ArchiveOptions) -> list[FileEntry]:
    """As many of the smallest files as are joined at once, if there are so many of about one size."""
    if not options.merge:
        return []
    small = [file for file in files if file.size < options.merge_bytes]
    for _, run in itertools.groupby(sorted(small, key=_size_class), key=_size_class):
        same_class = sorted(run, key=_number)
        if len(same_class) >= options.merge_files:
            return same_class[: options.merge_files]
    return []


def _size_class(file: FileEntry) -> int:
    """Logarithm of a file's size, so that what was joined once waits for others of its kind."""
    number, limit = 0, _SMALLEST
    while file.size >= limit:
        number, limit = number + 1, limit * _GROWTH
    return number


def _next_path(storage: Storage, folder: str) -> str:
    """A path for a new file, after all others and after the joined file of a run that was interrupted.

    Whoever finishes that run, also Apache's archiver, takes a file of that name for the joined one, and may delete it.
    """
    names = [file.name for file in archive_files(storage, folder)]
    plan = _read_plan(storage, folder)
    newest = max(map(_number_of, names if plan is None else [*names, plan[1]]), default=0)
    return f"{folder}/{PREFIX}{newest + 1}_1-0-1"


def _number(file: FileEntry) -> int:
    return _number_of(file.name)


def _number_of(name: str) -> int:
    match = _NUMBER.fullmatch(name)
    return int(match[1]) if match else 0


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
