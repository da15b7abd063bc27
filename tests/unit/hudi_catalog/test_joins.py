"""Joins of tables: what they refuse, when they go by buckets, and rows in wrong buckets."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_catalog
from hudi_catalog import ArgumentError, ExpressionError, SchemaError
from table_format.errors import MissingFileError
from table_format.keys.java_hash import list_hash_one


@pytest.fixture
def orders(tmp_path: Path) -> hudi_catalog.Table:
    table = hudi_catalog.create_table(tmp_path / "orders", "id bigint, day date, v int", record_key="id", buckets=8)
    days = pa.array(np.arange(300, dtype=np.int32)).cast(pa.date32())
    table.bulk_insert(pa.table({"id": range(300), "day": days, "v": pa.array(range(300), pa.int32())}))
    return table


def items_of(path: Path, buckets: int = 4, **options: str) -> hudi_catalog.Table:
    table = hudi_catalog.create_table(
        path,
        "order_id int, line int, v string",
        record_key=["order_id", "line"],
        buckets=buckets,
        options={"hoodie.bucket.index.hash.field": "order_id", **options},
    )
    orders, lines = np.divmod(np.arange(200, 1000), 2)
    values = pa.array(orders.astype(str))
    table.bulk_insert(pa.table({"order_id": orders.astype(np.int32), "line": lines.astype(np.int32), "v": values}))
    return table


def test_columns_and_types_of_the_result(orders: hudi_catalog.Table, tmp_path: Path) -> None:
    items = items_of(tmp_path / "items")
    joined = hudi_catalog.join(orders, items, {"id": "order_id"}, "full")
    assert str(joined.schema).replace("\n", ", ") == (
        "id: int64, day: date32[day], v: int32, line: int32, v_right: string"
    )
    rows = pa.RecordBatchReader.from_stream(joined).read_all()
    assert (rows.schema, rows.num_rows) == (joined.schema, 100 + 400 + 400)
    assert rows["id"].null_count == 0
    assert sorted(rows.filter(pa.compute.is_null(rows["day"]))["id"].unique().to_pylist()) == [*range(300, 500)]
    some = hudi_catalog.join(orders, items, {"id": "order_id"}, columns=["v_right", "day"]).to_arrow()
    assert (some.column_names, some.num_rows) == (["v_right", "day"], 400)
    assert joined.explain() == "full join by buckets, in 4 steps, 8 files of orders and 4 of items"
    assert items.scan(columns=["order_id"]).count() == 800


def test_scans_are_joined_as_they_are(orders: hudi_catalog.Table, tmp_path: Path) -> None:
    items = items_of(tmp_path / "items")
    left, right = orders.scan("v < 150", ["id"], sample="1/4"), items.scan("line = 0", sample="1/4")
    joined = hudi_catalog.join(left, right, {"id": "order_id"})
    assert "2 files of orders and 1 of items" in joined.explain()
    ids = [key for key in range(100, 150) if list_hash_one([str(key)]) % 4 == 0]
    assert sorted(joined.to_arrow()["id"].to_pylist()) == ids


@pytest.mark.parametrize(
    ("on", "how", "arguments", "words"),
    [
        ({"id": "order_id"}, "outer", {}, "give one of inner, left, right, full, semi, anti"),
        ({"id": "order_id"}, "lfet", {}, "did you mean left"),
        ({"id": "order_id"}, "left", {"memory": 1000}, "give 67,108,864 bytes or more"),
        ({"id": "order_id"}, "left", {"columns": ["line", "w"]}, "the join has no column 'w'"),
        ({"id": "order_id"}, "semi", {"columns": ["line"]}, "the join has no column 'line'"),
        ({"id": "order_id"}, "left", {"suffix": ""}, "both sides have a column 'v'"),
        ([], "left", {}, "join needs on"),
        (None, "left", {}, "join needs on"),
        ([1], "left", {}, "join needs on"),
        ({"id": "v"}, "full", {}, "id is a int64 on the left and a string on the right"),
    ],
)
def test_wrong_arguments(
    orders: hudi_catalog.Table, tmp_path: Path, on: Any, how: str, arguments: dict[str, Any], words: str
) -> None:
    items = items_of(tmp_path / "items")
    with pytest.raises(ArgumentError, match=re.escape(words)):
        hudi_catalog.join(orders, items, on, how, **arguments)


def test_wrong_sides(orders: hudi_catalog.Table, tmp_path: Path) -> None:
    items = items_of(tmp_path / "items")
    with pytest.raises(ExpressionError, match="no column order"):
        hudi_catalog.join(orders, items, {"order": "order_id"})
    with pytest.raises(ExpressionError, match="no column id"):
        hudi_catalog.join(orders, items.scan(columns=["line"]), "id")
    with pytest.raises(ArgumentError, match="tables and scans of them, not str"):
        hudi_catalog.join(orders, "items", "id")  # type: ignore[arg-type]
    odd = hudi_catalog.create_table(tmp_path / "odd", "id string", record_key="id", buckets=2)
    odd.insert(pa.table({"id": ["eleven"]}))
    joined = hudi_catalog.join(orders, odd, "id")
    with pytest.raises(hudi_catalog.HudiError, match=r"orders and odd cannot be joined: .*'eleven'"):
        joined.to_arrow()


@pytest.mark.parametrize(
    ("on", "buckets", "words"),
    [
        ({"id": "order_id"}, 3, "neither of the numbers of buckets, 8 and 3, divides the other"),
        ({"v": "order_id"}, 4, "orders: its buckets are by id, and id is no key of the join"),
        ({"id": "line"}, 4, "items: its buckets are by order_id, and order_id is no key of the join"),
        ({"v": "order_id", "id": "line"}, 4, "the tables hash different keys: id and order_id"),
    ],
)
def test_why_all_rows_are_joined_at_once(
    orders: hudi_catalog.Table, tmp_path: Path, on: dict[str, str], buckets: int, words: str
) -> None:
    joined = hudi_catalog.join(orders, items_of(tmp_path / "items", buckets), on, "left")
    assert words in joined.explain()
    assert "left join of all rows at once" in joined.explain()
    assert set(joined.to_arrow()["id"].to_pylist()) == {*range(300)}
    flagged = hudi_catalog.join(orders, orders, "id", by_buckets=False)
    assert "by_buckets is False" in flagged.explain()


def moved_row(table: hudi_catalog.Table) -> int:
    """Put a row into another bucket's file, where its least and greatest keys do not tell; returns its key."""
    file = Path(str(table.scan("id = 10").plan().splits[0].path).removeprefix("file:"))
    rows = pq.read_table(file)
    strange = next(key for key in range(20, 100) if (list_hash_one([str(key)]) - list_hash_one([str(10)])) % 8)
    ids = [strange if key == 10 else key for key in rows["id"].to_pylist()]
    footer = {key: value for key, value in pq.read_schema(file).metadata.items() if key.startswith(b"hoodie")}
    footer |= pq.ParquetFile(file).metadata.metadata
    changed = rows.set_column(rows.schema.get_field_index("id"), "id", pa.array(ids, pa.int64()))
    pq.write_table(changed.replace_schema_metadata(footer), file)
    return strange


