"""What the archives of the corpus say of metadata tables."""

import datetime as dt
import io
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.log.blocks import BlockType, read_log_blocks
from table_format.meta_columns import META_COLUMNS
from tests.golden.corpus.written import Written
from tests.golden.packing import Members, as_json, below
from tests.support.catalog_tables import NAMES

_PARTITION_FILE = ".hoodie_partition_metadata"
#: Tables of `metadata_tables/facts.tar.xz` that `tables/tables.tar.xz` does not hold.
_FACTS_WITH_TABLES = (
    *("v6_0150__mor_pending", "v6_0150__rli_rollback", "v6_1200__bkt_archive", "v6_1200__bkt_restore"),
    "v6_1200__mor_log",
)
#: Tables of `metadata_tables/facts.tar.xz`: all with a metadata table.
FACTS = (*(name for name in NAMES if not name.endswith("nomdt")), *_FACTS_WITH_TABLES)
#: Tables of `metadata_tables/newer.tar.xz`.
NEWER_METADATA_TABLES = (
    *("v6_0150__rli_uuid", "v8_1020__mor_rli", "v8_1020__rli_rollback", "v9_1200__bloom_replace"),
    *("v9_1200__edge_stats", "v9_1200__mor_bkt", "v9_1200__rli_archive", "v9up_1200__bkt_restore"),
)


def metadata_facts(written: Mapping[str, Written]) -> Members:
    """What Apache says of metadata tables, and the `.hoodie` folder of tables that stand in no other archive."""
    members: Members = {}
    for name in FACTS:
        one = written[name]
        listed = one.apache["files"]
        facts = {
            "column_types": [[f.name, str(f.type)] for f in one.rows.schema if f.name not in META_COLUMNS],
            "file_slices": one.slices,
            "files": [[partition, *file] for partition, files in listed.items() for file in files.items()],
            "partitions": sorted(listed),
            "all_column_stats": bool(one.apache["records"]),
            "column_stats": one.apache["records"] or _of_one_reader(one.apache["column_stats"]),
            "disk": [[path, size] for path, size in one.data_files().items() if not path.endswith(_PARTITION_FILE)],
        }
        members |= below(f"{name}/table", one.hoodie()) if name in _FACTS_WITH_TABLES else {}
        members[f"{name}/golden.json"] = as_json(facts)
    return members


def _of_one_reader(stats: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What Apache's reader of statistics says, in the form of the records; it shows bounds without their wrappers."""
    counts = ("value_count", "null_count", "total_size", "total_uncompressed_size")
    names = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
    return [
        {
            "fileName": file,
            "columnName": column,
            **{f"{end}Value": {"value": row[end]} for end in ("min", "max") if row[end] is not None},
            **{name: row[count] for name, count in zip(names, counts, strict=True)},
        }
        for column, files in stats.items()
        for file, row in files.items()
        if not row["deleted"]
    ]


def newer_metadata_tables(written: Mapping[str, Written]) -> Members:
    """`.hoodie` folders, and facts about the data that their metadata tables tell of."""
    members: Members = {}
    for name in NEWER_METADATA_TABLES:
        one = written[name]
        stats = [
            [file, column, row["null_count"], row["value_count"]]
            for column, rows in one.apache["column_stats"].items()
            for file, row in rows.items()
            if not row["deleted"]
        ]
        files = [path for path in one.data_files() if not path.endswith(_PARTITION_FILE)]
        indexed = "record_index" in one.apache["properties"].get("hoodie.table.metadata.partitions", "")
        has_filters = "bloom_filters" in one.apache["properties"].get("hoodie.table.metadata.partitions", "")
        facts = {
            "disk": [[*_place(path), one.data_files()[path]] for path in files],
            "truth": {_place(path)[1]: _bounds(_rows_of_file(one, path), one) for path in files},
            "locations": _locations(one) if indexed else [],
            "keys": {_place(path)[1]: _keys(one, path) for path in files} if has_filters else {},
            "partition_stats": one.apache["partition_stats"],
            "column_stats": stats,
        }
        members |= below(f"{name}/table", one.hoodie())
        members[f"{name}/golden.json"] = as_json(facts)
    return members


def _place(path: str) -> tuple[str, str]:
    place = PurePosixPath(path)
    return ("" if str(place.parent) == "." else str(place.parent)), place.name


def _rows_of_file(one: Written, path: str) -> pa.Table:
    """The rows of a base file, or the records of a log file, decoded by another Avro library."""
    data = (one.path / path).read_bytes()
    if path.endswith(".parquet"):
        return pq.read_table(io.BytesIO(data)).replace_schema_metadata(None)
    records: list[Any] = []
    for block in read_log_blocks(data, path):
        if block.type is BlockType.AVRO_DATA:
            schema = fastavro.parse_schema(json.loads(str(block.schema_json)))
            records += [fastavro.schemaless_reader(io.BytesIO(one), schema) for one in _avro_records(block.content)]
    names = one.rows.column_names
    return pa.Table.from_pylist(
        [{name: record.get(name) for name in names} for record in records], schema=one.rows.schema
    )


def _avro_records(content: memoryview) -> Iterator[bytes]:
    """Version, count, and each record after its length, as big-endian integers of four bytes."""
    count, position = int.from_bytes(content[4:8], "big"), 8
    for _ in range(count):
        length = int.from_bytes(content[position : position + 4], "big")
        yield bytes(content[position + 4 : position + 4 + length])
        position += 4 + length


def _bounds(rows: pa.Table, one: Written) -> dict[str, list[Any]]:
    """By column: least and greatest value without NaN, nulls, rows, NaNs."""
    made = {}
    for field in one.rows.schema:
        if pa.types.is_nested(field.type):
            continue
        values = rows[field.name].to_pylist() if field.name in rows.column_names else [None] * len(rows)
        present = [value for value in values if value is not None]
        numbers = [value for value in present if value == value]
        ends = [min(numbers, key=_order), max(numbers, key=_order)] if numbers else [None, None]
        made[field.name] = [
            *(_shown(value) for value in ends),
            len(values) - len(present),
            len(values),
            len(present) - len(numbers),
        ]
    return made


def _order(value: Any) -> Any:
    """Texts in the order of their UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def _shown(value: Any) -> Any:
    """Decimals as text, bytes in hex, dates and times as Avro counts them."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return value


def _locations(one: Written) -> list[list[str]]:
    columns = (one.texts(f"_hoodie_{name}") for name in ("record_key", "partition_path", "file_name"))
    return [[key, partition, file.partition("_")[0]] for key, partition, file in zip(*columns, strict=True)]


def _keys(one: Written, path: str) -> list[str]:
    return pq.read_table(one.path / path, columns=["_hoodie_record_key"])[0].to_pylist()
