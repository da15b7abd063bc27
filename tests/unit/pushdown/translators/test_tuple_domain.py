import datetime as dt
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pushdown import Constant, ExpressionError, Unknown, bind, matches, reasons_of, simplify
from pushdown.translators import from_tuple_domain
from tests.support.tuple_domains import (
    ABOVE,
    BELOW,
    EXACTLY,
    all_or_none,
    block,
    equatable,
    marker,
    point,
    ranges,
    span,
    tuple_domain,
    without,
)
from tests.support.work import function_calls

TYPES = {
    "i": "integer",
    "l": "bigint",
    "d": "double",
    "s": "varchar",
    "v": "varchar(20)",
    "b": "boolean",
    "day": "date",
    "at": "timestamp(3)",
    "j": "json",
    "a": "array(bigint)",
}


def sql(**columns):
    return from_tuple_domain(tuple_domain(**columns), TYPES).to_sql()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"l": ranges(point("bigint", 5))}, "l = 5"),
        ({"l": without("bigint", [5])}, "l IS NOT NULL AND l <> 5"),
        ({"l": without("bigint", [5, 7, 9])}, "l IS NOT NULL AND l NOT IN (5, 7, 9)"),
        ({"l": without("bigint", [5], null=True)}, "(l IS NOT NULL AND l <> 5) OR l IS NULL"),
        ({"l": ranges(span("bigint", "()", None, 5))}, "l < 5"),
        ({"l": ranges(span("bigint", "(]", None, 5), null=True)}, "l <= 5 OR l IS NULL"),
        ({"l": ranges(span("bigint", "()", 5))}, "l > 5"),
        ({"l": ranges(span("bigint", "[)", 5))}, "l >= 5"),
        ({"l": ranges(span("bigint", "[]", 5, 7))}, "l >= 5 AND l <= 7"),
        ({"l": ranges(point("bigint", 1), point("bigint", 3))}, "l IN (1, 3)"),
        (
            {"l": ranges(point("bigint", 1), span("bigint", "[)", 3, 5), span("bigint", "()", 9))},
            "l = 1 OR (l >= 3 AND l < 5) OR l > 9",
        ),
        ({"l": ranges(span("bigint", "[)", 1, 5), span("bigint", "[]", 5, 9))}, "l >= 1 AND l <= 9"),
        ({"l": ranges(span("bigint", "[)", 1, 5), span("bigint", "(]", 5, 9))}, "l >= 1 AND l <= 9 AND l <> 5"),
        ({"l": ranges(null=True)}, "l IS NULL"),
        ({"l": ranges()}, "FALSE"),
        ({"l": ranges(span("bigint", "()"))}, "l IS NOT NULL"),
        ({"l": ranges(span("bigint", "()"), null=True)}, "TRUE"),
        ({"s": ranges(span("varchar", "[)", "abc", "abd"))}, "s >= 'abc' AND s < 'abd'"),
        ({"v": ranges(point("varchar", ""), point("varchar", "ä😀"))}, "v IN ('', 'ä😀')"),
        ({"d": ranges(point("double", 1.5))}, "d = 1.5e0"),
        ({"d": without("double", [0.0])}, "d IS NOT NULL AND d <> 0.0e0"),
        ({"i": ranges(point("integer", -5))}, "i = -5"),
        ({"b": ranges(point("boolean", True))}, "b = TRUE"),
        ({"day": ranges(span("date", "[)", 19000))}, "day >= DATE '2022-01-08'"),
        (
            {"at": ranges(point("timestamp", 1_600_000_000_001))},
            "at >= TIMESTAMP '2020-09-13 12:26:40.001000+00:00' AND at < TIMESTAMP '2020-09-13 12:26:40.002000+00:00'",
        ),
        (
            {"at": ranges(span("timestamp", "(]", 0, 1))},
            "at >= TIMESTAMP '1970-01-01 00:00:00.001000+00:00' AND at < TIMESTAMP '1970-01-01 00:00:00.002000+00:00'",
        ),
        (
            {"at": ranges(span("timestamp", "[)", -1, 1))},
            "at >= TIMESTAMP '1969-12-31 23:59:59.999000+00:00' AND at < TIMESTAMP '1970-01-01 00:00:00.001000+00:00'",
        ),
        ({"s": equatable([block("varchar", "x"), block("varchar", "y")], inclusive=True)}, "s IN ('x', 'y')"),
        (
            {"s": equatable([block("varchar", "x")], inclusive=False, null=True)},
            "s <> 'x' OR s IS NULL",
        ),
        ({"j": equatable([], inclusive=False)}, "j IS NOT NULL"),
        ({"j": equatable([], inclusive=True)}, "FALSE"),
        ({"j": equatable([], inclusive=True, null=True)}, "j IS NULL"),
        ({"a": all_or_none(every=True, null=False)}, "a IS NOT NULL"),
        ({"a": all_or_none(every=True, null=True)}, "TRUE"),
        ({"a": all_or_none(every=False, null=True)}, "a IS NULL"),
        ({"a": all_or_none(every=False, null=False)}, "FALSE"),
        ({"a": ranges(span("bigint", "()"))}, "a IS NOT NULL"),
        ({"L": ranges(point("bigint", 5)), "s": ranges(null=True)}, "L = 5 AND s IS NULL"),
        ({}, "TRUE"),
    ],
)
def test_what_arrives(columns, expected):
    assert sql(**columns) == expected


