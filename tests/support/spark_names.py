"""Checks of tables that SQL names, for any PySpark and any session catalog: tests run them, and scripts elsewhere."""

from __future__ import annotations

import concurrent.futures
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from hudi_catalog import Catalog, explain_scan, open_table, register, sql
from spark_writer.read.jvm import Jvm
from spark_writer.read.names import session_names
from tests.support.spark_reads import ROWS, error_of, ids, kept, make_table, rows


def make_entry(spark: SparkSession, name: str, path: str, provider: str = "hudi") -> None:
    """An entry in the session's catalog as a sync leaves it: Spark's SQL makes none of a provider that it lacks."""
    spark.sql(f"CREATE TABLE {name} (id bigint) USING parquet LOCATION '{path}'")
    jvm = Jvm(spark)
    state: Any = jvm.java_session.sessionState()
    entry = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
    changed = [
        (entry.provider(), jvm.root.scala.Some(provider)),
        (entry.schema(), jvm.schema(open_table(path).to_spark(spark).schema.json())),
    ]
    values = [entry.productElement(number) for number in range(entry.productArity())]
    for old, new in changed:
        values = [new if hasattr(value, "getClass") and value.equals(old) else value for value in values]
    spark.sql(f"DROP TABLE {name}")
    state.catalog().createTable(jvm.construct(entry.getClass().getName(), values), False, False)


