"""The archived timeline of layout 1: log files below `.hoodie/archived`.

Each is a Hudi log of Avro blocks with records `HoodieArchivedMetaEntry`: one for each state of an instant, with
the content of its file.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

import fastavro

from table_format.actions.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMPACTION_PLAN,
    REQUESTED_REPLACE,
    ROLLBACK_METADATA,
)
from table_format.actions.table_services import CleanMetadata
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import CorruptFileError
from table_format.instant import ACTIONS, Action, Instant, State
from table_format.log.blocks import BlockType, LogBlock, read_log_blocks
from table_format.storage import FileEntry, Storage

#: Beginning of the names of all files of an archive.
PREFIX: Final = ".commits_.archive."
_INT: Final = Struct(">i")
_COMPLETED: Final = "COMPLETED"
_NAMESPACE: Final = "org.apache.hudi.avro.model"


def _entry(*fields: dict[str, Any]) -> dict[str, Any]:
    """Schema of an entry projected to some fields."""
    names = ("commitTime", "actionType", "actionState")
    texts = [{"name": name, "type": ["null", "string"]} for name in names]
    return {"type": "record", "name": "HoodieArchivedMetaEntry", "namespace": _NAMESPACE, "fields": [*texts, *fields]}


_FILE_IDS: Final = {"type": "map", "values": {"type": "array", "items": "string"}}
_REPLACE_METADATA: Final = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "fields": [{"name": "partitionToReplaceFileIds", "type": ["null", _FILE_IDS], "default": None}],
}
#: Contents in JSON.
_MEMBERS: Final = ("hoodieCommitMetadata", "hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata")
#: Contents in Avro, with their schemas.
_AVRO_MEMBERS: Final = {
    "hoodieCleanMetadata": CLEAN_METADATA,
    "hoodieRollbackMetadata": ROLLBACK_METADATA,
    "hoodieCleanerPlan": CLEANER_PLAN,
    "hoodieCompactionPlan": COMPACTION_PLAN,
    "hoodieRequestedReplaceMetadata": REQUESTED_REPLACE,
}
#: Fields that entries of every release have.
_CONTENTS: Final = frozenset({"hoodieCommitMetadata", "hoodieCleanMetadata"})
_TIMES: Final = fastavro.parse_schema(_entry())
_REPLACED: Final = fastavro.parse_schema(
    _entry({"name": "hoodieReplaceCommitMetadata", "type": ["null", _REPLACE_METADATA], "default": None})
)
_CLEANS: Final = fastavro.parse_schema(
    _entry({"name": "hoodieCleanMetadata", "type": ["null", CLEAN_METADATA], "default": None})
)


def archive_files(storage: Storage, folder: str) -> list[FileEntry]:
    """Files of the archive, by name; empty if nothing was archived."""
    return [entry for entry in storage.list(folder) if not entry.is_dir and entry.name.startswith(PREFIX)]


def read_instants(storage: Storage, path: str) -> Iterator[tuple[str, str, str]]:
    """Time, action and completion (here the time again) of the completed instants of a file.

    Raises:
        CorruptFileError: the file is damaged.
        MissingFileError: it was merged into another file meanwhile.
    """
    for entry in _entries(storage, path, _TIMES):
        yield entry["commitTime"], entry["actionType"], entry["commitTime"]


def read_replaced(storage: Storage, path: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Replacecommits of a file, as time and replaced file ids by partition; raises as `read_instants` does."""
    for entry in _entries(storage, path, _REPLACED, Action.REPLACECOMMIT):
        metadata = entry["hoodieReplaceCommitMetadata"]
        if metadata is None:
            raise CorruptFileError(path, 0, f"no content of the replacecommit {entry['commitTime']}; restore the file")
        yield entry["commitTime"], metadata["partitionToReplaceFileIds"] or {}


