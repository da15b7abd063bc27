"""Computed conditions against an evaluator that takes one row after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushdown import RowCastError, bind, matches, parse_sql, simplify

_Row = dict[str, Any]
_INT, _LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)


class _StoppedError(Exception):
    """Spark stops at the row."""


@dataclass(frozen=True)
class Node:
    """An expression: its text, and its value for a row."""

    text: str
    value: Callable[[_Row], Any]
    bits: int = 32


def _strict(function: Callable[..., Any], *nodes: Node) -> Callable[[_Row], Any]:
    def value(row: _Row) -> Any:
        values = [node.value(row) for node in nodes]
        return None if any(one is None for one in values) else function(*values)

    return value


def _ranged(bits: int) -> Callable[[int], int]:
    low, high = _INT if bits == 32 else _LONG

    def check(number: int) -> int:
        if not low <= number <= high:
            raise _StoppedError
        return number

    return check


def _rest(a: int, b: int) -> int:
    if b == 0:
        raise _StoppedError
    return int(math.copysign(1, a)) * (abs(a) % abs(b))


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise _StoppedError
    whole = abs(a) // abs(b)
    return _ranged(64)(whole if (a < 0) == (b < 0) else -whole)


def _ratio(a: int, b: int) -> float:
    if b == 0:
        raise _StoppedError
    return float(Fraction(float(a)) / Fraction(float(b)))


def _either(a: Any, b: Any) -> Callable[[_Row], Any]:
    def value(row: _Row) -> Any:
        first = a.value(row)
        return b.value(row) if first is None else first

    return value


def _chosen(test: Node, a: Node, b: Node) -> Callable[[_Row], Any]:
    return lambda row: a.value(row) if test.value(row) is True else b.value(row)


def _binary(pair: tuple[Node, Node], operator: str) -> Node:
    a, b = pair
    bits = max(a.bits, b.bits)
    check = _ranged(bits)
    functions: dict[str, Callable[[int, int], Any]] = {
        "+": lambda x, y: check(x + y),
        "-": lambda x, y: check(x - y),
        "*": lambda x, y: check(x * y),
        "%": _rest,
        "div": _quotient,
    }
    return Node(
        f"({a.text} {operator} {b.text})", _strict(functions[operator], a, b), 64 if operator == "div" else bits
    )


_COLUMNS = [Node("i", lambda row: row["i"]), Node("j", lambda row: row["j"]), Node("l", lambda row: row["l"], 64)]
_LITERALS = [Node("3", lambda _: 3), Node("0", lambda _: 0), Node("2147483647", lambda _: 2**31 - 1)]
_LITERALS += [Node("5L", lambda _: 5, 64), Node("-7", lambda _: -7)]


def _numbers(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(_binary, pairs, st.sampled_from(["+", "-", "*", "%", "div"])),
        inner.map(lambda a: Node(f"(- {a.text})", _strict(lambda x: _ranged(a.bits)(-x), a), a.bits)),
        inner.map(lambda a: Node(f"abs({a.text})", _strict(lambda x: _ranged(a.bits)(abs(x)), a), a.bits)),
        pairs.map(lambda p: Node(f"coalesce({p[0].text}, {p[1].text})", _either(*p), max(p[0].bits, p[1].bits))),
        pairs.map(
            lambda p: Node(
                f"CASE WHEN {p[0].text} < {p[1].text} THEN {p[0].text} ELSE {p[1].text} END",
                _chosen(_compared(p, "<"), *p),
                max(p[0].bits, p[1].bits),
            )
        ),
        pairs.map(
            lambda p: Node(f"nullif({p[0].text}, {p[1].text})", _null_if(*p), p[0].bits),
        ),
        _TEXTS.map(lambda a: Node(f"length({a.text})", _strict(len, a))),
    )


def _null_if(a: Node, b: Node) -> Callable[[_Row], Any]:
    equal = _compared((a, b), "=")
    return lambda row: None if equal.value(row) is True else a.value(row)


_TEST: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<>": lambda a, b: a != b,
}


def _compared(pair: tuple[Node, Node], operator: str) -> Node:
    a, b = pair
    return Node(f"{a.text} {operator} {b.text}", _strict(_TEST[operator], a, b))


_WORDS = [Node("s", lambda row: row["s"]), Node("t", lambda row: row["t"]), Node("'ab'", lambda _: "ab")]


def _texts(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda a: Node(f"trim({a.text})", _strict(lambda x: x.strip(" "), a))),
        inner.map(lambda a: Node(f"reverse({a.text})", _strict(lambda x: x[::-1], a))),
        inner.map(lambda a: Node(f"substring({a.text}, 2, 2)", _strict(lambda x: x[1:3], a))),
        inner.map(lambda a: Node(f"left({a.text}, 1)", _strict(lambda x: x[:1], a))),
        pairs.map(lambda p: Node(f"({p[0].text} || {p[1].text})", _strict(lambda x, y: x + y, *p))),
        pairs.map(lambda p: Node(f"coalesce({p[0].text}, {p[1].text})", _either(*p))),
    )


_TEXTS = st.recursive(st.sampled_from(_WORDS), _texts, max_leaves=4)
_NUMBERS = st.recursive(st.sampled_from([*_COLUMNS, *_COLUMNS, *_LITERALS]), _numbers, max_leaves=6)
_RATIOS = st.tuples(_NUMBERS, _NUMBERS).map(lambda p: Node(f"({p[0].text} / {p[1].text})", _strict(_ratio, *p)))
_CONDITIONS = st.one_of(
    st.builds(_compared, st.tuples(_NUMBERS, _NUMBERS), st.sampled_from(list(_TEST))),
    st.builds(_compared, st.tuples(_TEXTS, _TEXTS), st.sampled_from(list(_TEST))),
    st.builds(_compared, st.tuples(_RATIOS, _RATIOS), st.sampled_from(list(_TEST))),
)
_TEXT = st.one_of(st.none(), st.sampled_from(["", " ", "ab", " ab", "ba ", "ä😀", "abab"]))
_SMALL, _LARGE = st.integers(-9, 9), st.sampled_from([*_INT, -1, 0, 1])
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.one_of(st.none(), _SMALL),
            "j": st.one_of(st.none(), _SMALL, _LARGE),
            "l": st.one_of(st.none(), _SMALL, st.sampled_from([*_LONG, -1])),
            "s": _TEXT,
            "t": _TEXT,
        }
    ),
    min_size=1,
    max_size=8,
)
_SCHEMA = pa.schema([("i", pa.int32()), ("j", pa.int32()), ("l", pa.int64()), ("s", pa.string()), ("t", pa.string())])


def _truth(condition: Node, row: _Row) -> Any:
    try:
        return condition.value(row)
    except _StoppedError:
        return "stopped"


@given(condition=_CONDITIONS, rows=_ROWS)
def test_rows_one_after_the_other(condition: Node, rows: list[_Row]) -> None:
    table = pa.Table.from_pylist(rows, _SCHEMA)
    truths = [_truth(condition, row) for row in rows]
    bound = simplify(bind(parse_sql(condition.text), _SCHEMA))
    for position, truth in enumerate(truths):
        row = table.slice(position, 1)
        if truth == "stopped":
            # an operand that is null makes the result null, although another one fails
            try:
                assert matches(bound, row).to_pylist() == [None]
            except RowCastError:
                continue
        else:
            assert matches(bound, row).to_pylist() == [truth]
    if "stopped" not in truths:
        assert matches(bound, table).to_pylist() == truths
        assert matches(simplify(~bound), table).to_pylist() == [None if one is None else not one for one in truths]
    elif all(_fails(bound, table.slice(position, 1)) for position, one in enumerate(truths) if one == "stopped"):
        with pytest.raises(RowCastError):
            matches(bound, table)


def _fails(bound: Any, row: pa.Table) -> bool:
    try:
        matches(bound, row)
    except RowCastError:
        return True
    return False