def test_none_and_all():
    assert from_tuple_domain(SimpleNamespace(domains=None), {}) == Constant(value=False)
    assert from_tuple_domain(SimpleNamespace(domains={}), {}) == Constant(value=True)
    for wrong in (None, {}, SimpleNamespace(), SimpleNamespace(domains=[1])):
        with pytest.raises(ExpressionError, match="TupleDomain"):
            from_tuple_domain(wrong, {})


def _range_with(low=None, high=None):
    return SimpleNamespace(low=low or marker("bigint", None, ABOVE), high=high or marker("bigint", None, BELOW))


def _nulls(nulls):
    made = block("bigint", 5)
    made.bigintData.nulls = nulls
    return made


MALFORMED = {
    "no set": SimpleNamespace(valueSet=None, nullAllowed=False),
    "no null": SimpleNamespace(valueSet=ranges(point("bigint", 1)).valueSet, nullAllowed=None),
    "two sets": SimpleNamespace(
        valueSet=SimpleNamespace(
            rangeValueSet=SimpleNamespace(ranges=[]),
            allOrNoneValueSet=SimpleNamespace(all=False),
            equatableValueSet=None,
        ),
        nullAllowed=False,
    ),
    "ranges absent": SimpleNamespace(
        valueSet=SimpleNamespace(
            rangeValueSet=SimpleNamespace(ranges=None), allOrNoneValueSet=None, equatableValueSet=None
        ),
        nullAllowed=False,
    ),
    "another type": ranges(point("integer", 1)),
    "json for bigint": equatable([block("json", "1")], inclusive=True),
    "two rows": ranges(SimpleNamespace(low=SimpleNamespace(value=block("bigint", 1, 2), bound=EXACTLY), high=None)),
    "a null": equatable([_nulls([True])], inclusive=True),
    "two nulls": equatable([_nulls([False, False])], inclusive=True),
    "low below": ranges(_range_with(low=marker("bigint", 1, BELOW))),
    "high above": ranges(_range_with(high=marker("bigint", 1, ABOVE))),
    "exactly nothing": ranges(_range_with(low=marker("bigint", None, EXACTLY))),
    "no bound": ranges(_range_with(low=SimpleNamespace(value=None, bound=None))),
    "bound 4": ranges(_range_with(low=SimpleNamespace(value=None, bound=4))),
    "no value": ranges(_range_with(low=SimpleNamespace(bound=ABOVE))),
    "backward": ranges(span("bigint", "[]", 5, 4)),
    "open point": ranges(span("bigint", "[)", 5, 5)),
    "unsorted": ranges(point("bigint", 5), point("bigint", 4)),
    "twice": ranges(point("bigint", 5), point("bigint", 5)),
    "overlap": ranges(span("bigint", "[]", 1, 5), span("bigint", "[]", 5, 9)),
    "unlimited and more": ranges(span("bigint", "()"), point("bigint", 4)),
    "not a list": equatable([], inclusive=None),
    "too large": ranges(point("bigint", 2**63)),
    "a text": ranges(point("bigint", "5")),
    "a float": ranges(point("bigint", 5.0)),
    "a boolean": ranges(point("bigint", True)),
}


