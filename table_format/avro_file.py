"""Avro object container files with one record, in which the timeline keeps plans and results."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import fastavro

from table_format.errors import CorruptFileError

#: What an Avro container file starts with.
MAGIC = b"Obj\x01"

Built = TypeVar("Built")


def read_avro_file(data: bytes, path: str, schema: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The records of a container file, decoded by the schema inside it.

    Args:
        data: the whole file.
        path: of the file, for messages.
        schema: what is wanted of the records, where that is less than all; its named types go by the file's names.

    Raises:
        CorruptFileError: no container file, or a truncated or damaged one.
    """
    if data[:4] != MAGIC:
        raise CorruptFileError(path, 0, f"not an Avro container file: starts with {data[:4]!r}, not {MAGIC!r}")
    stream = io.BytesIO(data)
    try:
        records = list(fastavro.reader(stream, reader_schema=schema))
    except Exception as error:  # fastavro raises many kinds on damaged bytes
        raise CorruptFileError(path, stream.tell(), f"damaged Avro container file: {error!r}") from error
    if not all(isinstance(record, dict) for record in records):
        raise CorruptFileError(path, 0, "an Avro container file whose rows are no records")
    return records  # type: ignore[return-value]


def read_avro_record(
    data: bytes, path: str, build: Callable[[dict[str, Any]], Built], schema: dict[str, Any] | None = None
) -> Built:
    """What `build` makes of the first record of a container file.

    Raises:
        CorruptFileError: the file is damaged, holds no record, or one that `build` stumbles over.
    """
    records = read_avro_file(data, path, schema)
    if not records:
        raise CorruptFileError(path, len(data), "an Avro container file without a record")
    try:
        return build(records[0])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(path, 0, f"an Avro record of an unknown shape: {error!r}") from error


def write_avro_file(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bytes:
    """A container file without compression, as every Hudi reader takes it."""
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(dict(schema)), list(records), codec="null")
    return stream.getvalue()