def test_a_row_in_a_wrong_bucket_is_never_left_out(orders: hudi_catalog.Table, tmp_path: Path) -> None:
    items = items_of(tmp_path / "items")
    strange = moved_row(orders)
    again = hudi_catalog.open_table(tmp_path / "orders")
    joined = hudi_catalog.join(again, items, {"id": "order_id"}, "left")
    assert "by buckets" in joined.explain()
    with pytest.raises(
        SchemaError, match=rf"'id': {strange}.* is not in the bucket of its key: join with by_buckets=F"
    ):
        joined.to_arrow()
    assert hudi_catalog.join(again, items, {"id": "order_id"}, "left", by_buckets=False).to_arrow().num_rows == 500


def test_a_text_in_a_bucket_of_another_generation(tmp_path: Path) -> None:
    sides = []
    for name in ("a", "b"):
        table = hudi_catalog.create_table(tmp_path / name, "id string, v int", record_key="id", buckets=4)
        table.insert(pa.table({"id": ["k1", "k2", "x:y"], "v": pa.array([1, 2, 3], pa.int32())}))
        sides.append(table)
    joined = hudi_catalog.join(sides[0], sides[1], "id")
    assert "a: the row with {'id': 'x:y'} is not in the bucket of its key" in joined.explain()
    assert joined.to_arrow().num_rows == 3
    assert hudi_catalog.join(sides[0].scan("id < 'x'"), sides[1].scan("id < 'x'"), "id").steps == 4


def test_a_file_that_was_cleaned_is_explained(orders: hudi_catalog.Table, tmp_path: Path) -> None:
    items = items_of(tmp_path / "items")
    joined = hudi_catalog.join(orders, items, {"id": "order_id"}, "left")
    for path in (tmp_path / "items").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(MissingFileError, match="refresh the table, and scan it again"):
        joined.to_arrow()


def test_a_reader_that_is_dropped(orders: hudi_catalog.Table, tmp_path: Path) -> None:
    joined = hudi_catalog.join(orders, items_of(tmp_path / "items"), {"id": "order_id"}, "left")
    batches = joined.to_batches()
    assert next(batches).num_rows
    batches.close()  # type: ignore[attr-defined]
    assert joined.to_batch_reader().read_next_batch().num_rows
