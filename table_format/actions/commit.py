"""Commit metadata of completed commits, deltacommits and replacecommits: JSON in layout 1, Avro in layout 2."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from table_format.codecs.avro_file import MAGIC, read_avro_record
from table_format.errors import CorruptFileError

#: prevCommit of a new file group.
NO_COMMIT = "null"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@dataclass(slots=True)
class WriteStat:
    """Statistics of one file written by one commit (Hudi's `HoodieWriteStat`).

    Attributes:
        file_id: the file group.
        path: relative to the table's base folder.
        partition_path: `""` for a table without partitions.
        prev_commit: instant of the base file that this one supersedes, or `"null"`.
        num_writes: rows in the file; other counts are numbers of rows too.
        total_write_bytes: bytes written.
        file_size_in_bytes: the file's size on storage; readers get it from the metadata table.
    """

    file_id: str = ""
    path: str | None = None
    partition_path: str = ""
    prev_commit: str = NO_COMMIT
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    temp_path: str | None = None
    cdc_stats: dict[str, int] | None = None
    total_log_records: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_updated_records_compacted: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: dict[str, int] | None = None
    #: Fields of log file writes and of later releases, kept as they were read.
    other: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON object, with Hudi's field names."""
        return {_camel(name): getattr(self, name) for name in _STAT_FIELDS} | self.other

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> WriteStat:
        """Read a JSON object; absent numbers are 0, unknown fields go to `other`."""
        known = {name: values[camel] for camel, name in _STAT_NAMES.items() if values.get(camel) is not None}
        return cls(**known, other={k: v for k, v in values.items() if k not in _STAT_NAMES})

    @property
    def file_name(self) -> str:
        """The last part of `path`."""
        return (self.path or "").rsplit("/", 1)[-1]


_STAT_FIELDS = tuple(f.name for f in dataclasses.fields(WriteStat) if f.name != "other")
_STAT_NAMES = {_camel(name): name for name in _STAT_FIELDS}


@dataclass(slots=True)
class CommitMetadata:
    """Content of one commit (Hudi's `HoodieCommitMetadata` and `HoodieReplaceCommitMetadata`).

    Attributes:
        partition_to_write_stats: the files written, by partition path.
        operation_type: e.g. `UPSERT`.
        extra_metadata: texts; `schema` holds the table's Avro schema without meta columns.
        compacted: true for the commits of compactions.
        partition_to_replace_file_ids: file groups that a replacecommit takes out of the table, by partition path.
    """

    partition_to_write_stats: dict[str, list[WriteStat]] = field(default_factory=dict)
    operation_type: str = "UNKNOWN"
    extra_metadata: dict[str, str] = field(default_factory=dict)
    compacted: bool = False
    partition_to_replace_file_ids: dict[str, list[str]] | None = None

    def stats(self) -> Iterator[WriteStat]:
        """The write stats of all partitions."""
        for stats in self.partition_to_write_stats.values():
            yield from stats

    def to_json(self) -> bytes:
        """The file's content."""
        values: dict[str, Any] = {
            "partitionToWriteStats": {
                partition: [stat.to_json() for stat in stats]
                for partition, stats in self.partition_to_write_stats.items()
            },
            "compacted": self.compacted,
            "extraMetadata": self.extra_metadata,
            "operationType": self.operation_type,
        }
        if self.partition_to_replace_file_ids is not None:
            values["partitionToReplaceFileIds"] = self.partition_to_replace_file_ids
        return json.dumps(values, indent=2, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes, path: str) -> CommitMetadata:
        """Read a file's content; an empty file is an empty object, as in Apache's readers.

        Raises:
            CorruptFileError: no JSON object, or one of another shape.
        """
        if not data.strip():
            return cls()
        values = _parse(data, path)
        try:
            return cls._of(values)
        except (AttributeError, TypeError, ValueError) as error:
            raise CorruptFileError(path, 0, f"commit metadata of an unknown shape: {error}") from error

    @classmethod
    def parse(cls, data: bytes, path: str) -> CommitMetadata:
        """Read a file's content, be it JSON (table versions up to 7) or an Avro container file (8 and 9).

        Raises:
            CorruptFileError: it is neither, or of another shape.
        """
        return read_avro_record(data, path, cls._of) if data.startswith(MAGIC) else cls.from_json(data, path)

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> CommitMetadata:
        """From a JSON object or an Avro record: the names are the same, and Avro has null for absent fields."""
        return cls(
            partition_to_write_stats={
                partition: [_checked(WriteStat.from_json(stat)) for stat in stats]
                for partition, stats in (values.get("partitionToWriteStats") or {}).items()
            },
            operation_type=_operation(values),
            extra_metadata={
                key: _text(value, key)
                for key, value in (values.get("extraMetadata") or {}).items()
                if value is not None
            },
            compacted=bool(values.get("compacted")),
            partition_to_replace_file_ids=_replaced(values.get("partitionToReplaceFileIds")),
        )


def read_extra_metadata(data: bytes, path: str) -> dict[str, str]:
    """`extraMetadata` alone, without parsing the write stats.

    Raises:
        CorruptFileError: the file is cut off, or no commit metadata.
    """
    if data.startswith(MAGIC):
        return read_avro_record(data, path, _texts, _EXTRA_METADATA)
    extra = _last_value(data, "extraMetadata")
    if isinstance(extra, dict) and all(isinstance(text, str | None) for text in extra.values()):
        return _texts({"extraMetadata": extra})
    return CommitMetadata.from_json(data, path).extra_metadata


def read_operation_type(data: bytes, path: str) -> str:
    """The operation alone, such as `UPSERT`, without parsing the write stats.

    Raises:
        CorruptFileError: the file is cut off, or no commit metadata.
    """
    if data.startswith(MAGIC):
        return read_avro_record(data, path, _operation, _OPERATION_TYPE)
    operation = _last_value(data, "operationType")
    return operation if isinstance(operation, str) else CommitMetadata.from_json(data, path).operation_type


def _last_value(data: bytes, key: str) -> Any:
    """Value of a top-level key, searched from the end of a JSON text; None if this search does not find it."""
    # quotes inside of JSON strings are escaped, so this is the key and nothing else
    quoted = f'"{key}"'.encode()
    start = data.rfind(quoted)
    if start >= 0 and data.rstrip().endswith(b"}"):
        tail = data[start + len(quoted) :].lstrip()
        with contextlib.suppress(ValueError):
            return json.JSONDecoder().raw_decode(tail[1:].decode().lstrip())[0]
    return None


def _operation(values: Mapping[str, Any]) -> str:
    return str(values.get("operationType") or "UNKNOWN")


def _only(field: dict[str, Any]) -> dict[str, Any]:
    """Avro schema of commit metadata projected to one field."""
    return {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "namespace": "org.apache.hudi.avro.model",
        "aliases": ["org.apache.hudi.avro.model.HoodieReplaceCommitMetadata"],
        "fields": [field],
    }


_EXTRA_METADATA: Final = _only(
    {"name": "extraMetadata", "type": ["null", {"type": "map", "values": ["null", "string"]}], "default": None}
)
_OPERATION_TYPE: Final = _only({"name": "operationType", "type": ["null", "string"], "default": None})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    extra = values.get("extraMetadata") or {}
    return {key: _text(value, key) for key, value in extra.items() if value is not None}


def _parse(data: bytes, path: str) -> Any:
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, error.start, "commit metadata that is not UTF-8") from error
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode())
        raise CorruptFileError(path, offset, f"commit metadata that is no JSON, or cut off: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"commit metadata that is no JSON: {error}") from error


def _checked(stat: WriteStat) -> WriteStat:
    """Check the types of the fields that readers use."""
    texts = (stat.file_id, stat.path or "", stat.partition_path, stat.prev_commit)
    numbers = (stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes, stat.file_size_in_bytes)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError(f"a write stat with a field of the wrong type: {stat.path!r}")
    return stat


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key}: {value!r} is not a text")
    return value


def _replaced(groups: Any) -> dict[str, list[str]] | None:
    if groups is None:
        return None
    if not all(isinstance(ids, list) for ids in groups.values()):
        raise TypeError("partitionToReplaceFileIds without lists of file ids")
    return {partition: [_text(file_id, partition) for file_id in ids] for partition, ids in groups.items()}