def read_cleans(storage: Storage, path: str) -> Iterator[tuple[str, CleanMetadata]]:
    """The completed cleans of a file, with their instant times; raises as `read_instants` does."""
    for entry in _entries(storage, path, _CLEANS, Action.CLEAN):
        metadata = entry["hoodieCleanMetadata"]
        if metadata is None:
            raise CorruptFileError(path, 0, f"no content of the clean {entry['commitTime']}; restore the file")
        yield entry["commitTime"], CleanMetadata.of(metadata)


def read_files(storage: Storage, path: str) -> Iterator[tuple[Instant, Callable[[], bytes]]]:
    """The timeline files that the entries of a file stand for, with functions that give their content.

    Raises:
        CorruptFileError: the file is damaged; the functions raise it, too.
        MissingFileError: it was merged into another file meanwhile.
    """
    for block in read_blocks(storage, path):
        schema, content = block.schema_json or "", bytes(block.content)
        try:
            for record in split_records(content):
                entry = _decoded(record, schema, _TIMES)
                instant = Instant(entry["commitTime"], entry["actionType"], State[entry["actionState"]])
                yield instant, functools.partial(_content, record, schema, instant, path)
        except Exception as error:  # fastavro raises many kinds on damaged bytes
            raise CorruptFileError(
                path, block.content_offset, f"damaged entries of an archived timeline: {error!r}; restore the file"
            ) from error


def _content(record: bytes, schema: str, instant: Instant, path: str) -> bytes:
    """What the file of an instant held: JSON of commits, an Avro file of others; empty if nothing is archived of it."""
    try:
        entry: Any = fastavro.schemaless_reader(io.BytesIO(record), _writer_schema(schema))
        for member in _MEMBERS:
            if entry.get(member) is not None:
                return json.dumps(_without_nulls(entry[member]), ensure_ascii=False).encode()
        for member, kind in _AVRO_MEMBERS.items():
            if entry.get(member) is not None:
                return write_avro_file(kind, [entry[member]])
    except Exception as error:  # fastavro raises many kinds on damaged bytes
        raise CorruptFileError(path, 0, f"a damaged entry of {instant} in an archived timeline: {error!r}") from error
    return b""


