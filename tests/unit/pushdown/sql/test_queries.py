"""The filters that whole queries put on their tables."""

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pushdown import FilterSyntaxError, Unknown, bind, matches
from pushdown.sql import predicates_of_query
from pushdown.walk import Logic, fold_logic
from tests.support.work import function_calls

TABLES = {
    "t": pa.schema([("a", pa.int32()), ("b", pa.int32()), ("k", pa.int32())]),
    "db.u": pa.schema([("c", pa.int32()), ("k", pa.int32())]),
}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM t WHERE a = 1 AND b > 2", {"t": "a = 1 AND b > 2"}),
        ("SELECT * FROM t x JOIN u y ON x.k = y.k AND y.c = 3 WHERE a = 1", {"x": "a = 1", "y": "c = 3"}),
        ("SELECT * FROM t LEFT JOIN u ON t.k = u.k AND c = 3 AND a = 9 WHERE a = 1", {"t": "a = 1", "db.u": "c = 3"}),
        ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE u.c IS NULL", {"t": "TRUE", "db.u": "TRUE"}),
        ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE u.c = 1", {"t": "TRUE", "db.u": "c = 1"}),
        ("SELECT * FROM t LEFT JOIN u USING (k) WHERE c = 1 AND k = 3", {"t": "k = 3", "db.u": "c = 1"}),
        ("SELECT * FROM t RIGHT JOIN u USING (k) WHERE c = 1 AND k = 3", {"t": "TRUE", "db.u": "c = 1 AND k = 3"}),
        ("SELECT * FROM t FULL JOIN u USING (k) WHERE k = 3", {"t": "TRUE", "db.u": "TRUE"}),
        ("SELECT * FROM t FULL JOIN u ON t.a = 3 WHERE t.a = 1", {"t": "a = 1", "db.u": "TRUE"}),
        ("SELECT * FROM t LEFT SEMI JOIN u ON t.k = u.k AND a = 1 AND c = 2", {"t": "a = 1", "db.u": "c = 2"}),
        ("SELECT * FROM t LEFT ANTI JOIN u ON t.k = u.k AND a = 1 AND c = 2", {"t": "TRUE", "db.u": "c = 2"}),
        ("SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND c = 2)", {"t": "TRUE", "db.u": "c = 2"}),
        ("WITH t AS (SELECT * FROM t WHERE a = 1) SELECT * FROM t WHERE b = 2", {"t": "a = 1"}),
        ("SELECT * FROM (SELECT * FROM t WHERE a = 1) x, u WHERE x.b = 2 AND u.c = 1", {"db.u": "c = 1", "t": "a = 1"}),
        ("SELECT * FROM t WHERE a = 1 UNION ALL SELECT * FROM t WHERE a = 2", {"t": "a = 1 OR a = 2"}),
        ("SELECT * FROM t WHERE a = 1 UNION ALL SELECT * FROM t", {"t": "a = 1 OR TRUE"}),
        ("SELECT k FROM t WHERE a IN (1, 2) GROUP BY k HAVING count(*) > 3 AND k = 1", {"t": "a IN (1, 2)"}),
        ("SELECT * FROM t NATURAL JOIN u WHERE a = 1", {"t": "TRUE", "db.u": "TRUE"}),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) WHERE a = 1", {"t": "TRUE"}),
        ("SELECT * FROM t LATERAL VIEW explode(z) tt AS e WHERE e = 1 AND a = 2", {"t": "a = 2"}),
        ("SELECT * FROM t, u WHERE k = 1 AND x.a = 2", {"t": "TRUE", "db.u": "TRUE"}),
        ("SELECT * FROM t, v WHERE a = 1 AND t.b = 2", {"t": "b = 2"}),
        ("SELECT * FROM other", {}),
    ],
)
def test_queries(sql, expected):
    filters = predicates_of_query(sql, "spark", TABLES)
    assert {name: filter_.to_sql() for name, filter_ in filters.items()} == expected


@pytest.mark.parametrize("sql", ["DELETE FROM t", "SELECT 1; SELECT 2", "SELECT FROM WHERE", ""])
def test_what_is_no_query_is_refused(sql):
    with pytest.raises(FilterSyntaxError):
        predicates_of_query(sql, "spark", TABLES)


