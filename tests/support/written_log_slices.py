"""File slices made by hand: base rows and log blocks, read as one table."""

import base64
import io
import json
import os
import struct
import tempfile

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.avro_schema import avro_to_arrow
from table_format.instant import Instant, State
from table_format.log import deletes
from table_format.log.blocks import BlockType, HeaderKey
from table_format.merge.file_slice import read_file_slice
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline
from table_writer.encoding.hfile import write_hfile
from table_writer.encoding.log_blocks import write_hfile_block, write_log_block


def _optional(name, kind):
    return {"name": name, "type": ["null", kind], "default": None}


SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        _optional("_hoodie_record_key", "string"),
        _optional("ts", "long"),
        _optional("v", "string"),
        _optional("w", "int"),
        _optional("_hoodie_is_deleted", "boolean"),
    ],
}


def row(key, ts, v, w=None):
    return {"_hoodie_record_key": key, "ts": ts, "v": v, "w": w, "_hoodie_is_deleted": None}


def avro_content(records, schema=SCHEMA):
    parts = [(3).to_bytes(4, "big"), len(records).to_bytes(4, "big")]
    parsed = fastavro.parse_schema(schema)
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(
            out, parsed, {field["name"]: record.get(field["name"]) for field in schema["fields"]}
        )
        parts += [len(out.getvalue()).to_bytes(4, "big"), out.getvalue()]
    return b"".join(parts)


def avro_block(instant, records, schema=SCHEMA, header=None):
    text = json.dumps(schema)
    head = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: text, **(header or {})}
    return write_log_block(BlockType.AVRO_DATA, head, avro_content(records, schema))


def hfile_block(instant, records, schema=SCHEMA):
    """Records by key in an HFile, each as Avro."""
    parsed, contents = fastavro.parse_schema(schema), {}
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(
            out, parsed, {field["name"]: record.get(field["name"]) for field in schema["fields"]}
        )
        contents[record["_hoodie_record_key"].encode()] = out.getvalue()
    text, keys = json.dumps(schema), sorted(contents)
    return write_hfile_block(instant, text, write_hfile(keys, [contents[key] for key in keys], schema_json=text))


def positioned(rows, base="0"):
    """Header entries of a block whose records are of these rows, ascending, of the base file of an instant."""
    bitmap = struct.pack(f"<QIIIHHI{len(rows)}H", 1, 0, 12346, 1, 0, len(rows) - 1, 16, *rows)
    return {
        HeaderKey.RECORD_POSITIONS: base64.b64encode(bitmap).decode(),
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: base,
    }


def ordered_deletes(instant, keys, wrapper, value, header=None):
    """A delete block whose records have an ordering value of that type."""
    member = "wrappedValues" if wrapper == "Array" else "value"
    ordering = (f"org.apache.hudi.avro.model.{wrapper}Wrapper", {member: value})
    listed = [{"recordKey": key, "partitionPath": "", "orderingVal": ordering} for key in keys]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, deletes.SCHEMA, {"deleteRecordList": listed})
    content = (3).to_bytes(4, "big") + len(out.getvalue()).to_bytes(4, "big") + out.getvalue()
    return write_log_block(BlockType.DELETE, {0: instant, 2: "{}", **(header or {})}, content)


def read(base, blocks, rules, schema=None, columns=None, base_schema=None):
    """The merged rows of base rows (none for no base file) and log blocks, one log file a block; all instants count.

    The columns are those of `schema`; the base file has those of `base_schema`.
    """
    arrow = schema or avro_to_arrow(SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        logs = [f".f-0_1.log.{number}_0-0-0" for number in range(1, len(blocks) + 1)]
        for name, data in zip(logs, blocks, strict=True):
            with open(os.path.join(folder, name), "wb") as stream:
                stream.write(data)
        path = None
        if base:
            path = "f-0_0-0-0_0.parquet"
            pq.write_table(pa.Table.from_pylist(base, base_schema or arrow), os.path.join(folder, path))
        storage = Storage(folder)
        timeline = Timeline(storage, (Instant("999", "deltacommit", State.COMPLETED),))
        return read_file_slice(storage, path, logs, schema=arrow, columns=columns, rules=rules, timeline=timeline)