def _without_nulls(value: Any) -> Any:
    """Commit metadata as they were in JSON, where absent fields are left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def read_extra(storage: Storage, path: str, key: str) -> Iterator[tuple[str, str]]:
    """Time of each completed write of a file that has a key in its extra metadata, and the value.

    Only entries that hold the key are decoded. Raises as `read_instants` does.
    """
    sought = key.encode()
    for block in read_blocks(storage, path):
        content, schema = bytes(block.content), block.schema_json or ""
        if sought not in content:
            continue
        try:
            for record in split_records(content):
                if sought not in record:
                    continue
                entry: Any = fastavro.schemaless_reader(io.BytesIO(record), _writer_schema(schema))
                for member in ("hoodieCommitMetadata", "hoodieReplaceCommitMetadata"):
                    value = ((entry.get(member) or {}).get("extraMetadata") or {}).get(key)
                    if value is not None and entry["actionState"] == _COMPLETED:
                        yield entry["commitTime"], value
        except Exception as error:  # fastavro raises many kinds on damaged bytes
            raise CorruptFileError(
                path, block.content_offset, f"damaged entries of an archived timeline: {error!r}; restore the file"
            ) from error


def read_states(storage: Storage, path: str) -> Iterator[tuple[str, str, str]]:
    """Time, action and state of each entry of a file; raises as `read_instants` does."""
    for entry in _all_entries(storage, path, _TIMES):
        yield entry["commitTime"], entry["actionType"], entry["actionState"]


def last_state(block: LogBlock) -> tuple[str, str] | None:
    """Time and action of the last entry of a block; None without one.

    Raises:
        CorruptFileError: the block is damaged.
    """
    last = None
    try:
        for record in split_records(bytes(block.content)):
            last = record
        entry = None if last is None else _decoded(last, block.schema_json or "", _TIMES)
    except Exception as error:  # fastavro raises many kinds on damaged bytes
        raise CorruptFileError(
            block.path, block.content_offset, f"damaged entries of an archived timeline: {error!r}; restore the file"
        ) from error
    return None if entry is None else (entry["commitTime"], entry["actionType"])


def read_blocks(storage: Storage, path: str) -> Iterator[LogBlock]:
    """The blocks of a file, all of Avro records with their schema.

    Raises:
        CorruptFileError: the file is damaged.
        MissingFileError: it was merged into another file meanwhile.
    """
    for block in read_log_blocks(storage.read(path), path):
        if block.type is BlockType.CORRUPT:
            raise CorruptFileError(
                path,
                block.offset,
                "the archived timeline is damaged or cut off here; restore the file, or, if an archiving run broke off "
                f"at its end, shorten it to {block.offset} bytes: what was being archived is still active",
            )
        if block.type is not BlockType.AVRO_DATA or block.schema_json is None:
            raise CorruptFileError(path, block.offset, f"a {block.type.name} block in an archived timeline")
        yield block


def _entries(storage: Storage, path: str, wanted: Any, action: str = "") -> Iterator[dict[str, Any]]:
    """Projected entries of completed instants (of one action, if given), in file order."""
    for entry in _all_entries(storage, path, wanted, action):
        if entry["actionState"] == _COMPLETED and action in ("", entry["actionType"]):
            yield entry


def _all_entries(storage: Storage, path: str, wanted: Any, action: str = "") -> Iterator[dict[str, Any]]:
    """Projected entries of the blocks that may hold some of the action."""
    for block in read_blocks(storage, path):
        content = bytes(block.content)
        if action.encode() not in content:
            continue
        try:
            entries = [_decoded(record, block.schema_json or "", wanted) for record in split_records(content)]
        except Exception as error:  # fastavro raises many kinds on damaged bytes
            raise CorruptFileError(
                path, block.content_offset, f"damaged entries of an archived timeline: {error!r}; restore the file"
            ) from error
        yield from entries


def _decoded(record: bytes, schema: str, wanted: Any) -> dict[str, Any]:
    entry: Any = fastavro.schemaless_reader(io.BytesIO(record), _writer_schema(schema), wanted)
    time, action, state = entry["commitTime"] or "", entry["actionType"], entry["actionState"]
    # blocks have no checksum: what is not one of these is damage, and would be passed over as an entry of no interest
    if not (time.isascii() and time.isdigit()) or action not in ACTIONS or state not in State.__members__:
        raise ValueError(f"an entry of instant {time!r}, action {action!r}, state {state!r}")
    return dict(entry)


def place_of(storage: Storage, folder: str, time: str) -> tuple[str, int]:
    """File of the archive that holds entries of an instant, and the offset of its time there; the folder without one.

    Entries of other instants may name it, such as a clean's the earliest commit that it kept.

    Raises:
        CorruptFileError: a file is damaged.
    """
    sought = time.encode()
    for file in archive_files(storage, folder):
        for block in read_blocks(storage, file.path):
            content = bytes(block.content)
            for record in split_records(content) if sought in content else ():
                if sought in record and _decoded(record, block.schema_json or "", _TIMES)["commitTime"] == time:
                    return file.path, block.content_offset + content.index(record) + record.index(sought)
    return folder, 0


@functools.lru_cache(maxsize=8)
def _writer_schema(text: str) -> Any:
    schema: Any = fastavro.parse_schema(json.loads(text))
    missing = _CONTENTS - {field["name"] for field in schema["fields"]}
    if missing:
        raise ValueError(f"a schema without {', '.join(sorted(missing))}")
    return schema


def split_records(content: bytes) -> Iterator[bytes]:
    """Encoded records of an Avro block: version, count, then each record after its length.

    Raises:
        ValueError: the block is damaged.
    """
    (count,) = _INT.unpack_from(content, _INT.size)
    position = 2 * _INT.size
    for _ in range(count):
        (length,) = _INT.unpack_from(content, position)
        start, position = position + _INT.size, position + _INT.size + length
        if length < 0 or position > len(content):
            raise ValueError(f"a record of {length} bytes")
        yield content[start:position]
    if count < 0 or position != len(content):
        raise ValueError(f"{count} records do not fill the block")
