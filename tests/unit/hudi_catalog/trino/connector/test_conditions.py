"""Conditions of Trino's connector as filters: what means the same in `pushdown`, and what is known to be strict."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.trino.connector.conditions import conditions_filter
from hudi_catalog.trino.connector.types import connector_columns
from pushdown.binding.bind import bind
from pushdown.expression import HudiExpression, Unknown
from pushdown.simplify import simplify

_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("I", pa.int32()),
    ("d", pa.float64()),
    ("s", pa.string()),
    ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")),
    ("clock", pa.timestamp("us")),
    ("st", pa.struct([("Aa", pa.int64()), ("b", pa.struct([("x", pa.string())]))])),
]
_SCHEMA = pa.schema(_COLUMNS)
_TYPES = {column.name: column.trino_type for column in connector_columns(_SCHEMA, "t")}


def column(name: str) -> dict[str, Any]:
    return {"column": name, "type": _TYPES[name]}


def value(literal: Any, type_name: str) -> dict[str, Any]:
    return {"value": literal, "type": type_name}


def call(name: str, *args: Any, type_name: str = "boolean") -> dict[str, Any]:
    return {"call": name, "args": list(args), "type": type_name}


def bound(tree: Any) -> HudiExpression:
    (one,) = conditions_filter(connector_columns(_SCHEMA, "t"), [tree])
    return simplify(bind(one, _SCHEMA, case_sensitive=True))


def cast(one: Any, type_name: str) -> dict[str, Any]:
    return call("$cast", one, type_name=type_name)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (call("$or", call("$equal", column("i"), value(3, "integer")), call("$is_null", column("s"))), "I = 3 OR s IS"),
        (call("$less_than", value(3, "integer"), column("i")), "I > 3"),
        (call("$like", column("s"), value("a!%%", "varchar(4)"), value("!", "varchar(1)")), "startswith(s, 'a%')"),
        (call("contains", column("s"), value("a_", "varchar(2)")), r"s LIKE '%a\\_%'"),
        (call("$equal", call("year", column("at"), type_name="bigint"), value(2020, "bigint")), "at >= "),
        (call("$equal", cast(column("at"), "date"), value(0, "date")), "at >= "),
        (call("$equal", cast(column("s"), "varchar(2)"), value("ab", "varchar(2)")), "startswith(s, 'ab')"),
        (call("$in", column("i"), call("$array", value(1, "integer"), value(None, "integer"))), "I IN (1, NULL)"),
        (call("$not", call("$equal", call("lower", column("s")), value("x", "varchar(1)"))), "lower(s) <> 'x'"),
        (call("$equal", {"field": 0, "of": column("st"), "type": "bigint"}, value(7, "bigint")), "st.Aa = 7"),
        (
            call(
                "$equal",
                {"field": 0, "of": {"field": 1, "of": column("st"), "type": "row(x varchar)"}, "type": "varchar"},
                value("y", "varchar(1)"),
            ),
            "st.b.`x` = 'y'",
        ),
        # Trino 476 says $modulus and two comparisons, 483 $modulo and $between
        *(
            (
                call("$equal", call(name, column("i"), value(9, "integer"), type_name="integer"), value(4, "integer")),
                "I % 9",
            )
            for name in ("$modulus", "$modulo")
        ),
        (
            call(
                "$between", call("year", column("at"), type_name="bigint"), value(2020, "bigint"), value(2021, "bigint")
            ),
            "at >= TIMESTAMP '2020-01-01 00:00:00+00:00' AND at <= TIMESTAMP '2021-12-31 23:59:59.999999+00:00'",
        ),
        (call("$not", call("$between", column("i"), value(3, "integer"), value(5, "integer"))), "I > 5 OR I < 3"),
        (call("$between", column("i"), column("d"), value(5, "integer")), "I <= 5"),
        (
            call(
                "$less_than",
                call("$add", column("day"), value(86_400_000, "interval day to second"), type_name="date"),
                value(1, "date"),
            ),
            "day < DATE '1970-01-01'",
        ),
    ],
)
def test_what_is_understood(tree: Any, text: str) -> None:
    assert text in bound(tree).to_sql()


@pytest.mark.parametrize(
    ("tree", "columns"),
    [
        (call("$less_than", column("i"), cast(column("d"), "integer")), ["I", "d"]),
        (call("regexp_like", column("s"), value("a", "varchar(1)")), ["s"]),
        (call("$equal", cast(column("s"), "char(3)"), value("ab", "char(3)")), ["s"]),
        # the session's zone
        (
            call(
                "$equal",
                cast(column("clock"), "timestamp(6) with time zone"),
                value("0", "timestamp(6) with time zone"),
            ),
            ["clock"],
        ),
        (
            call(
                "$equal",
                call("hour", call("at_timezone", column("at"), value("Asia/Kolkata", "varchar(12)"))),
                value(3, "bigint"),
            ),
            ["at"],
        ),
        (call("$equal", cast(column("clock"), "timestamp(0)"), value("0", "timestamp(0)")), ["clock"]),
        (call("concat", column("s"), call("$cast", column("i"), type_name="varchar")), ["s", "I"]),
    ],
)
def test_what_is_only_known_to_be_strict_leaves_out_nulls_alone(tree: Any, columns: list[str]) -> None:
    filtered = bound(call("$equal", tree, value("x", "varchar(1)")) if tree["call"] == "concat" else tree)
    text = filtered.to_sql()
    assert all(name in text for name in columns)
    assert ">" not in text.replace("<>", "")


@pytest.mark.parametrize(
    "tree",
    [
        call("coalesce", column("i"), value(0, "integer")),
        call("$identical", column("i"), column("i")),
        call("lake.shop.own_function", column("s")),
        {"unknown": "a literal", "type": "char(2)"},
        {"column": "gone", "type": "integer"},
        {"field": 9, "of": column("st"), "type": "integer"},
        {"field": 0, "type": "integer"},
        {"call": "$and", "args": "no list"},
        value(3, "integer"),
        "no tree",
        None,
    ],
)
def test_anything_else_is_unknown(tree: Any) -> None:
    (one,) = conditions_filter(connector_columns(_SCHEMA, "t"), [tree])
    assert isinstance(one, Unknown)


def test_a_tree_that_is_too_deep_is_unknown() -> None:
    tree = call("$equal", column("i"), value(1, "integer"))
    for _ in range(400):
        tree = call("$not", tree)
    assert "too deep" in repr(bound(tree))
