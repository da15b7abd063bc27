"""Statements of SQL: what they change, beside the same by DataFrames and a dictionary, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from hudi_catalog import Catalog, HudiError, HudiTable, WriteSummary, register, sql
from pushdown.errors import ExpressionError, FilterSyntaxError
from table_format.errors import OptionError, RecordError, SchemaError, TableNotFoundError
from tests.support.spark_names import make_entry
from tests.support.spark_reads import conf

pytestmark = pytest.mark.spark
DDL = "id bigint, p string, n int, s string"
Row = tuple[Any, ...]
FIRST: dict[int, Row] = {number: ("ab"[number % 2], number, f"s{number}") for number in range(8)}


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table that the session's SQL names: `orders` by a view, `shop.orders` by an entry."""
    path = str(tmp_path / "orders")
    made = HudiTable.create(spark, path, DDL, record_key="id", partition_by="p", buckets=2)
    made.upsert(frame(spark, [(key, *row) for key, row in FIRST.items()]))
    spark.sql("CREATE DATABASE shop")
    make_entry(spark, "shop.orders", path)
    Catalog(str(tmp_path)).register(spark)
    frame(spark, [(1, "b", 100, "m"), (2, "a", None, None), (50, "a", 5, "new")]).createOrReplaceTempView("news")
    yield path
    spark.sql("DROP DATABASE shop CASCADE")
    for view in ("orders", "news"):
        spark.catalog.dropTempView(view)


def frame(spark: SparkSession, rows: Any, ddl: str = DDL) -> DataFrame:
    return spark.createDataFrame(rows, ddl)


def content(path: str) -> dict[int, Row]:
    """Rows by key, as Python reads them."""
    rows = HudiTable.open(path).scan(columns=["id", "p", "n", "s"]).to_arrow().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: (row["p"], row["n"], row["s"]) for row in rows}


def change(spark: SparkSession, text: str, **options: Any) -> WriteSummary:
    summary = sql(spark, text, **options)
    assert isinstance(summary, WriteSummary)
    return summary


def query(spark: SparkSession, text: str) -> list[Row]:
    rows = sql(spark, text)
    assert isinstance(rows, DataFrame)
    return sorted(map(tuple, rows.collect()))


def test_updates_and_deletes(spark: SparkSession, place: str) -> None:
    summary = change(spark, "UPDATE shop.orders o SET o.n = o.n * 2, s = 'it''s' -- each\nWHERE o.id = 3;")
    assert summary.rows_updated == 1
    changed = {**FIRST, 3: ("b", 6, spark.sql("SELECT 'it''s'").first()[0])}
    assert content(place) == changed
    change(spark, "update orders set n = case when s = 's4' then null else n end where orders.p = 'a'")
    changed[4] = ("a", None, "s4")
    assert content(place) == changed
    assert change(spark, f"DELETE FROM hudi_catalog.`{place}` AS t WHERE t.n IS NULL OR id = 0").rows_deleted == 2
    change(spark, "DELETE FROM orders WHERE id IN (SELECT max(id) FROM shop.orders WHERE p = 'b')")
    for key in (4, 0, 7):
        del changed[key]
    assert content(place) == changed
    change(spark, "DELETE FROM spark_catalog.shop.orders")
    assert content(place) == {}


def test_a_merge_of_all_clauses(spark: SparkSession, place: str) -> None:
    summary = change(
        spark,
        f"""WITH picked AS (SELECT id, p AS part, n, s FROM news WHERE id > 0)
        MERGE INTO hudi_catalog.`{place}` AS t USING (SELECT * FROM picked) AS s (id, part, n, s)
        ON t.id = s.id /* the key */
        WHEN MATCHED AND s.n IS NULL THEN DELETE
        WHEN MATCHED AND CASE WHEN s.n > t.n THEN TRUE ELSE FALSE END THEN UPDATE SET t.n = s.n + t.n, s = s.s
        WHEN NOT MATCHED BY TARGET AND s.n > 4 THEN INSERT (id, p, n) VALUES (s.id, part, s.n * 2)
        WHEN NOT MATCHED BY SOURCE AND t.id > 6 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.id > 5 THEN UPDATE SET s = concat(t.s, '!')""",
    )
    assert (summary.rows_inserted, summary.rows_updated, summary.rows_deleted) == (1, 2, 2)
    changed = {**FIRST, 1: ("b", 101, "m"), 6: ("a", 6, "s6!"), 50: ("a", 10, None)}
    del changed[2], changed[7]
    assert content(place) == changed


