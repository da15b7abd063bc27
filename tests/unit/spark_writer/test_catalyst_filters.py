"""Conditions of Spark's planner that must not choose files, by hand: classes and zones that a session rarely shows."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pushdown import HudiExpression, Predicate, Unknown
from pushdown.expression import Op
from pushdown.text import literal_sql
from spark_writer.filters import from_catalyst

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("s", pa.string())])
_CATALYST = "org.apache.spark.sql.catalyst.expressions."


class Attribute:
    def __init__(self, name: str, metadata: str = "{}") -> None:
        self._name, self._metadata = name, metadata

    def name(self) -> str:
        return self._name

    def metadata(self) -> Any:
        return self

    def json(self) -> str:
        return self._metadata


class Expression:
    """What py4j shows of an expression: its nodes as JSON, its SQL text, its attributes."""

    def __init__(self, text: str, nodes: list[dict[str, Any]], metadata: str = "{}") -> None:
        self._text, self._nodes = text, [{"class": _CATALYST + node.pop("kind"), **node} for node in nodes]
        names = [node["name"] for node in self._nodes if node["class"].endswith("AttributeReference")]
        self._attributes = [Attribute(name, metadata) for name in names]

    def toJSON(self) -> str:  # noqa: N802
        return json.dumps(self._nodes)

    def sql(self) -> str:
        return self._text

    def toString(self) -> str:  # noqa: N802
        return self._text

    def references(self) -> Any:
        return self

    def toSeq(self) -> Any:  # noqa: N802
        return self

    def size(self) -> int:
        return len(self._attributes)

    def apply(self, position: int) -> Attribute:
        return self._attributes[position]


def column(name: str, qualifier: Any = ()) -> dict[str, Any]:
    return {"kind": "AttributeReference", "name": name, "qualifier": qualifier or [], "dataType": "long"}


LITERAL = {"kind": "Literal", "value": "3", "dataType": "integer"}


@pytest.mark.parametrize("qualifier", [[], ["x"], "[x]", ["spark_catalog", "db", "t"]])
def test_a_comparison_is_understood_by_any_name(qualifier: Any) -> None:
    parts = qualifier.strip("[]").split(",") if isinstance(qualifier, str) else qualifier
    text = f"({'.'.join([*parts, 'n'])} = 3)"
    result = from_catalyst(Expression(text, [{"kind": "EqualTo"}, column("n", qualifier), {**LITERAL}]), SCHEMA, "UTC")
    assert isinstance(result, Predicate)
    assert (result.op, result.column, result.values) == (Op.EQ, "n", (3,))


@pytest.mark.parametrize(
    ("text", "nodes", "metadata", "reason"),
    [
        # a user's function prints as its name
        ("(year(at) = 3)", [{"kind": "EqualTo"}, {"kind": "ScalaUDF"}, column("at"), {**LITERAL}], "{}", "ScalaUDF"),
        ("(n = 3)", [{"kind": "objects.Invoke"}, column("n"), {**LITERAL}], "{}", "Invoke"),
        ("(n = 3)", [{"kind": "EqualTo"}, column("n"), {**LITERAL}], '{"__metadata_col":"n"}', "_metadata"),
        (
            "(s = 'a')",
            [{"kind": "EqualTo"}, {**column("s"), "dataType": "string collate UTF8_LCASE"}],
            "{}",
            "collated",
        ),
        (
            "(CAST(at AS DATE) = DATE '2024-01-01')",
            [{"kind": "EqualTo"}, {"kind": "Cast", "timeZoneId": "Asia/Tokyo", "dataType": "date"}, column("at")],
            "{}",
            "a clock of Asia/Tokyo",
        ),
        ("(x.n = 3)", [{"kind": "EqualTo"}, column("x.n"), {**LITERAL}], "{}", "no column"),
        ("(gone = 3)", [{"kind": "EqualTo"}, column("gone"), {**LITERAL}], "{}", "no column"),
        # what cannot be bound to the table's columns is found out by itself: the query's other conditions stay
        ("(n.x = 3)", [{"kind": "EqualTo"}, column("n"), {**LITERAL}], "{}", "n.x"),
        ("no SQL ((", [{"kind": "EqualTo"}, column("n")], "{}", "FilterSyntaxError"),
    ],
)
def test_what_is_not_understood(text: str, nodes: list[dict[str, Any]], metadata: str, reason: str) -> None:
    result = from_catalyst(Expression(text, nodes, metadata), SCHEMA, "UTC")
    assert isinstance(result, Unknown)
    assert reason in result.reason


def test_a_time_that_the_clock_shows_twice() -> None:
    text = "(at = TIMESTAMP '2024-11-03 01:30:00')"
    expression = Expression(text, [{"kind": "EqualTo"}, column("at"), {**LITERAL}])
    result = from_catalyst(expression, SCHEMA, "America/New_York")
    assert isinstance(result, Unknown)
    assert "shows twice" in result.reason
    assert isinstance(from_catalyst(expression, SCHEMA, "UTC"), Predicate)


def test_an_alias_and_a_struct_of_one_name() -> None:
    """`s.a` is column `a` of the alias `s`, or field `a` of the column `s`."""
    schema = pa.schema([("s", pa.struct([("a", pa.int64())])), ("a", pa.int64())])
    nodes = [{"kind": "EqualTo"}, {"kind": "GetStructField"}, column("s"), column("a", ["s"])]
    result = from_catalyst(Expression("(s.a = 3)", nodes), schema, "UTC")
    assert isinstance(result, Unknown)
    assert "one of several" in result.reason


def test_columns_of_another_type_in_the_files() -> None:
    expression = Expression("(n = 3)", [{"kind": "EqualTo"}, column("n"), {**LITERAL}])
    assert isinstance(from_catalyst(expression, SCHEMA, "UTC", {"n"}), Unknown)


@example(kind="EqualTo", value=-(2**63))
@given(
    kind=st.sampled_from(["EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"]),
    value=st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5), st.text("ab'\\%_ é", max_size=5)),
)
def test_a_comparison_without_the_parser_is_that_of_its_text(kind: str, value: int | str) -> None:
    sign = {"EqualTo": "=", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
    column, spark_type = ("n", "long") if isinstance(value, int) else ("s", "string")
    text = f"({column} {sign[kind]} {literal_sql(value) if isinstance(value, str) else f'{value}L'})"

    def translated(literal_type: Any) -> HudiExpression:
        attribute = {"kind": "AttributeReference", "name": column, "qualifier": [], "dataType": spark_type}
        literal = {"kind": "Literal", "value": str(value), "dataType": literal_type}
        return from_catalyst(Expression(text, [{"kind": kind}, attribute, literal]), SCHEMA, "UTC")

    direct, parsed = translated(spark_type), translated([spark_type])  # a type in a list is left to the parser
    assert direct == parsed
    assert isinstance(direct, Predicate)
