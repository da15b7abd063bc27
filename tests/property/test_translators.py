"""Translated filters mean what the engines said: on random rows, and over random sets of values."""

import datetime as dt
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from hypothesis import assume, given
from hypothesis import strategies as st

from pushdown import HudiExpression, Not, bind, matches, reasons_of
from pushdown.translators import from_hive_tree, from_tuple_domain, to_arrow_expression
from tests.property.filters import SCHEMA, UTC, questions
from tests.property.hive_trees import hive_tree
from tests.property.profile import MANY
from tests.support.tuple_domains import EXACTLY, ranges, span, tuple_domain

HIVE_TYPES = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "dec": "decimal(10,2)",
    "wide": "decimal(38,0)",
    "s": "string",
    "bin": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp",
}


@MANY
@given(questions())
def test_hive_trees_mean_the_filter_that_they_say(question: tuple[pa.Table, HudiExpression]) -> None:
    table, expression = question
    bound = bind(expression, SCHEMA)
    assume(not reasons_of(bound))  # what no engine computes exactly has no rows to compare
    translated = from_hive_tree(hive_tree(expression, HIVE_TYPES))
    expected = matches(bound, table).to_pylist()
    if not reasons_of(bind(translated, SCHEMA)):
        assert matches(bind(translated, SCHEMA), table).to_pylist() == expected
    for negate in (False, True):
        weak = to_arrow_expression(Not(translated) if negate else translated, SCHEMA, unknown="weaken")
        matching = pyarrow.dataset.dataset(table).to_table(columns={"kept": weak})["kept"].to_pylist()
        assert all(
            keep for keep, truth in zip(matching, expected, strict=True) if truth is not None and truth != negate
        )


@MANY
@given(questions())
def test_arrow_expressions_have_the_truth_values_of_rows(question: tuple[pa.Table, HudiExpression]) -> None:
    table, expression = question
    bound = bind(expression, SCHEMA)
    dataset = pyarrow.dataset.dataset(table)
    weak = to_arrow_expression(bound, table.schema, unknown="weaken")
    if reasons_of(bound):
        return
    assert dataset.to_table(columns={"x": weak})["x"].to_pylist() == matches(bound, table).to_pylist()


KINDS: dict[str, tuple[st.SearchStrategy[Any], pa.DataType, Callable[[Any], Any]]] = {
    "bigint": (st.integers(-8, 8), pa.int64(), int),
    "double": (st.sampled_from([-1.5, 0.0, 1.0, 2.5, float("inf"), float("-inf")]), pa.float64(), float),
    "varchar": (st.sampled_from(["", "a", "ab", "b", "ä", "\ue000", "😀"]), pa.string(), str),
    "date": (st.integers(-3, 3), pa.date32(), lambda day: dt.date(1970, 1, 1) + dt.timedelta(days=day)),
    "timestamp": (
        st.integers(-3, 3),
        pa.timestamp("us", "UTC"),
        lambda ms: dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=ms),
    ),
}


@st.composite
def domains(draw: st.DrawFn) -> tuple[str, list[SimpleNamespace], list[Any], bool]:
    """A type, sorted ranges without overlap, values of the type, and whether null passes."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    values, _, _ = KINDS[kind]
    edges = sorted(draw(st.lists(values, max_size=6, unique=True)))
    built: list[SimpleNamespace] = []
    position: Any = None
    touched = False
    for i, edge in enumerate([*edges, None]):
        shape = draw(st.integers(0, 4))
        last = built[-1].high.bound == EXACTLY if touched else False
        if shape == 0 and edge is not None and not touched:
            built.append(span(kind, "[]", edge, edge))
        elif shape in {1, 2} and (i > 0 or edge is not None or not built):
            low = "(" if last or position is None else draw(st.sampled_from("(["))
            high = ")" if edge is None else draw(st.sampled_from(")]"))
            if not (touched and last and low == "["):
                built.append(span(kind, low + high, position, edge))
                position, touched = edge, True
                continue
        position, touched = edge, bool(built) and built[-1].high.value is not None and _end(built[-1]) == edge
    return kind, built, draw(st.lists(values, max_size=8)), draw(st.booleans())


def _end(one: SimpleNamespace) -> Any:
    block = one.high.value
    for name in ("bigintData", "doubleData", "dateData", "timestampData"):
        data = getattr(block, name)
        if data is not None:
            return next(iter(vars(data).values()))[0]
    return block.varcharData.bytes.decode()


def _start(one: SimpleNamespace) -> Any:
    return None if one.low.value is None else _end(SimpleNamespace(high=one.low))


def _inside(value: Any, one: SimpleNamespace) -> bool:
    low, high = _start(one), None if one.high.value is None else _end(one)
    above = low is None or value > low or (one.low.bound == EXACTLY and value == low)
    return above and (high is None or value < high or (one.high.bound == EXACTLY and value == high))


@MANY
@given(domains())
def test_domains_let_their_values_through_and_no_others(
    question: tuple[str, list[SimpleNamespace], list[Any], bool],
) -> None:
    kind, domain, values, null = question
    _, arrow_type, make = KINDS[kind]
    type_name = "timestamp(3)" if kind == "timestamp" else kind
    expression = from_tuple_domain(tuple_domain(c=ranges(*domain, null=null)), {"c": type_name})
    table = pa.table({"c": pa.array([*map(make, values), None], arrow_type)})
    assert not reasons_of(expression)
    expected = [any(_inside(value, one) for one in domain) for value in values]
    truths = matches(expression, table).to_pylist()
    assert [truth is True for truth in truths] == [*expected, null]
