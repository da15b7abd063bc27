"""Avro object container files with one record, the format of the timeline's plans and results."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

import fastavro

from table_format.codecs.avro_schema_tree import Node, parse
from table_format.codecs.inflation import MEBIBYTE, InflationError, inflate, most_inflated
from table_format.errors import CorruptFileError, SchemaError, UnsupportedTableError

#: Magic of Avro container files.
MAGIC = b"Obj\x01"
_SYNC: Final = 16
# Apache Hudi does not compress these files; in other writers' files text shrinks to a twentieth at most.
_FLOOR: Final = 8 * MEBIBYTE
_RATIO: Final = 32
Built = TypeVar("Built")


def read_avro_file(data: bytes, path: str, schema: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Decode the records of a container file by its own schema.

    Args:
        data: the whole file.
        path: of the file, for messages.
        schema: projection of the records; its named types have the names in the file.

    Raises:
        CorruptFileError: not a container file, a damaged one, one whose blocks decompress to more than 32
            times the file's size and to more than 8 MiB, or one whose schema lets few bytes encode any number
            of values.
        UnsupportedTableError: an unknown codec.
    """
    if data[:4] != MAGIC:
        raise CorruptFileError(path, 0, f"not an Avro container file: starts with {data[:4]!r}, not {MAGIC!r}")
    stream = io.BytesIO(data)
    stream.seek(len(MAGIC))
    at = len(MAGIC)
    try:
        header = dict(_header(stream))
        sync = _exactly(stream, _SYNC)
        writer = json.loads(header["avro.schema"])
        tree = parse(writer)
        _check_bounded(tree, frozenset(), set())
        writer = fastavro.parse_schema(writer)
        records: list[Any] = []
        left = most_inflated(len(data), floor=_FLOOR, ratio=_RATIO)
        codec = header.get("avro.codec", b"null").decode()
        while (at := stream.tell()) < len(data):
            count, block = _block(stream, sync, codec, left)
            left -= len(block)
            records += _records(count, block, writer, schema, tree)
    except InflationError as error:
        raise CorruptFileError(path, at, f"a block of an Avro container file is refused: {error}") from error
    except _UnknownCodecError as error:
        raise UnsupportedTableError(
            f"{path}: an Avro container file of codec {error}; write it uncompressed"
        ) from error
    except Exception as error:  # fastavro raises many kinds on damaged bytes
        raise CorruptFileError(path, max(at, stream.tell()), f"damaged Avro container file: {error!r}") from error
    if not all(isinstance(record, dict) for record in records):
        raise CorruptFileError(path, 0, "an Avro container file with other values than records")
    return records


class _UnknownCodecError(Exception):
    pass


def _header(stream: io.BytesIO) -> Iterator[tuple[str, bytes]]:
    """Entries of the metadata map in the header."""
    while count := _long(stream):
        if count < 0:  # a negative count is followed by the size of its entries
            count = -count
            _long(stream)
        for _ in range(count):
            key = _exactly(stream, _long(stream)).decode()
            yield key, _exactly(stream, _long(stream))


def _block(stream: io.BytesIO, sync: bytes, codec: str, most: int) -> tuple[int, bytes]:
    """Record count and content of the next block."""
    count, size = _long(stream), _long(stream)
    body = _exactly(stream, size)
    if _exactly(stream, _SYNC) != sync:
        raise ValueError("a block does not end with the file's marker")
    try:
        return count, body if codec == "null" else inflate(codec, body, most)
    except KeyError as error:
        raise _UnknownCodecError(repr(codec)) from error


def _records(count: int, block: bytes, writer: Any, schema: dict[str, Any] | None, tree: Node) -> Iterator[Any]:
    if not 0 <= count <= (1 if _is_empty(tree) else len(block)):
        raise ValueError(f"a block of {len(block)} bytes cannot hold {count} records")
    content = io.BytesIO(block)
    for _ in range(count):
        yield fastavro.schemaless_reader(content, writer, schema)
    if content.tell() != len(block):
        raise ValueError("bytes follow the records of a block")


def _long(stream: io.BytesIO) -> int:
    """A zigzag varint."""
    value = shift = 0
    while shift < 64:
        (byte,) = _exactly(stream, 1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    raise ValueError("a number is longer than 64 bits")


def _exactly(stream: io.BytesIO, size: int) -> bytes:
    """Read exactly n bytes; raises on early EOF."""
    data = stream.read(size) if size >= 0 else b""
    if len(data) != size:
        raise ValueError("it is cut off")
    return data


def _check_bounded(node: Node, above: frozenset[int], checked: set[int]) -> None:
    """Refuse schemas by which the decoder's stack or output may be larger than its input.

    These have types that contain themselves, or values without bytes, of which few bytes can encode any number.
    """
    if id(node) in above:
        raise SchemaError(f"the type {node.name} contains itself")
    if id(node) in checked:
        return
    parts = [*(child for _, child in node.fields), *([node.item] if node.item else [])]
    for child in [*parts, *node.branches]:
        _check_bounded(child, above | {id(node)}, checked)
    for child in parts:
        if _is_empty(child):
            raise SchemaError(f"a field or item of type {child.name}, which takes no bytes")
    checked.add(id(node))


def _is_empty(node: Node) -> bool:
    """Whether values of the type take no bytes; fields of records were checked before."""
    return (
        (node.kind == "record" and not node.fields) or node.kind == "null" or (node.kind == "fixed" and not node.size)
    )


def read_avro_record(
    data: bytes, path: str, build: Callable[[dict[str, Any]], Built], schema: dict[str, Any] | None = None
) -> Built:
    """Read the first record of a container file and convert it by `build`.

    Raises:
        CorruptFileError: the file is damaged, has no record, or one that `build` cannot convert.
    """
    records = read_avro_file(data, path, schema)
    if not records:
        raise CorruptFileError(path, len(data), "an Avro container file without a record")
    try:
        return build(records[0])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(path, 0, f"an Avro record of an unknown shape: {error!r}") from error


class AvroContent:
    """Base of the classes that stand for a container file with one record."""

    __slots__ = ()

    @classmethod
    def from_avro(cls, data: bytes, path: str) -> Self:
        """Read a file's content.

        Raises:
            CorruptFileError: the file is damaged or of another shape.
        """
        return read_avro_record(data, path, cls.of)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From the decoded record; raises KeyError or TypeError for one of another shape."""
        raise NotImplementedError


def write_avro_file(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bytes:
    """Write a container file without compression, which every Hudi reader supports."""
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(dict(schema)), list(records), codec="null")
    return stream.getvalue()