@pytest.mark.parametrize("domain", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_domain_is_unknown(domain):
    expression = from_tuple_domain(tuple_domain(l=domain, i=ranges(point("integer", 3))), TYPES)
    unknown, known = expression.children
    assert isinstance(unknown, Unknown)
    assert unknown.reason.startswith("l: ")
    assert known.to_sql() == "i = 3"


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        ("d", ranges(point("double", float("nan")))),
        ("s", equatable([SimpleNamespace(varcharData=SimpleNamespace(sizes=[1], bytes=b"\xff"))], inclusive=True)),
        ("s", equatable([SimpleNamespace(varcharData=SimpleNamespace(sizes=[2], bytes=b"x"))], inclusive=True)),
        ("s", equatable([SimpleNamespace(varcharData=SimpleNamespace(sizes=[1], bytes=None))], inclusive=True)),
        ("day", ranges(span("date", "[)", 10_000_000))),
        ("at", ranges(span("timestamp", "[)", 10**17))),
        ("at", ranges(span("timestamp", "(]", None, 253402300799999))),
        ("j", equatable([block("json", "{}")], inclusive=True)),
        ("a", ranges(point("bigint", 1))),
        ("other", ranges(point("bigint", 1))),
        ("", ranges(point("bigint", 1))),
    ],
)
def test_what_has_no_value_here_is_unknown(column, domain):
    assert isinstance(from_tuple_domain(SimpleNamespace(domains={column: domain}), TYPES), Unknown)


@pytest.mark.parametrize("name", ["timestamp(6)", "timestamp(3) with time zone", "char(5)", "decimal(10,2)", "real", 5])
def test_other_types_are_unknown(name):
    domain = tuple_domain(c=ranges(point("bigint", 1)))
    assert isinstance(from_tuple_domain(domain, {"c": name}), Unknown)


def test_nan_passes_what_has_no_limit():
    """Trino's "all values" hold NaN; ranges with a limit may or may not."""
    table = pa.table({"d": [1.0, float("nan"), None, 5.0]})
    domain = from_tuple_domain(tuple_domain(d=without("double", [5.0])), TYPES)
    assert matches(domain, table).to_pylist()[:2] == [True, True]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_are_compared_as_they_are_served(unit, zone):
    """Of finer times Trino sees the millisecond, cut off towards the past."""
    micros = [-1001, -1000, -999, -1, 0, 1, 999, 1000, 1001, 1_999, 2_000]
    column = pa.array(micros, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
    stored = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    table = pa.table({"at": column.cast(pa.timestamp(unit, zone)) if zone else column})
    tests = {
        "[]": lambda ms: ms in {-1, 1},
        "[)": lambda ms: -1 <= ms < 1,
        "(]": lambda ms: -1 < ms <= 1,
        "()": lambda ms: -1 < ms < 1,
    }
    for text, passes in tests.items():
        domain = ranges(point("timestamp", -1), point("timestamp", 1)) if text == "[]" else None
        domain = domain or ranges(span("timestamp", text, -1, 1))
        bound = bind(from_tuple_domain(tuple_domain(at=domain), TYPES), table.schema, time_zone="UTC")
        assert matches(bound, table).to_pylist() == [passes(value // 1000) for value in stored], text


@pytest.mark.parametrize("kind", ["points", "holes", "intervals", "times"])
@pytest.mark.slow
def test_wide_domains(kind):
    values = range(0, 300_000 if kind == "points" else 60_000, 3)
    domains = {
        "points": lambda: {"l": ranges(*(point("bigint", value) for value in values))},
        "holes": lambda: {"l": without("bigint", values)},
        "intervals": lambda: {"l": ranges(*(span("bigint", "[]", value, value + 1) for value in values))},
        "times": lambda: {"at": ranges(*(point("timestamp", value) for value in values))},
    }
    domain = tuple_domain(**domains[kind]())
    expression = from_tuple_domain(domain, TYPES)
    bound = bind(expression, pa.schema([("l", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    assert function_calls(from_tuple_domain, domain, TYPES) < 100 * len(values)
    assert function_calls(simplify, bound) < 100 * len(values)
    assert bool(reasons_of(expression)) == (kind in {"intervals", "times"})


def test_the_hull_of_many_ranges_holds_all_of_them():
    expression = from_tuple_domain(
        tuple_domain(l=ranges(*(span("bigint", "[]", i, i + 1) for i in range(0, 900, 3)))), TYPES
    )
    assert expression.to_sql() == "l >= 0 AND l <= 898 AND unknown('300 ranges of l')"
    times = from_tuple_domain(tuple_domain(at=ranges(*(point("timestamp", i) for i in range(300)))), TYPES)
    assert "unknown('300 times of at')" in times.to_sql()
    assert dt.datetime(1970, 1, 1, tzinfo=dt.UTC) in [child.values[0] for child in times.children[:1]]