LEFT = ["t.a = 1", "t.b IS NULL", "t.b NOT IN (1, 2)", "t.a IS DISTINCT FROM 1", "t.k IN (SELECT k FROM u WHERE c = 1)"]
BOTH = [
    *LEFT,
    "c = 2",
    "c IS NULL",
    "t.a < 2 OR c = 1",
    "NOT (t.b = 1 AND c = 1)",
    "NOT (c = 1)",
    "c IS NULL OR t.a = 2",
]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]


def may_be_true(expression, table):
    """Whether a filter may be true for each row, whatever its unknown parts are."""

    def leaf(node):
        if isinstance(node, Unknown):
            return np.ones(table.num_rows, bool), np.ones(table.num_rows, bool)
        truths = matches(node, table).to_pylist()
        return np.array([value is True for value in truths]), np.array([value is False for value in truths])

    logic = Logic(
        leaf=leaf,
        both=lambda a, b: (a[0] & b[0], a[1] | b[1]),
        either=lambda a, b: (a[0] | b[0], a[1] & b[1]),
        negate=lambda a: (a[1], a[0]),
        empty_and=lambda: (True, False),
        empty_or=lambda: (False, True),
    )
    return fold_logic(bind(expression, table.schema), logic)[0]


def rows_dropped(join, chosen, connection):
    """How many rows the filters of a random query on random tables drop, none of which its result needs."""
    data = {
        name: pa.table(
            {
                column: pa.array([chosen.choice([None, 1, 2, 3]) for _ in range(6)], pa.int32())
                for column in schema.names
            }
        )
        for name, schema in (("t", TABLES["t"]), ("u", TABLES["db.u"]))
    }
    conditions = LEFT if join in {"SEMI JOIN", "ANTI JOIN"} else BOTH
    on = chosen.choice(["t.k = u.k", "t.k = u.k AND u.c = 1", "t.k = u.k AND t.a = 1", "t.k = u.k AND t.a = u.c"])
    where = " AND ".join(chosen.sample(conditions, chosen.randint(1, 3)))
    sql = f"SELECT * FROM t {join} u ON {on} WHERE {where}"
    filters = predicates_of_query(sql, "spark", {"t": data["t"].schema, "u": data["u"].schema})
    cut = {name: table.filter(pa.array(may_be_true(filters[name], table))) for name, table in data.items()}
    results = []
    for tables in (data, cut):
        for name, table in tables.items():
            connection.register(name, table)
        results.append(sorted(connection.sql(sql).fetchall(), key=repr))
    assert results[0] == results[1], (sql, filters)
    return sum(data[name].num_rows - cut[name].num_rows for name in data)


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.slow
def test_scans_with_the_filters_give_the_same_result(join):
    chosen = random.Random(join)
    with duckdb.connect() as connection:
        assert sum(rows_dropped(join, chosen, connection) for _ in range(60)) > 0


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM t JOIN db.u USING (k) WHERE k = 3", {"t": "k = 3", "db.u": "TRUE"}),
        ("SELECT * FROM t JOIN long USING (k) WHERE k = 3 AND a = 1", {"t": "a = 1", "long": "TRUE"}),
        ("SELECT * FROM t RIGHT JOIN long USING (k) WHERE k = 3 AND l = 1", {"t": "TRUE", "long": "l = 1"}),
        ("SELECT * FROM t JOIN (SELECT real '1' AS k) x USING (k) WHERE k = 3 AND a = 1", {"t": "a = 1"}),
        (
            "SELECT * FROM t JOIN db.u USING (k) JOIN long USING (k) WHERE k = 3 AND c = 1",
            {"t": "TRUE", "db.u": "c = 1", "long": "TRUE"},
        ),
    ],
)
def test_a_column_of_using_has_the_type_of_both_sides_in_trino(sql, expected):
    tables = {**TABLES, "long": pa.schema([("k", pa.int64()), ("l", pa.int32())])}
    filters = predicates_of_query(sql, "trino", tables)
    assert {name: repr(bind(filters[name], tables[name])) for name in filters} == expected


def test_the_work_for_conditions_does_not_grow_with_the_number_of_tables():
    def work(tables):
        joins = " ".join(f"JOIN t t{number} ON t{number}.k = t0.k" for number in range(1, tables))
        where = " AND ".join(f"t0.a + t0.b * {number} - t0.k = t0.a" for number in range(100))
        return function_calls(predicates_of_query, f"SELECT * FROM t t0 {joins} WHERE {where}", "spark", TABLES)

    assert work(21) < 1.5 * work(2)