def check_names_of_the_catalog(spark: SparkSession, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _check_entry(spark, make_table(Path(folder) / "t"))


def _check_entry(spark: SparkSession, path: str) -> None:
    spark.sql("CREATE DATABASE shop")
    try:
        make_entry(spark, "shop.orders", path)
        before = error_of(lambda: spark.table("shop.orders"))
        assert "data source: hudi" in str(before)
        assert register(spark) == ["shop.orders"]
        count = spark.sql("SELECT count(*) FROM shop.orders o WHERE o.month = 3 AND o.id < 350")
        assert count.first()[0] == 50
        assert kept(spark.table("shop.orders").where("id = 417 AND month = 4")) == 1
        assert "2 of 24 files" in explain_scan(spark.sql("SELECT v FROM shop.orders WHERE month = 3"))
        spark.sql("CREATE VIEW shop.spring AS SELECT id, v FROM shop.orders WHERE month BETWEEN 3 AND 5")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW march AS SELECT id FROM shop.orders WHERE month = 3")
        joined = spark.sql("SELECT a.id FROM shop.orders a JOIN shop.spring b ON a.id = b.id JOIN march USING (id)")
        assert joined.count() == 100
        held = spark.table("shop.orders")
        open_table(path).upsert(rows(range(1200, 1210)).append_column("extra", pa.array([1] * 10)))
        assert held.count() == ROWS
        newest = spark.table("shop.orders")
        assert (newest.count(), newest.columns[-1]) == (ROWS + 10, "extra")
        open_table(path).delete("month = 3")
        assert spark.table("shop.spring").count() == 200
        assert spark.table("march").count() == 0
        check_writes_are_refused(spark, "shop.orders", path)
        spark.sql("CREATE TABLE shop.copy USING parquet AS SELECT id FROM shop.orders WHERE month = 4")
        assert spark.table("shop.copy").count() == 100
        assert "data source: hudi" in str(error_of(lambda: spark.newSession().table("shop.orders").count()))
        assert "not a Hudi table" in str(error_of(lambda: register(spark, ["shop.copy"])))
        assert "did you mean" in str(
            error_of(lambda: register(spark, options={"hoodie.catalog.statistics.memry": "1"}))
        )
        assert "shop.nothing" in str(error_of(lambda: register(spark, ["shop.nothing"])))
        assert "list of names" in str(error_of(lambda: register(spark, "shop.orders")))
    finally:
        spark.sql("DROP DATABASE shop CASCADE")
        spark.catalog.dropTempView("march")


def check_writes_are_refused(spark: SparkSession, name: str, path: str) -> None:
    files = sorted(Path(path).rglob("*"))
    for statement in (
        f"INSERT INTO {name} SELECT * FROM {name}",
        f"INSERT OVERWRITE {name} SELECT * FROM {name}",
        f"INSERT INTO {name} VALUES (1)",
        f"TRUNCATE TABLE {name}",
        f"DELETE FROM {name} WHERE id = 3",
        f"UPDATE {name} SET v = 0",
        f"MERGE INTO {name} AS t USING (SELECT 3 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        error = str(error_of(lambda statement=statement: spark.sql(statement)))
        assert error != "None", statement
        if statement.startswith("INSERT"):
            assert "view" in error.lower(), (statement, error)
            assert "INTERNAL_ERROR" not in error, (statement, error)
        elif not statement.startswith("TRUNCATE"):
            verb = statement.partition(f" {name}")[0]
            assert error.startswith(f"Spark cannot change a view by {verb}; "), (statement, error)
            assert f'hudi_catalog.sql(spark, "{verb} ...")' in error, (statement, error)
    frame = spark.table(name)
    assert error_of(lambda: frame.write.insertInto(name)) is not None
    assert error_of(lambda: frame.writeTo(name).append()) is not None
    assert sorted(Path(path).rglob("*")) == files


def check_views_of_a_warehouse(spark: SparkSession, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = Catalog(folder)
        place = make_table(Path(folder) / "shop.db/orders")
        assert catalog.register(spark) == {"shop_orders": place}
        assert catalog.register(spark, {"o": "shop.orders"}) == {"o": place}
        assert ids(spark.sql("SELECT o.id FROM shop_orders AS o WHERE v < 10")) == [0, 1, 2, 3]
        assert kept(spark.table("o").where("id = 417 AND month = 4")) == 1
        pairs = spark.sql("SELECT x.id FROM o x JOIN shop_orders y ON x.id = y.id WHERE y.month = 3")
        assert pairs.count() == 100
        open_table(place).upsert(rows(range(1200, 1210)))
        assert spark.table("o").count() == ROWS + 10
        check_writes_are_refused(spark, "shop_orders", place)
        assert "no table nothing" in str(error_of(lambda: catalog.register(spark, ["nothing"])))
        assert "list of names" in str(error_of(lambda: catalog.register(spark, "shop.orders")))
        twice = error_of(lambda: catalog.register(spark, ["shop.orders", "shop.db/orders", "shop.orders"]))
        assert "would both be the view shop_orders" in str(twice)
        Path(place).rename(f"{place}.gone")
        error = str(error_of(lambda: spark.table("o"))).split("\n\nJVM stacktrace")[0].strip()
        assert error.startswith("hudi-catalog cannot answer for this name: ")
        assert len(error.splitlines()) == 1
        for view in ("shop_orders", "o"):
            spark.catalog.dropTempView(view)


def check_a_query_has_one_state(spark: SparkSession, path: str) -> None:
    """A writer commits all the time; both mentions in a query show the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        place = make_table(Path(folder) / "t")
        Catalog(folder).register(spark)
        stop = threading.Event()
        commits = []

        def write() -> None:
            # a query here may take longer than cleaning keeps its files
            table = open_table(place, options={"hoodie.clean.automatic": "false"})
            while not stop.is_set():
                table.upsert(rows(range(2), shift=len(commits)))
                commits.append(1)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        counts = set()
        try:
            for _ in range(5):
                text = "SELECT (SELECT sum(v) FROM t) AS a, (SELECT sum(v) FROM (SELECT v FROM t WHERE id >= 0)) AS b"
                one = spark.sql(text).first()
                assert one.a == one.b
                counts.add(one.a)
        finally:
            stop.set()
            writer.join(60)
        assert len(counts) > 1, f"{len(commits)} commits and no change seen"
        spark.catalog.dropTempView("t")


def check_threads_share_the_names_of_a_session(spark: SparkSession, path: str) -> None:
    """The first one in a session registers what Spark calls; what others add is known there."""
    with tempfile.TemporaryDirectory() as folder:
        place = make_table(Path(folder) / "t")
        session = spark.newSession()
        views = [f"v{number}" for number in range(6)]
        with concurrent.futures.ThreadPoolExecutor(len(views)) as pool:
            assert [*pool.map(lambda view: Catalog(folder).register(session, {view: "t"}), views)] == [
                {view: place} for view in views
            ]
        assert [session.table(view).count() for view in views] == [ROWS] * len(views)
        of_view = session_names(session).table_of_view("v0")
        sql(session, f"SELECT count(*) FROM hudi_catalog.`{place}`", options={"hoodie.catalog.statistics.memory": "1"})
        assert session_names(session).table_of_view("v0") is of_view
        assert session_names(session).table_of_view("v1") is not of_view


NAME_CHECKS: dict[str, Callable[[SparkSession, str], None]] = {
    "names_of_the_catalog": check_names_of_the_catalog,
    "views_of_a_warehouse": check_views_of_a_warehouse,
    "a_query_has_one_state": check_a_query_has_one_state,
    "threads_of_a_session": check_threads_share_the_names_of_a_session,
}
