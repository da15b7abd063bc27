"""A table whose files were made by row-group surgery, for engines to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.engines.answers import DuckDb, rows_agree
from tests.support.local_writes import LocalTable

NAME = "spliced"
ROWS = 12_000
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("number", pa.int64()),
        ("few", pa.string()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(18, 2)),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
OPTIONS = {
    "hoodie.table.name": NAME,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.precombine.field": "number",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.block.size": "4096",
    "hoodie.parquet.page.size": "2048",
    "hoodie.catalog.write.surgery": "always",
}
#: statements with one whole number each
STATEMENTS = [
    f"SELECT count(*) FROM {NAME}",
    f"SELECT sum(number) FROM {NAME}",
    f"SELECT count(*) FROM {NAME} WHERE id BETWEEN 'k01000' AND 'k01040'",
    f"SELECT count(*) FROM {NAME} WHERE number < 0",
    f"SELECT sum(number) FROM {NAME} WHERE few = 'f3'",
    f"SELECT count(*) FROM {NAME} WHERE few IS NULL",
    f"SELECT sum(number) FROM {NAME} WHERE price > 2900",
    f"SELECT count(*) FROM {NAME} WHERE id >= 'k11990'",
    f"SELECT sum(number) FROM {NAME} WHERE day = DATE '1970-02-10'",
]


def build(folder: Path) -> DuckDb:
    """Insert, change two columns of a few rows, delete some, insert after and between keys. DuckDB has the answers."""
    table = LocalTable.create(str(folder / NAME), SCHEMA, OPTIONS)
    table.write("insert", _rows(range(ROWS)))
    changed = _rows(range(1000, 1030)).set_column(1, "number", pa.array(range(-30, 0), pa.int64()))
    steps = [
        ("upsert", changed.set_column(2, "few", pa.array(["f3"] * 30))),
        ("delete", _rows(range(500, 520))),
        ("upsert", _rows(range(ROWS, ROWS + 50))),
        ("upsert", pa.concat_tables([_rows(range(505, 510), 7), _rows(range(2000, 2003), 9)])),
    ]
    for operation, rows in steps:
        assert table.write(operation, rows).bytes_copied
    return DuckDb.of_warehouse(folder)


def check(ask: Callable[[str], Iterable[Sequence[Any]]], truth: DuckDb) -> None:
    """Whether an engine answers the statements as DuckDb does."""
    for sql in STATEMENTS:
        assert rows_agree(ask(sql), truth.query(sql)) == "", sql


def _rows(numbers: range, version: int = 0) -> pa.Table:
    return pa.Table.from_pylist([_row(number, version) for number in numbers], SCHEMA)


def _row(number: int, version: int) -> dict[str, Any]:
    return {
        "id": f"k{number:05d}",
        "number": number + 100_000 * version,
        "few": f"f{number % 7}" if number % 5 else None,
        "price": number / 4,
        "amount": number,
        "day": number % 90,
        "tags": [f"t{number % 3}", None] if number % 4 else None,
    }
