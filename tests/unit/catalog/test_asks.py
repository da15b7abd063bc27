"""Ways in which readers of Hudi tables lost rows or returned deleted ones, each on a table made for it.

The issues are those of Apache Hudi; tests on tables that Apache wrote are in `test_known_losses`.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from catalog import Plan, StageResult, Table
from pushdown import HudiExpression, col
from table_format.config.table_config import update_table_config
from table_format.metadata_table.reader import MetadataTable
from table_writer.metadata.column_statistics import encode_bound
from tests.support import damaged_statistics as damaged
from tests.support.local_writes import LocalTable
from tests.support.lost_rows import FullScan, check_filter, check_read

Made = Callable[..., LocalTable]
INDEX_ONLY = {"hoodie.catalog.scan.footer.limit": "0"}


@pytest.fixture
def make(tmp_path: Any) -> Made:
    """Tables with key `k`, four buckets."""

    def create(**options: Any) -> LocalTable:
        return LocalTable.create(
            str(tmp_path / "table"),
            None,
            {
                "hoodie.table.name": "t",
                "hoodie.datasource.write.recordkey.field": "k",
                "hoodie.bucket.index.num.buckets": 4,
                **{key.replace("__", "."): value for key, value in options.items()},
            },
        )

    return create


def bucket_stage(plan: Plan) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == "bucket")


def path_of(written: LocalTable) -> str:
    return str(written.client.storage.full_uri("")).removeprefix("file:").rstrip("/")


def rows(first: int, count: int, **columns: Any) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + count), pa.int64()), **columns})


def check(path: str, condition: HudiExpression | str, options: Mapping[str, str] | None = None) -> int:
    """No row is lost; how many there are."""
    table = Table.open(path)
    full = FullScan.of(table)
    check_filter(table, full, condition, options or INDEX_ONLY)
    if not isinstance(condition, str):
        check_read(table, full, condition)
    return table.scan(condition, options=options or INDEX_ONLY).to_arrow().num_rows


def damage(path: str, column: str, change: Callable[[dict[str, Any], Any], dict[str, Any] | None]) -> FullScan:
    """Change the statistics of one column."""
    full = FullScan.of(Table.open(path))
    damaged.rebuilt_statistics(path, full, lambda row, values: change(row, values) if row["column"] == column else row)
    return full


@pytest.mark.parametrize("condition", ["s IS NULL", "s <=> NULL", "NOT (s IS NOT NULL)", "s IS NULL AND k < 100"])
@pytest.mark.parametrize("how", ["no row of statistics", "no null count", "no bounds, no null count"])
@pytest.mark.slow
def test_1_null_where_the_null_count_is_unknown(make: Made, condition: str, how: str) -> None:
    # H#19645: IS NULL dropped the files older than a column
    written = make()
    written.write("bulk_insert", rows(0, 20))
    written.write("upsert", rows(20, 4, s=pa.array(["a", "b", None, "c"])))
    path = path_of(written)
    if how != "no row of statistics":
        count = {"null_count": None} if how == "no null count" else {"null_count": None, "min": None, "max": None}
        damage(path, "s", lambda row, _: {**row, **count})
    assert check(path, condition) == 21
    assert check(path, "s IS NOT NULL") == 3


def test_1_all_null_files_are_told_by_their_count(make: Made) -> None:
    written = make()
    written.write("bulk_insert", rows(0, 20, n=pa.array([None] * 20, pa.int64())))
    assert check(path_of(written), "n <=> NULL") == 20
    assert len(Table.open(path_of(written)).scan("n IS NOT NULL").plan()) == 0


@pytest.mark.parametrize("bounds", [(0.0, 0.0), (-0.0, 0.0), (None, None), (math.nan, math.nan), (1.0, math.nan)])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.slow
def test_2_one_nan_hides_no_row(make: Made, bounds: tuple[Any, Any], kind: pa.DataType) -> None:
    # H#18754: one NaN was stored as min = max = 0.0, and hid rows of other values
    written = make(hoodie__bucket__index__num__buckets=1)
    written.write("bulk_insert", rows(0, 4, x=pa.array([1.0, math.nan, 7.5, None], kind)))
    path = path_of(written)
    low, high = (None if bound is None else encode_bound(bound, kind) for bound in bounds)
    damage(path, "x", lambda row, _: {**row, "min": low, "max": high})
    for condition, count in {
        "x = 7.5": 1,
        "x > 1": 2,  # NaN is the greatest number
        "x < 2": 1,
        "x <> 0": 3,
        "NOT (x = 0)": 3,
        "x IN (1, 2)": 1,
        "x = double('NaN')": 1,
        "x <=> double('NaN')": 1,
    }.items():
        assert check(path, condition) == count, condition
    assert not Table.open(path).scan("x = 0").plan().fully_matching.any()


def test_2_what_we_write_of_nan_is_sound(make: Made) -> None:
    written = make(hoodie__bucket__index__num__buckets=1)
    written.write("bulk_insert", rows(0, 2, x=pa.array([math.nan, 0.0])))
    written.write("upsert", rows(2, 1, x=pa.array([-0.0])))
    for condition, count in {"x > 5": 1, "x = 0": 2, "x >= 0": 3, "x < 0": 0}.items():
        assert check(path_of(written), condition) == count, condition


@pytest.mark.slow
@pytest.mark.parametrize("length", [1200, 2100, 5000, 100_000])
def test_3_texts_too_long_for_statistics(make: Made, length: int) -> None:
    # H#18755: Parquet leaves the bounds of long values out, and the index said that all rows are null
    written = make(hoodie__bucket__index__num__buckets=1)
    long = "x" * length
    written.write("bulk_insert", rows(0, 3, s=pa.array([long, long + "y", None]), b=pa.array([long.encode()] * 3)))
    path = path_of(written)
    conditions = {col("s") == long: 1, col("s").starts_with("xx"): 2, col("s") > "x": 2, col("b") == long.encode(): 3}
    conditions |= {col("s").is_in([long + "y", "q"]): 1, col("s").is_null(): 1, col("s").is_not_null(): 2}
    for condition, count in conditions.items():
        assert check(path, condition) == count
    if length > 2048:
        everything = {"min": None, "max": None, "null_count": 3}
        for column in ("s", "b"):
            damage(path, column, lambda row, _: {**row, **everything})
        for condition, count in conditions.items():
            assert check(path, condition) == count
        assert not Table.open(path).scan(col("s").is_null()).plan().fully_matching.any()


def test_4_prefixes(make: Made) -> None:
    # H#18791: LIKE 'x%' was taken for min <= 'x' <= max
    written = make(hoodie__bucket__index__num__buckets=1)
    texts = ["xa", "xb", "x😀", "y", "x\U0010ffff\U0010ffff", "ax"]
    written.write("bulk_insert", rows(0, 6, s=pa.array(texts)))
    path = path_of(written)
    for condition, count in {
        "s LIKE 'x%'": 4,
        "s LIKE 'xb%'": 1,
        "s LIKE '%x'": 1,
        "s LIKE 'x_'": 3,
        "s NOT LIKE 'x%'": 2,
        "startswith(s, 'x😀')": 1,
        "s LIKE 'x\U0010ffff%'": 1,
        "s LIKE '%'": 6,
    }.items():
        assert check(path, condition) == count, condition
    assert len(Table.open(path).scan("s LIKE 'z%'").plan()) == 0
    # 'x' itself is below every value of this file that starts with it.
    written.write("insert_overwrite_table", rows(0, 2, s=pa.array(["xa", "xb"])))
    assert check(path, "s LIKE 'x%'") == 2
    assert Table.open(path).scan("s LIKE 'x%'").plan().fully_matching.all()


def test_5_an_unbound_hash_field_is_no_empty_plan(make: Made) -> None:
    # H#19487: "cannot prune" was an empty set of buckets
    keys = {"hoodie__datasource__write__recordkey__field": "k,k2", "hoodie__bucket__index__hash__field": "k2"}
    written = make(**keys)
    written.write("bulk_insert", rows(0, 12, k2=pa.array([*"abcdefghijkl"])))
    path = path_of(written)
    assert check(path, "k = 3") == 1
    assert check(path, "k = 3 OR k2 = 'a'") == 2
    assert check(path, "k2 <> 'a'") == 11
    assert check(path, "k2 = 'a'") == 1
    plan = Table.open(path).scan("k2 = 'a'").plan()
    assert bucket_stage(plan).pruned
    assert len(plan) == 1


def test_5_partitions_with_bucket_counts_of_their_own(make: Made) -> None:
    written = make()
    written.write("bulk_insert", rows(0, 12))
    path = path_of(written)
    folder = f"{path}/.hoodie/.bucket_index/partition_bucket_index_meta/configs"
    os.makedirs(folder)
    with open(f"{folder}/00000000000000000.hashing_config", "w", encoding="utf-8"):
        pass
    plan = Table.open(path).scan("k = 3").plan()
    assert not bucket_stage(plan).pruned
    assert check(path, "k = 3") == 1


@pytest.mark.parametrize("how", ["unindexed", "null statistics"])
def test_6_indexed_and_unindexed_columns_together(make: Made, how: str) -> None:
    # HUDI-7246: a mixed filter returned nothing; H PR 7672: null statistics for columns that are not indexed
    listed = {"hoodie__metadata__index__column__stats__column__list": "k,a"} if how == "unindexed" else {}
    written = make(**listed)
    values = pa.array(range(20), pa.int64())
    written.write("bulk_insert", rows(0, 20, a=values, b=values))
    path = path_of(written)
    if how == "null statistics":
        nothing = {"min": None, "max": None, "null_count": None, "value_count": None}
        damage(path, "b", lambda row, _: {**row, **nothing})
    wanted = {"a = 3 AND b = 3": 1, "a = 3 OR b = 4": 2, "NOT (a = 3 AND b = 3)": 19, "b = 3": 1}
    for options in (INDEX_ONLY, {}):
        for condition, count in wanted.items():
            assert check(path, condition, options) == count, condition
    assert len(Table.open(path).scan("a = 300 AND b = 3", options=INDEX_ONLY).plan()) == 0


@pytest.mark.parametrize("record_index", [False, True])
def test_7_lists_on_other_columns_than_the_key(make: Made, record_index: bool) -> None:
    # HUDI-7569: IN on another column was looked up as record keys
    written = make()
    other = pa.array(range(100, 120), pa.int64())
    struct = pa.array([{"k": number} for number in range(20, 0, -1)], pa.struct([("k", pa.int64())]))
    written.write("bulk_insert", rows(0, 20, other=other, st=struct))
    path = path_of(written)
    if record_index:
        listed = ",".join([*written.client.reload().metadata_partitions, "record_index"])
        update_table_config(written.client.storage, {"hoodie.table.metadata.partitions": listed})
    for condition, count in {
        "other IN (100, 101, 119)": 3,
        "st.k IN (20, 19)": 2,
        "st.k = 1": 1,
        "k IN (3, 4) OR other IN (100)": 3,
        "k IN (3, 4)": 2,
        "k NOT IN (3, 4)": 18,
    }.items():
        assert check(path, condition) == count, condition
    assert not bucket_stage(Table.open(path).scan("other IN (100, 101)").plan()).pruned


def test_29_an_index_entry_is_no_proof_of_a_file(make: Made) -> None:
    # H PR 12105, 18402: entries of cleaned files linger in column_stats
    written = make(hoodie__cleaner__commits__retained=1, hoodie__bucket__index__num__buckets=2)
    for number in range(4):
        written.write("upsert", rows(0, 8, n=pa.array([number] * 8, pa.int64())))
    path = path_of(written)
    table = Table.open(path)
    present = set(table.snapshot().files["file_name"].to_pylist())
    client = written.client
    index = MetadataTable.open(client, client.timeline())
    assert index is not None
    # What our own cleaner removes, it takes out of the index.
    kept = {name for *_, names in os.walk(path) for name in names if name.endswith(".parquet")}
    assert len(kept) < 8
    assert set(index.column_stats("n", pa.int64())["file_name"].to_pylist()) == kept
    lingering = [
        {**row, "file_name": row["file_name"].replace(row["file_name"][-25:-8], "20200101000000000")}
        for row in index.column_stats_raw(["n"]).to_pylist()
    ]
    extra = [{**row, "partition": "", "type": "", "min": encode_bound(0, pa.int64())} for row in lingering]
    damaged.rebuilt_statistics(path, FullScan.of(table), lambda row, _: row, extra)
    again = Table.open(path)
    index = MetadataTable.open(client, client.timeline())
    assert index is not None
    assert len(index.column_stats("n", pa.int64())) > len(kept)
    assert set(again.snapshot().files["file_name"].to_pylist()) == present
    assert check(path, "n = 3") == 8
    assert check(path, "n = 0") == 0
    assert {split.file_name for split in again.scan("n >= 0").plan().splits} == present


def test_29_a_file_that_is_gone_is_said_to_be(make: Made) -> None:
    from table_format.errors import MissingFileError

    written = make(hoodie__bucket__index__num__buckets=1)
    written.write("bulk_insert", rows(0, 3))
    path = path_of(written)
    table = Table.open(path)
    (split,) = table.scan().plan().splits
    os.remove(f"{path}/{split.file_name}")
    with pytest.raises(MissingFileError, match=split.file_id):
        table.scan("k = 1").to_arrow()


@pytest.mark.slow
def test_missing_statistics_of_any_files_keep_them(make: Made) -> None:
    written = make()
    written.write("bulk_insert", rows(0, 40, n=pa.array(range(40), pa.int64())))
    path = path_of(written)
    full = FullScan.of(Table.open(path))
    damaged.rebuilt_statistics(path, full, damaged.without_some_files(random.Random(5)))
    for number in range(40):
        assert check(path, f"n = {number}") == 1


@pytest.mark.slow
def test_a_table_without_files_takes_any_filter(make: Made) -> None:
    kinds: list[Any] = [pa.decimal128(38, 0), pa.decimal128(10, 2), pa.string(), pa.binary(), pa.date32(), pa.float32()]
    kinds += [pa.bool_()]
    written = make()
    columns = {f"c{place}": pa.nulls(2, kind) for place, kind in enumerate(kinds)}
    written.write("bulk_insert", rows(0, 2, **columns))
    path = path_of(written)
    conditions = ["c0 = 1", "c1 < 1.5", "c2 LIKE 'a%'", "c3 = X'00'", "c4 > DATE '2020-01-01'", "c5 IN (1, 2)", "c6"]
    for condition in conditions:
        assert check(path, condition) == 0
    written.write("delete", rows(0, 2))
    assert Table.open(path).scan().to_arrow().num_rows == 0
    for condition in conditions:
        assert check(path, condition) == 0
    written.write("delete_partition", partitions=["*"])
    for condition in conditions:
        assert len(Table.open(path).scan(condition).plan()) == 0


def test_days_beyond_the_year_9999(make: Made) -> None:
    # Python has none; files and engines do.
    written = make(hoodie__bucket__index__num__buckets=1)
    days = pa.array([2932896, 2932897, -719163, None], pa.int32()).cast(pa.date32())
    written.write("bulk_insert", rows(0, 4, d=days, t=days.cast(pa.timestamp("us", "UTC"))))
    path = path_of(written)
    for condition, count in {
        "d > DATE '9999-12-31'": 1,
        "d < TIMESTAMP '9999-12-31 12:00:00'": 2,
        "d >= TIMESTAMP '9999-12-31 12:00:00'": 1,
        "t > TIMESTAMP '9999-12-31 23:59:59.999999'": 1,
        "t < DATE '0001-01-01'": 1,
        "d IS NULL": 1,
    }.items():
        assert check(path, condition) == count, condition


def test_bounds_in_the_order_of_java_hide_no_row(make: Made) -> None:
    # Hudi merges row groups' bounds by UTF-16 units and by signed bytes; files and engines compare unsigned bytes
    written = make(hoodie__bucket__index__num__buckets=1)
    texts, data = ["a", "\ue000", "😀"], [b"a", b"\x7f", b"\xff"]
    written.write("bulk_insert", rows(0, 3, s=pa.array(texts), b=pa.array(data)))
    path = path_of(written)
    damage(path, "s", lambda row, _: {**row, "max": encode_bound("\ue000", pa.string())})
    signed = {"min": encode_bound(b"\xff", pa.binary()), "max": encode_bound(b"\x7f", pa.binary())}
    damage(path, "b", lambda row, _: {**row, **signed})
    for text in texts:
        assert check(path, col("s") == text) == 1
        assert check(path, col("s") >= text) == 3 - texts.index(text)
    for value in data:
        assert check(path, col("b") == value) == 1
        assert check(path, col("b") <= value) == 1 + data.index(value)
