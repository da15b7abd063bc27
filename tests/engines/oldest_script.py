"""Writes, changes and filters without Spark, on whatever packages this interpreter has; prints what came of them."""

import json
import sys
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from hudi_catalog import create_table
from pushdown import parse_sql

PACKAGES = ("pyarrow", "numpy", "sqlglot", "duckdb", "fastavro", "rich", "typer")


def main(folder: Path) -> None:
    """Rows of string views, dicts whose members have their own order, an update, a merge, and filters as SQL."""
    columns = pa.schema(
        {
            "id": pa.int32(),
            "text": pa.string(),
            "inner": pa.struct([("n", pa.int32()), ("many", pa.list_(pa.int32()))]),
            "amount": pa.decimal128(9, 2),
        }
    )
    table = create_table(folder / "t", columns, record_key="id", buckets=2)
    numbers = pa.array(range(6), pa.int32())
    views = pa.table({"id": numbers, "text": pa.array(["x" * n for n in range(6)], pa.string_view())})
    batches = [*views.to_batches(max_chunksize=2), views.to_batches()[0].slice(0, 0)]
    table.insert(pa.RecordBatchReader.from_batches(views.schema, iter(batches)))
    table.upsert([{"id": 7, "text": "seven", "inner": {"n": 2, "many": [3]}, "amount": Decimal("1.5")}])
    table.update({"text": "'two'"}, where="id = 2")
    merged = pa.table({"id": pa.array([3, 9], pa.int32()), "text": ["three", "nine"]})
    table.merge(merged, on="id").when_matched_update({"text": "source.text"}).execute()
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    report = {
        "packages": {name: version(name) for name in PACKAGES},
        "texts": {row["id"]: row["text"] for row in rows},
        "inner": rows[-1]["inner"],
        "kept": len(table.scan(parse_sql("amount = 1.50BD", "spark")).plan().splits),
        "found": table.scan("amount = 1.5").count(),
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