def test_merges_of_tables_that_have_names(spark: SparkSession, place: str, tmp_path: Path) -> None:
    other = HudiTable.create(
        spark, tmp_path / "other", DDL + ", more int", record_key="id", partition_by="p", buckets=1
    )
    other.upsert(frame(spark, [(1, "b", 9, "o", 7), (60, "a", 9, "o", 8)], DDL + ", more int"))
    make_entry(spark, "shop.other", str(tmp_path / "other"))
    merge = "INTO shop.orders USING shop.other ON orders.id <=> shop.other.id"
    with pytest.raises(SchemaError, match="no column 'more'"):
        change(spark, f"MERGE {merge} WHEN MATCHED THEN UPDATE SET *")
    clauses = "UPDATE SET s = other.s, n = other.more WHEN NOT MATCHED THEN INSERT (id, p) VALUES (id, p)"
    change(spark, f"MERGE {merge} WHEN MATCHED THEN {clauses}")
    assert content(place) == {**FIRST, 1: ("b", 7, "o"), 60: ("a", None, None)}
    change(spark, f"MERGE WITH SCHEMA EVOLUTION {merge} WHEN MATCHED THEN UPDATE SET *")
    assert query(spark, "SELECT id, n, more FROM shop.orders WHERE more IS NOT NULL") == [(1, 9, 7), (60, 9, 8)]
    again = f"MERGE INTO orders USING hudi_catalog.`{tmp_path}/other` o ON orders.id = o.id AND orders.p = o.p"
    change(spark, f"{again} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    assert query(spark, "SELECT count(*), count(more) FROM shop.orders") == [(9, 2)]


def test_inserts(spark: SparkSession, place: str) -> None:
    assert change(spark, "INSERT INTO orders VALUES (10, 'a', 1, 'x'), (11, 'b', NULL, 'y')").rows_inserted == 2
    change(spark, "INSERT INTO TABLE shop.orders (s, p, id) SELECT upper(s), p, id + 20 FROM news WHERE id < 3")
    change(spark, "INSERT INTO shop.orders BY NAME SELECT 'b' AS P, 30L AS id")
    change(
        spark,
        "WITH some AS (FROM orders SELECT * WHERE id = 10) INSERT INTO orders SELECT * FROM some",
        options={"hoodie.datasource.insert.dup.policy": "drop"},
    )
    change(spark, "INSERT INTO orders PARTITION (p = 'a') (SELECT 40, 4, 'p')")
    more = {10: ("a", 1, "x"), 11: ("b", None, "y"), 21: ("b", None, "M"), 22: ("a", None, None)}
    more |= {30: ("b", None, None), 40: ("a", 4, "p")}
    assert content(place) == {**FIRST, **more}
    for text, value in (
        ("INSERT INTO orders VALUES (60, 'a', 10000000000, 'x')", "10000000000"),
        ("INSERT INTO orders SELECT 60, 'a', 'many', 'x'", "many"),
    ):
        with pytest.raises(RecordError, match=rf"^column n is int, which does not hold the value {value}$"):
            change(spark, text)
    with conf(spark, spark_sql_sources_partitionOverwriteMode="dynamic"):
        change(spark, "INSERT OVERWRITE orders VALUES (2, 'a', 20, 'z')")
    assert {key: row for key, row in content(place).items() if row[0] == "a"} == {2: ("a", 20, "z")}
    assert len(content(place)) == 8
    change(spark, "INSERT OVERWRITE TABLE orders SELECT * FROM orders WHERE id < 4")
    assert content(place) == {1: FIRST[1], 3: FIRST[3], 2: ("a", 20, "z")}


def test_queries(spark: SparkSession, place: str) -> None:
    texts = [
        "SELECT count(*) FROM orders o JOIN shop.orders p USING (id) WHERE o.p = 'a'",
        f"WITH c AS (SELECT id FROM hudi_catalog.`{place}` WHERE p = 'a') SELECT count(*) FROM c",
        f"SELECT (SELECT count(*) FROM hudi_catalog.`{place}` x WHERE x.p = 'a')",
        "(SELECT 4)",
        "VALUES (4);",
        "FROM orders SELECT count(*) WHERE p = 'a'",
    ]
    for text in texts:
        assert query(spark, text) == [(4,)]
    before = sql(spark, "SELECT id FROM shop.orders")
    spark.sql("REFRESH TABLE shop.orders")
    change(spark, "DELETE FROM shop.orders WHERE id = 0")
    assert query(spark, "SELECT count(*) FROM shop.orders") == [(7,)]
    assert isinstance(before, DataFrame)
    assert before.count() == 8
    register(spark)


MERGE = "MERGE INTO orders t USING news s ON t.id = s.id WHEN MATCHED THEN"
REFUSED: list[tuple[str, type[HudiError], str]] = [
    ("", FilterSyntaxError, "no statement"),
    ("-- nothing", FilterSyntaxError, "no statement"),
    ("DELETE FROM orders; DELETE FROM orders", FilterSyntaxError, r"second statement.*line 1, column 19"),
    ("SELECT 'a", FilterSyntaxError, "no SQL"),
    ("EXPLAIN SELECT 1", FilterSyntaxError, "spark.sql for 'EXPLAIN'"),
    ("TRUNCATE TABLE orders", FilterSyntaxError, "'TRUNCATE'"),
    ("FROM news INSERT INTO orders SELECT *", FilterSyntaxError, "after the table"),
    ("WITH c AS (SELECT 1) DELETE FROM orders", FilterSyntaxError, "take no WITH"),
    ("MERGE INTO orders t USING news s ON t.id = s.id", FilterSyntaxError, "needs clauses"),
    ("MERGE INTO orders t USING news s\nUSING (id) WHEN MATCHED THEN DELETE", FilterSyntaxError, r"line 2, column"),
    (f"{MERGE} UPDATE SET * EXCEPT (s)", FilterSyntaxError, "'EXCEPT'"),
    (f"{MERGE} DO NOTHING", FilterSyntaxError, "'DO'"),
    (f"{MERGE} DELETE RETURNING *", FilterSyntaxError, "'RETURNING'"),
    (f"{MERGE} UPDATE SET n = 1 RETURNING *", FilterSyntaxError, "'RETURNING'"),
    (f"{MERGE} UPDATE SET n = 1 WHERE t.n > 1", FilterSyntaxError, "'WHERE'"),
    (f"{MERGE} UPDATE SET n = DEFAULT", FilterSyntaxError, "'DEFAULT'"),
    (f"{MERGE} UPDATE SET n = 1, t.N = 2", FilterSyntaxError, "twice"),
    (f"{MERGE} UPDATE SET s.n = 1", FilterSyntaxError, r"s\.n is no column"),
    (f"{MERGE} UPDATE SET n = id", ExpressionError, r"in both; write t\.id or s\.id"),
    (f"{MERGE} UPDATE SET n = target.n", ExpressionError, "no column 'target'"),
    (f"{MERGE} UPDATE SET n = (SELECT 1)", ExpressionError, "a query"),
    (f"{MERGE} UPDATE SET nn = 1", SchemaError, "no column 'nn'"),
    (f"{MERGE} UPDATE SET id = s.id + 1", RecordError, "'id' of the record key"),
    (MERGE.replace("news s", "news, news") + " DELETE", FilterSyntaxError, "','"),
    (MERGE.replace("news s", "news JOIN news s") + " DELETE", FilterSyntaxError, "'news'"),
    ("UPDATE orders SET n = 1 FROM news WHERE n = 1", FilterSyntaxError, r"WHERE is expected, not 'FROM'.*column 25"),
    ("UPDATE orders SET n = 1 WHERE n = 1 LIMIT 3", FilterSyntaxError, "'LIMIT'"),
    ("DELETE FROM orders USING news", FilterSyntaxError, "WHERE follows the table and its alias, not 'USING'"),
    ("DELETE FROM orders LIMIT 3", FilterSyntaxError, "not 'LIMIT'"),
    ("UPDATE orders FROM news SET n = 1", FilterSyntaxError, "SET follows the table and its alias, not 'FROM'"),
    ("DELETE FROM orders o WHERE EXISTS (SELECT 1 FROM news s WHERE s.id = o.id)", ExpressionError, r"o\.id.*MERGE"),
    ("DELETE FROM news WHERE id = 1", TableNotFoundError, "temporary view of a query"),
    ("DELETE FROM nothing", TableNotFoundError, "nothing"),
    ("DELETE FROM shop.plain", TableNotFoundError, "not a Hudi table"),
    ("DELETE FROM other.shop.orders", TableNotFoundError, "own catalog"),
    ("INSERT INTO orders VALUES (1, 'a')", SchemaError, "rows have 2 columns, and 4"),
    ("INSERT INTO orders (id, ID) VALUES (1, 2)", SchemaError, "'id' is given twice"),
    ("INSERT INTO orders (id, q) VALUES (1, 2)", SchemaError, "no column 'q'"),
    ("INSERT INTO orders PARTITION (p) SELECT 1, 2", FilterSyntaxError, "wants a value"),
    ("INSERT INTO orders REPLACE WHERE p = 'a' SELECT 1, 2", FilterSyntaxError, "'REPLACE'"),
    ("INSERT OVERWRITE orders PARTITION (p = 'a') SELECT 1, 2, 'x'", OptionError, "partitionOverwriteMode"),
    ("INSERT OVERWRITE DIRECTORY '/tmp' SELECT 1", FilterSyntaxError, "'/tmp'"),
    ("INSERT INTO orders SELECT * FROM news ON CONFLICT DO NOTHING", Exception, "CONFLICT"),  # type: ignore[list-item]
]


def test_what_is_refused_changes_nothing(spark: SparkSession, place: str) -> None:
    spark.sql("CREATE TABLE shop.plain (id INT) USING parquet")
    for text, kind, reason in REFUSED:
        with pytest.raises(kind, match=f"(?s){reason}"):
            sql(spark, text)
    assert content(place) == FIRST
    assert sum(one.action == "commit" for one in HudiTable.open(place).history()) == 1


def test_a_source_with_two_rows_for_a_record_is_refused(spark: SparkSession, place: str) -> None:
    twice = "USING (SELECT * FROM news UNION ALL SELECT * FROM news) s ON t.id = s.id"
    for clauses in ("WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *", "WHEN MATCHED THEN DELETE"):
        with pytest.raises(RecordError, match="several rows in the source"):
            change(spark, f"MERGE INTO orders t {twice} {clauses}")
    assert content(place) == FIRST


KEYS = st.integers(0, 9)
NUMBERS = st.none() | st.integers(-3, 3)
SOURCE = st.dictionaries(KEYS, NUMBERS, max_size=6)
#: Conditions as SQL, and as functions of the two numbers, where null is not true.
CONDITIONS = [
    ("s.n > 0", lambda _, s: s is not None and s > 0),
    ("t.n <= s.n", lambda t, s: None not in (t, s) and t <= s),
    ("s.n IS NULL", lambda _, s: s is None),
    ("NOT t.n <=> s.n", lambda t, s: t != s),
]
ONE_SIDED = [("{}.n > 0", lambda n: n is not None and n > 0), ("{}.n IS NULL", lambda n: n is None)]


@given(
    SOURCE,
    st.lists(st.tuples(st.sampled_from(["DELETE", "UPDATE"]), st.none() | st.sampled_from(CONDITIONS)), max_size=3),
    st.none() | st.sampled_from([None, *ONE_SIDED]),
    st.none() | st.sampled_from(["DELETE", "UPDATE"]),
    st.booleans(),
)
@settings(max_examples=8)
def test_merges_are_those_of_a_dictionary(
    spark: SparkSession, merged: Any, source: dict[int, int | None], matched: Any, insert: Any, rest: Any, inserts: bool
) -> None:
    """By text, and by the builder on a second table."""
    paths, model = merged
    news = frame(spark, [(key, "ab"[key % 2], number) for key, number in source.items()], "id bigint, p string, n int")
    news.createOrReplaceTempView("changes")
    texts, builder = (
        [],
        HudiTable.for_path(spark, paths[1]).merge(news, "t.id = s.id", names={"target": ["t"], "source": ["s"]}),
    )
    for action, condition in matched:
        texts.append(
            f"WHEN MATCHED {'AND ' + condition[0] if condition else ''} THEN "
            f"{'DELETE' if action == 'DELETE' else 'UPDATE SET n = s.n, s = concat(t.s, chr(43))'}"
        )
        if action == "DELETE":
            builder.when_matched_delete(condition and condition[0])
        else:
            builder.when_matched_update({"n": "s.n", "s": "concat(t.s, '+')"}, condition and condition[0])
    if inserts:
        test = insert[0].format("s") if insert else None
        texts.append(
            f"WHEN NOT MATCHED {f'AND {test}' if test else ''} THEN INSERT (id, p, n, s) VALUES (s.id, s.p, s.n, 'i')"
        )
        builder.when_not_matched_insert({"id": "s.id", "p": "s.p", "n": "s.n", "s": "'i'"}, test)
    if rest:
        texts.append(
            f"WHEN NOT MATCHED BY SOURCE AND t.n > 1 THEN {'DELETE' if rest == 'DELETE' else 'UPDATE SET n = t.n - 1'}"
        )
        if rest == "DELETE":
            builder.when_not_matched_by_source_delete("t.n > 1")
        else:
            builder.when_not_matched_by_source_update({"n": "t.n - 1"}, "t.n > 1")
    if not texts:
        return
    change(spark, f"MERGE INTO hudi_catalog.`{paths[0]}` t USING changes s ON t.id = s.id {' '.join(texts)}")
    builder.execute()
    for key in {*model, *source}:
        row = model.get(key)
        if row is not None and key in source:
            for action, condition in matched:
                if condition is None or condition[1](row[1], source[key]):
                    if action == "DELETE":
                        del model[key]
                    else:
                        model[key] = (row[0], source[key], f"{row[2]}+")
                    break
        elif row is None:
            if inserts and (insert is None or insert[1](source[key])):
                model[key] = ("ab"[key % 2], source[key], "i")
        elif rest and row[1] is not None and row[1] > 1:
            if rest == "DELETE":
                del model[key]
            else:
                model[key] = (row[0], row[1] - 1, row[2])
    assert [content(path) for path in paths] == [model, model]


@pytest.fixture(scope="module")
def merged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[int, Row]]:
    """Two tables of the same rows, and these."""
    folder = tmp_path_factory.mktemp("merged")
    rows = [(key, *row) for key, row in FIRST.items()]
    for name in "ab":
        table = HudiTable.create(spark, folder / name, DDL, record_key="id", partition_by="p", buckets=1)
        table.upsert(frame(spark, rows))
    return [str(folder / name) for name in "ab"], dict(FIRST)
