"""Records of the metadata table's bloom filters."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import binaries, one_chunk, schema_of
from table_format.codecs.avro_schema_tree import parse
from table_format.metadata_table.keys import bloom_filter_key
from table_format.slices.file_names import parse_base_file_names
from table_writer.encoding.avro import encode_long, encode_records
from table_writer.encoding.metadata_records import SCHEMA, Records

FILTERS_SCHEMA: Final = schema_of(partition=pa.string(), file_name=pa.string(), type=pa.string(), bloom=pa.binary())
"""Filters of new files: `type` is `SIMPLE` or `DYNAMIC_V0`, `bloom` the base64 text as in Parquet footers."""

TYPE_BLOOM_FILTERS: Final = 4
_NODE = parse(SCHEMA)
_EMPTY, _TRUE, _FALSE = b"\x00", b"\x01", b"\x00"


def bloom_records(filters: pa.Table) -> Records:
    """Records of the `bloom_filters` partition, with the instants that the files' names have.

    Args:
        filters: schema `FILTERS_SCHEMA`, each file once.
    """
    keys = _keys(filters)
    times: Any = pc.fill_null(parse_base_file_names(filters["file_name"])["instant"], "")
    return Records(keys, _values(filters["type"], times, filters["bloom"], len(keys)))


def stored_bloom_records(filters: pa.Table) -> Records:
    """Records of stored filters; columns as in `bloom_filters.newest_filters`."""
    return Records(
        one_chunk(filters["key"]),
        _values(filters["type"], filters["timestamp"], filters["bloom"], filters.num_rows),
    )


def deleted_bloom_records(files: pa.Table) -> Records:
    """Records that delete the filters of deleted files (columns `partition`, `file_name`)."""
    if not files.num_rows:
        return Records.empty()
    keys = _keys(files)
    deleted = {"type": _EMPTY, "timestamp": _EMPTY, "bloomFilter": _EMPTY, "isDeleted": _TRUE}
    return Records(keys, _encoded(deleted, len(keys)))


def _keys(files: pa.Table) -> Any:
    places: Any = zip(files["partition"].to_pylist(), files["file_name"].to_pylist(), strict=True)
    return binaries([bloom_filter_key(partition, name) for partition, name in places])


def _values(kinds: Any, times: Any, blooms: Any, count: int) -> pa.BinaryArray:
    texts = {"type": one_chunk(kinds), "timestamp": one_chunk(times), "bloomFilter": one_chunk(blooms)}
    return _encoded({**texts, "isDeleted": _FALSE}, count)


def _encoded(fields: dict[str, Any], count: int) -> pa.BinaryArray:
    kind = encode_long(TYPE_BLOOM_FILTERS)
    return encode_records(_NODE, {"key": _EMPTY, "type": kind, "BloomFilterMetadata": fields}, count)
