"""Delete blocks of Hudi log files: deleted keys, in version 3 of the block (Avro)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from struct import Struct
from typing import Any

import fastavro
import numpy as np

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.log.blocks import LogBlock

HEAD = Struct(">ii")
VERSION = 3
_NAMESPACE = "org.apache.hudi.avro.model"
PRESENT, _INT_BRANCH = b"\x02", b"\x04"
NATURAL = _INT_BRANCH + b"\x00"

_WRAPPED: tuple[tuple[str, Any], ...] = (
    ("Boolean", "boolean"),
    ("Int", "int"),
    ("Long", "long"),
    ("Float", "float"),
    ("Double", "double"),
    ("Bytes", "bytes"),
    ("String", "string"),
    ("Date", "int"),
    ("Decimal", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    ("TimeMicros", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicros", "long"),
)


def _wrapper(name: str, value: Any) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": value}]}


def _schema() -> Any:
    """Schema of the list of deleted records; 1.x added the union's last branch, for several ordering fields."""
    wrappers = [_wrapper(name, value) for name, value in _WRAPPED]
    names = ["null", *(f"{name}Wrapper" for name, _ in _WRAPPED)]
    items = [*names, _wrapper("LocalDate", "int")]
    array_field = {"name": "wrappedValues", "type": ["null", {"type": "array", "items": items}]}
    ordering = ["null", *wrappers, {"type": "record", "name": "ArrayWrapper", "fields": [array_field]}]
    fields = [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ordering},
    ]
    record = {"type": "record", "name": "HoodieDeleteRecord", "fields": fields}
    listed = {"name": "deleteRecordList", "type": {"type": "array", "items": record}}
    return fastavro.parse_schema(
        {"type": "record", "name": "HoodieDeleteRecordList", "namespace": _NAMESPACE, "fields": [listed]}
    )


SCHEMA = _schema()
_TIMESTAMP = f"{_NAMESPACE}.TimestampMicrosWrapper"
NATURAL_ORDER = (f"{_NAMESPACE}.IntWrapper", {"value": 0})


@dataclass(frozen=True, slots=True)
class DeletedRecord:
    """One deleted key.

    Attributes:
        key: the record key.
        partition: the partition path, or the partition of the metadata table.
        ordering: value of the ordering field, a list for several; None, like Java's int 0, for a delete that always
            wins over earlier versions. A 0 of another type is an ordinary value. A TimestampMicros is a `datetime64`;
            a Long may be a timestamp too, in the unit of its column.
    """

    key: str | None
    partition: str | None
    ordering: Any = None


def read_deletes(block: LogBlock) -> list[DeletedRecord]:
    """Parse the deleted keys of a delete block.

    Raises:
        CorruptFileError: the content does not follow the format.
        UnsupportedTableError: versions 1 and 2, which contain Java objects in Kryo's encoding.
    """
    content = bytes(block.content)
    if not content:
        return []
    if len(content) < HEAD.size:
        raise CorruptFileError(block.path, block.content_offset, "a delete block is cut off; restore the file")
    version, length = HEAD.unpack_from(content)
    if version in (1, 2):
        raise UnsupportedTableError(
            f"{block.path}: delete block of version {version} (before Hudi 0.14); compact the table with Hudi first"
        )
    if version != VERSION or length != len(content) - HEAD.size:
        raise CorruptFileError(block.path, block.content_offset, "a delete block of unknown version or wrong length")
    stream = io.BytesIO(content[HEAD.size :])
    try:
        listed: Any = fastavro.schemaless_reader(stream, SCHEMA, None, return_record_name=True)
    except Exception as error:  # fastavro raises many kinds of errors on damaged bytes
        raise CorruptFileError(
            block.path, block.content_offset, f"a delete block does not follow its Avro schema ({error!r})"
        ) from error
    if stream.tell() != length:
        raise CorruptFileError(block.path, block.content_offset, "bytes follow the list of a delete block")
    return [
        DeletedRecord(record["recordKey"], record["partitionPath"], _ordering(record["orderingVal"]))
        for record in listed["deleteRecordList"]
    ]


def read_deleted_keys(block: LogBlock) -> list[bytes]:
    """Keys of a delete block without nulls; many times as fast as `read_deletes` in common cases.

    Raises:
        CorruptFileError: the content does not follow the format.
        UnsupportedTableError: versions 1 and 2.
    """
    keys = read_uniform_keys(block)
    if keys is not None:
        return keys
    return [record.key.encode() for record in read_deletes(block) if record.key is not None]


def read_uniform_keys(block: LogBlock) -> list[bytes] | None:
    """Keys of a delete block whose records are all of one partition and without ordering values; None for others.

    The keys are bytes as stored, not checked to be UTF-8.
    """
    content = bytes(block.content)
    if len(content) > HEAD.size and HEAD.unpack_from(content) == (VERSION, len(content) - HEAD.size):
        return _uniform_keys(content[HEAD.size :])
    return None


def _uniform_keys(payload: bytes) -> list[bytes] | None:
    """Keys of records that all have the same end, as those of one partition without ordering values; else None.

    The payload is split at the end of the first record. Each part must have the length of its key, or else a key
    contains such an end itself.
    """
    count, at = _long(payload, 0)
    length, key = _long(payload, at + 1)
    name_length, name = _long(payload, key + length + 1)
    end = payload[key + length : name + name_length + 2]
    if count < 1 or length < 0 or not 0 <= name_length < len(payload) or end[:1] != PRESENT or end[-2:] != NATURAL:
        return None
    parts = payload[at:].split(end)
    if len(parts) != count + 1 or parts[-1] != b"\x00":
        return None
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=count + 1)[:-1]
    starts = at + np.cumsum(sizes + len(end)) - sizes - len(end)
    data = np.frombuffer(payload, dtype=np.uint8)
    widths = np.ones(count, dtype=np.int64) + (sizes - 3 >= 64) + (sizes - 4 >= 8192)
    lengths = sizes - 1 - widths
    if (lengths < 0).any() or (lengths >= 1 << 20).any() or (data[starts] != PRESENT[0]).any():
        return None
    coded_lengths = np.zeros(count, dtype=np.int64)
    for place in range(3):
        inside = widths > place
        byte = data[np.where(inside, starts + 1 + place, 0)].astype(np.int64)
        coded_lengths |= np.where(inside, (byte & 0x7F) << (7 * place), 0)
        if (inside & ((byte >= 0x80) != (widths > place + 1))).any():
            return None
    if (coded_lengths != 2 * lengths).any():
        return None
    return [part[width:] for part, width in zip(parts, (1 + widths).tolist(), strict=False)]


def _long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and its end; -1 if there is none of up to five bytes."""
    value = 0
    for place, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    return -1, at


def _ordering(wrapped: Any) -> Any:
    if wrapped is None:
        return None
    name, record = wrapped
    if "wrappedValues" in record:
        return [None if value is None else _value(*value) for value in record["wrappedValues"] or []]
    return None if (name, record) == NATURAL_ORDER else _value(name, record)


def _value(wrapper: str, record: dict[str, Any]) -> Any:
    return np.datetime64(record["value"], "us") if wrapper == _TIMESTAMP else record["value"]
