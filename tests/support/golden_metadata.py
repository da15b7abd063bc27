"""Metadata tables that Apache Hudi wrote, and Apache's facts about them."""

import functools
import json
import os
import tarfile
import tempfile

import pyarrow as pa

from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.encoding.metadata_records import STATISTICS_SCHEMA
from tests.support.paths import GOLDEN

with tarfile.open(os.path.join(GOLDEN, "metadata_tables", "facts.tar.xz")) as _tar:
    _FACTS = {member.name: _tar.extractfile(member).read() for member in _tar.getmembers()}
with tarfile.open(os.path.join(GOLDEN, "tables", "tables.tar.xz")) as _tar:
    _SHARED = {m.name: _tar.extractfile(m).read() for m in _tar.getmembers() if m.isfile() and "/.hoodie/" in m.name}

NAMES = sorted(name.removesuffix("/golden.json") for name in _FACTS if name.endswith("/golden.json"))
SIMPLE_TYPES = {
    str(kind): kind
    for kind in (pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.bool_(), pa.date32())
}


def facts(name):
    return json.loads(_FACTS[f"{name}/golden.json"])


def lay_out(name, folder):
    """The table's `.hoodie` below a folder; returns the table's base folder."""
    base = os.path.join(str(folder), name)
    prefix = f"{name}/table/"
    for path, data in {**_SHARED, **_FACTS}.items():
        if path.startswith(prefix):
            target = os.path.join(base, path.removeprefix(prefix))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as stream:
                stream.write(data)
    return base


_READ_ONLY = tempfile.TemporaryDirectory()


@functools.cache
def shared(name):
    """The table's base folder, for tests that only read; made once."""
    return lay_out(name, _READ_ONLY.name)


def client_of(base):
    return TableClient.open(Storage(str(base)))


def open_table(base):
    client = client_of(base)
    return MetadataTable.open(client, client.timeline())


def file_rows(table):
    return sorted(tuple(row.values()) for row in table.to_pylist())


def files(*rows):
    """(partition, file name, size) as the tables that the writer takes."""
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    schema = pa.schema([("partition", pa.string()), ("file_name", pa.string()), ("size", pa.int64())])
    return pa.table([pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema)


def statistics(*rows):
    """(partition, file name, column, least, greatest) of longs as a statistics table."""
    records = [
        {
            "partition": partition,
            "file_name": file_name,
            "column": column,
            "type": "int64",
            "min": None if least is None else b"\x06" + zigzag(least),
            "max": None if greatest is None else b"\x06" + zigzag(greatest),
            "value_count": 3,
            "null_count": 3 if least is None else 0,
            "total_size": 90,
            "total_uncompressed_size": 80,
        }
        for partition, file_name, column, least, greatest in rows
    ]
    return pa.Table.from_pylist(records, schema=STATISTICS_SCHEMA)


def zigzag(number):
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
