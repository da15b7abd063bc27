"""Updates and merges that Spark computes: what they change, what they read, and what they refuse."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import HudiError, HudiTable, sql
from pushdown.errors import ExpressionError
from table_format.errors import ArgumentError, RecordError, SchemaError

pytestmark = pytest.mark.spark
DDL = "id bigint, p string, n int, s string"
NAMES = ["id", "p", "n", "s"]


@pytest.fixture(params=["BUCKET", "RECORD_INDEX", "BUCKET, by tasks"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> HudiTable:
    index, _, by_tasks = request.param.partition(", ")
    made = HudiTable.create(
        spark,
        tmp_path / "t",
        DDL,
        record_key="id",
        partition_by="p",
        index=index,
        buckets=2 if index == "BUCKET" else None,
        options={"hoodie.catalog.write.driver.bytes": "0"} if by_tasks else {},
    )
    made.upsert(frame(spark, [(number, "ab"[number % 2], number, None) for number in range(8)]))
    return made


def frame(spark: SparkSession, rows: Any, ddl: str = DDL) -> DataFrame:
    return spark.createDataFrame(rows, ddl)


def content(table: HudiTable) -> dict[int, tuple[Any, ...]]:
    """Columns `n` and `s` by key, as Python reads them."""
    rows = HudiTable.open(table.client.storage.uri).scan(columns=NAMES).to_arrow().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: (row["n"], row["s"]) for row in rows}


FIRST: dict[int, tuple[Any, ...]] = {number: (number, None) for number in range(8)}


def test_updates(table: HudiTable) -> None:
    summary = table.update({"n": "n * 2", "s": F.concat(F.lit("x"), F.col("p"))}, "id = 3")
    assert summary.rows_updated == 1
    table.update({"n": None, "s": "'gone'"}, F.col("id") == 4)
    table.update({"s": F.lit("never")}, "s = NULL")  # null is not true
    assert content(table) == {**FIRST, 3: (6, "xb"), 4: (None, "gone")}


def test_a_merge_uses_the_first_clause_that_holds(table: HudiTable, spark: SparkSession) -> None:
    rows = [(1, "b", 100, "m"), (77, "a", 5, "new"), (2, "a", None, "del"), (3, "b", None, "null"), (78, "a", None, "")]
    merge = table.merge(frame(spark, rows), "id")
    merge.when_matched_delete("source.s = 'del'")
    merge.when_matched_update({"n": "source.n + target.n", "s": F.col("source.s")}, "source.n > 0")
    merge.when_not_matched_insert_all(F.col("source.n") > 0)
    summary = merge.when_not_matched_by_source_update({"s": "'old'"}, F.col("target.id") > 6).execute()
    assert (summary.rows_inserted, summary.rows_updated, summary.rows_deleted) == (1, 2, 1)
    changed = {**FIRST, 1: (101, "m"), 7: (7, "old"), 77: (5, "new")}
    del changed[2]
    assert content(table) == changed


def test_conditions_of_a_join(table: HudiTable, spark: SparkSession) -> None:
    rows = frame(spark, [(1, "b", 9, "x"), (None, "b", 9, "x"), (50, "a", 9, "y")])
    table.merge(rows, F.col("target.id") == F.col("source.id")).when_matched_update_all().execute()
    table.merge(rows, "target.id = source.id AND target.n > 100").when_matched_delete().execute()
    with pytest.raises(ArgumentError, match="record key's column 'id'"):
        table.merge(rows, F.col("target.id") > F.col("source.id")).when_not_matched_insert_all()
    assert content(table) == {**FIRST, 1: (9, "x")}
    known = rows.where("id IS NOT NULL")
    table.merge(known, ["id", "p"]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == {**FIRST, 1: (9, "x"), 50: (9, "y")}
    dotted = known.withColumnRenamed("id", "a.id")
    table.merge(dotted, "target.id = source.`a.id`").when_matched_update({"n": "source.n + 1"}).execute()
    assert content(table) == {**FIRST, 1: (10, "x"), 50: (10, "y")}


REFUSED: list[tuple[Callable[[HudiTable, DataFrame], Any], type[HudiError], str]] = [
    (lambda table, _: table.update({"n": "id * 10000000000"}), RecordError, "column n is int"),
    (lambda table, _: table.update({"id": "id + 1"}), RecordError, "'id' of the record key"),
    (lambda table, _: table.update({"n": "explode(array(1, 2))"}), ExpressionError, "a function of several rows"),
    (lambda table, _: table.update({"nn": 1}), SchemaError, "no column 'nn'.*'n'"),
    (lambda table, rows: table.merge(rows, "id").execute(), ArgumentError, "needs a clause"),
    (
        lambda table, rows: table.merge(rows.union(rows), "id").when_matched_update_all().execute(),
        RecordError,
        "several rows in the source",
    ),
    (
        lambda table, rows: (
            table.merge(rows.union(rows), ["id", "p"]).when_matched_update_all().when_not_matched_insert_all().execute()
        ),
        RecordError,
        "several rows in the source",
    ),
]


@pytest.mark.parametrize(("change", "kind", "reason"), REFUSED)
def test_what_is_refused_changes_nothing(
    table: HudiTable, spark: SparkSession, change: Any, kind: type[HudiError], reason: str
) -> None:
    rows = frame(spark, [(1, "b", 9, "x")])
    with pytest.raises(kind, match=reason):
        change(table, rows)
    assert content(table) == FIRST


def test_records_move_to_other_partitions(table: HudiTable, spark: SparkSession) -> None:
    assert table.update({"p": "'c'", "n": "n + 1"}, "id >= 6").rows_deleted == 2
    rows = [
        (0, "b", 10, "m"),
        (1, "a", 11, "m"),
        (2, None, 12, "m"),
        (3, "b", -1, ""),
        (6, "a", -1, ""),
        (9, "c", 9, ""),
    ]
    merge = table.merge(frame(spark, rows), "id")
    merge.when_matched_update({"p": "source.p", "n": "source.n", "s": "'moved'"}, "source.n > 0")
    summary = merge.when_matched_delete().when_not_matched_insert_all().execute()
    assert summary.rows_inserted == 4
    found = HudiTable.open(table.client.storage.uri).scan(columns=NAMES).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (0, "b", 10, "moved"),
        (1, "a", 11, "moved"),
        (2, None, 12, "moved"),
        (4, "a", 4, None),
        (5, "b", 5, None),
        (7, "c", 8, None),
        (9, "c", 9, ""),
    ]
    if "record_index" in table.config.metadata_partitions:
        assert table.verify_index().is_right
        return
    table.upsert(frame(spark, [(4, "b", 0, "other")]))
    table.update({"p": "CASE p WHEN 'a' THEN 'b' ELSE 'a' END"}, "id = 4")  # they change places
    found = HudiTable.open(table.client.storage.uri).scan("id = 4", NAMES).to_arrow().to_pylist()
    assert sorted((row["p"], row["s"]) for row in found) == [("a", "other"), ("b", None)]
    for where, reason in (("id = 4", "moves to a partition that has"), ("id = 4 AND s IS NULL", "are new")):
        with pytest.raises(RecordError, match=reason):
            table.update({"p": "'a'"}, where)


def test_a_conflicting_write_computes_the_rows_again(
    table: HudiTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    import spark_writer.in_place.changed_rows as module

    other = HudiTable.open(table.client.storage.uri)
    few = module.ChangedFrame._few
    calls = []

    def interrupted(*arguments: Any) -> Any:
        result = few(*arguments)
        calls.append(dt.datetime.now(dt.UTC))
        if len(calls) == 1:
            other.upsert(frame(spark, [(3, "b", 100, None)]))
        return result

    monkeypatch.setattr(module.ChangedFrame, "_few", interrupted)
    table.update({"n": "n + 1"}, "id = 3")
    assert len(calls) == 2
    assert content(table)[3] == (101, None)


def test_evolution_adds_the_sources_columns(table: HudiTable, spark: SparkSession) -> None:
    rows = frame(spark, [(1, "b", 2.5)], "id bigint, p string, extra double")
    with pytest.raises(SchemaError, match="no column 'extra'"):
        table.merge(rows, "id").when_matched_update_all()
    table.merge(rows, "id").with_schema_evolution().when_matched_update_all().execute()
    extra = table.to_df().where("id = 1").select("n", "extra").collect()
    assert [tuple(row) for row in extra] == [(1, 2.5)]
    assert {row.extra for row in table.to_df().where("id <> 1").collect()} == {None}
    named = table.merge(rows.selectExpr("id", "extra + 1 AS more", "p AS unnamed"), "id").with_schema_evolution()
    named.when_matched_update({"more": "source.more"}).when_not_matched_by_source_update({"n": "0"}, "id = 2").execute()
    changed = table.to_df().where("id IN (1, 2)").orderBy("id").select("n", "more").collect()
    assert [tuple(row) for row in changed] == [(1, 3.5), (0, None)]
    assert "unnamed" not in table.to_df().columns


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("joined", ["names", "text", "column"])
@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_zeros_of_two_signs_are_two_keys(spark: SparkSession, tmp_path: Path, index: str, joined: str) -> None:
    on: Any = "target.k = source.k" if joined == "text" else ["k", "p"]
    if joined == "column":
        on = F.col("target.k") == F.col("source.k")
    ddl, nan = "k double, p double, v int", float("nan")
    buckets = 2 if index == "BUCKET" else None
    table = HudiTable.create(spark, tmp_path / "z", ddl, record_key="k", partition_by="p", index=index, buckets=buckets)
    table.upsert(frame(spark, [(0.0, -0.0, 1), (nan, 1.0, 2), (7.0, 7.0, 3)], ddl))
    source = frame(spark, [(-0.0, -0.0, 10), (nan, 1.0, 20)], ddl)

    def values() -> dict[str, int]:
        return {str(row.k): row.v for row in table.to_df().collect()}

    table.merge(source, on).when_matched_update({"v": "source.v"}).execute()
    assert values() == {"0.0": 1, "nan": 20, "7.0": 3}
    merge = table.merge(source, on).when_matched_update({"v": "source.v + 1"}).when_not_matched_insert_all()
    merge.when_not_matched_by_source_update({"v": "v - 10"}).execute()
    assert values() == {"0.0": -9, "-0.0": 10, "nan": 21, "7.0": -7}
    assert table.update({"v": "v + 1"}, "k = 0").rows_updated == 2
    assert table.merge(source, on).when_matched_delete().execute().rows_deleted == 2
    assert values() == {"0.0": -8, "7.0": -7}


DOUBLED: dict[str, Callable[[HudiTable], Any]] = {
    "update": lambda table: table.update({"n": "n + 10"}, "n < 2"),
    "update of all": lambda table: table.update({"n": "n + 10"}),
    "delete": lambda table: table.delete("n < 2"),
    "UPDATE": lambda table: sql(table.to_df().sparkSession, f"UPDATE {named(table)} SET n = n + 10 WHERE n < 2"),
    "DELETE": lambda table: sql(table.to_df().sparkSession, f"DELETE FROM {named(table)} WHERE n < 2"),
    "move": lambda table: table.update({"p": "'c'"}, "n < 2"),
}


def named(table: HudiTable) -> str:
    return f"hudi_catalog.`{table.client.storage.uri}`"


def rows_of(table: HudiTable) -> list[tuple[Any, ...]]:
    rows = HudiTable.open(table.client.storage.uri).scan(columns=NAMES).to_arrow().to_pylist()
    return sorted((row["id"], row["p"], row["n"]) for row in rows)


def test_a_change_of_other_rows_than_those_of_its_condition_is_refused(spark: SparkSession, table: HudiTable) -> None:
    """Where inserts left several rows of a key."""
    check_refused(spark, table)
    if table.config.index_type == "BUCKET":
        assert table.delete("id = 1").rows_deleted == 3


@pytest.mark.parametrize("options", [{}, {"hoodie.catalog.record.index.driver.rows": "0"}])
def test_such_a_change_is_refused_in_several_file_groups_a_bucket(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    sizes = {"hoodie.catalog.bucket.max.file.size": "1"}
    table = HudiTable.create(
        spark, tmp_path / "s", DDL, record_key="id", partition_by="p", buckets=1, options={**sizes, **options}
    )
    table.upsert(frame(spark, [(number, "ab"[number % 2], number, None) for number in range(8)]))
    check_refused(spark, table)
    assert table.delete("id = 1").rows_deleted == 3


def check_refused(spark: SparkSession, table: HudiTable) -> None:
    table.bulk_insert(frame(spark, [(1, "b", 20, None), (1, "b", 21, None)]))
    before = rows_of(table)
    for name, change in DOUBLED.items():
        with pytest.raises(
            RecordError, match=r"several rows in the table, such as '?1|from several rows, such as 'b/1"
        ):
            change(table)
        assert rows_of(table) == before, name
    merge = table.merge(frame(spark, [(1, "b", 9, "x")]), "id").when_matched_update({"n": "source.n"})
    with pytest.raises(RecordError, match=r"several rows in the table, such as \{'id': 1, 'p': 'b'\}"):
        merge.execute()
    assert rows_of(table) == before
    assert table.update({"n": "n + 10"}, "id = 2").rows_updated == 1


def test_structs_with_fields_that_their_columns_have_not_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """They were written as null."""
    ddl = "id bigint, s struct<x:int,y:string>, a array<struct<n:int>>"
    table = HudiTable.create(spark, tmp_path / "t", ddl, record_key="id", buckets=1)
    table.upsert(spark.createDataFrame([(1, (1, "a"), [(1,)])], ddl))
    other = spark.createDataFrame([(1, ("n", 5))], "id bigint, s struct<Y:string,x:int>")
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: table.update({"s": "named_struct('X', 5, 'y', 'n')"}), r"no field 'X' \(did you mean x\?\)"),
        (lambda: table.update({"s": F.struct(F.lit(5), F.lit("n"))}), "no field 'col1'"),
        (lambda: table.update({"s": "named_struct('x', 5, 'y', 'n', 'z', 1)"}), "no field 'z'"),
        (lambda: table.merge(other, "id").when_matched_update_all().execute(), "no field 'Y'"),
        (
            lambda: table.merge(other, "id").when_matched_update_all().when_not_matched_insert_all().execute(),
            "no field 'Y'",
        ),
    ]
    for change, reason in changes:
        with pytest.raises(SchemaError, match=reason):
            change()
    table.update({"s": "named_struct('y', 'n', 'x', 5)", "a": "array()"})
    assert table.to_df().select("s", "a").collect() == [((5, "n"), [])]
    table.update({"s": "NULL", "a": "array(NULL)"})
    assert table.to_df().select("s", "a").collect() == [(None, [None])]
