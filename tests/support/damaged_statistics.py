"""A table's metadata table rewritten with less content, or with what Apache Hudi's writers are known to store."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from table_format.metadata_table.reader import MetadataTable
from table_format.table.client import TableClient
from table_writer.encoding.metadata_records import STATISTICS_SCHEMA
from table_writer.metadata.column_statistics import encode_bound
from table_writer.metadata.creation import create_metadata_table
from table_writer.metadata.writer import drop_metadata_table
from tests.support.lost_rows import FullScan

Row = dict[str, Any]
#: takes the statistics of one column in one file and that column's values; None drops the row
Change = Callable[[Row, Any], Row | None]


def rebuilt_statistics(path: str, full: FullScan, change: Change, extra: list[Row] | None = None) -> None:
    """Write the metadata table again, each row of its column statistics as `change` gives it.

    Args:
        path: of the table.
        full: its rows.
        change: what becomes of a row.
        extra: more rows of statistics.
    """
    client = TableClient.open(path)
    metadata = MetadataTable.open(client, client.timeline())
    assert metadata is not None
    files = metadata.files()
    partition_of = dict(zip(files["file_name"].to_pylist(), files["partition"].to_pylist(), strict=True))
    values = _values_by_file(full)
    rows = []
    # File names are random: rows come in the order of what the files hold, so that an example can be run again.
    places = {name: place for place, name in enumerate(values)}
    raws = metadata.column_stats_raw().to_pylist()
    for raw in sorted(raws, key=lambda row: (places.get(row["file_name"], -1), row["column"])):
        column = values.get(raw["file_name"], {}).get(raw["column"])
        changed = raw if column is None else change(raw, column)
        if changed is not None and raw["file_name"] in partition_of:
            rows.append({**changed, "partition": partition_of[raw["file_name"]], "type": ""})
    partitions = metadata.all_partitions()
    drop_metadata_table(client)
    statistics = pa.Table.from_pylist([*rows, *(extra or [])], STATISTICS_SCHEMA)
    create_metadata_table(client, files=files, all_partitions=partitions, column_stats=statistics)


def without_metadata_table(path: str) -> None:
    drop_metadata_table(TableClient.open(path))


def without_some_files(chance: random.Random) -> Change:
    """Some files have no statistics at all."""
    gone: dict[str, bool] = {}

    def change(row: Row, _: Any) -> Row | None:
        return None if gone.setdefault(row["file_name"], chance.random() < 0.5) else row

    return change


def without_some_rows(chance: random.Random) -> Change:
    """Some files have no statistics of some columns, or no bound, or no count (0.x writers, columns added later)."""

    def change(row: Row, _: Any) -> Row | None:
        what = chance.randrange(6)
        if what == 0:
            return None
        if what == 1:
            return {**row, "min": None, "max": None, "null_count": None}
        return {**row, "null_count": None} if what == 2 else row

    return change


def as_apache_writes(chance: random.Random) -> Change:
    """Bounds as releases of Apache Hudi are known to store them where they are wrong."""

    def change(row: Row, column: Any) -> Row | None:
        kind = column.type
        present = column.drop_null()
        if not len(present):
            return {**row, "min": None, "max": None, "null_count": len(column)}
        if pa.types.is_floating(kind):
            return _floating(row, present, chance)
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return _variable(row, present, len(column), chance)
        return row

    return change


def _floating(row: Row, present: Any, chance: random.Random) -> Row:
    """Parquet's Java writer stores 0.0 .. 0.0 for a chunk with NaN, others leave the bounds out (PARQUET-1246)."""
    numbers = [value for value in present.to_pylist() if not math.isnan(value)]
    if len(numbers) == len(present):
        return row
    low = min(numbers, default=math.nan)
    pairs = [(0.0, 0.0), (0.0, 0.0), (None, None), (low, math.nan), (math.nan, math.nan), (-math.inf, math.inf)]
    lower, upper = chance.choice(pairs)
    return {**row, "min": _wrapped(lower, present.type), "max": _wrapped(upper, present.type)}


def _variable(row: Row, present: Any, count: int, chance: random.Random) -> Row:
    """Long values have no bounds in Parquet, which becomes "all null"; others are compared as Java does."""
    texts = present.to_pylist()
    kind = present.type
    data = [text.encode() if isinstance(text, str) else text for text in texts]
    if max(map(len, data)) > 2048:
        return {**row, "min": None, "max": None, "null_count": count}
    if chance.random() < 0.5:
        return row
    order = _utf16 if pa.types.is_string(kind) else _signed
    return {**row, "min": encode_bound(min(texts, key=order), kind), "max": encode_bound(max(texts, key=order), kind)}


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def _signed(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"{len(data)}b", data)


def _wrapped(value: float | None, kind: pa.DataType) -> bytes | None:
    return None if value is None else encode_bound(value, kind)


def _values_by_file(full: FullScan) -> dict[str, dict[str, Any]]:
    """The columns of each file by name, without nested ones; files in the order of their first keys."""
    names = full.rows.column("_hoodie_file_name").to_pylist()
    values: dict[str, dict[str, Any]] = {}
    order = full.rows.sort_by([("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")])
    ordered: list[Any] = order.column("_hoodie_file_name").to_pylist()
    for name in dict.fromkeys(ordered):
        rows = full.rows.filter(pa.array([other == name for other in names]))
        values[name] = {
            field.name: rows.column(field.name).combine_chunks()
            for field in rows.schema
            if not pa.types.is_nested(field.type)
        }
    return values
