"""Filters by Trino's rules, where they differ from those of other engines."""

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pytest
from sqlglot import parse_one

from hudi_catalog.gateway.attribution import mask_ambiguous, replace_current_times
from hudi_catalog.gateway.trino_filter import as_trino_filters, trino_schema
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression, Unknown
from pushdown.sql.queries import table_scans
from pushdown.walk import leaves

COLUMNS: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "r": pa.float32(),
    "other_r": pa.float32(),
    "d": pa.float64(),
    "x": pa.decimal128(12, 2),
    "long": pa.decimal128(20, 2),
    "s": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "ms": pa.timestamp("ms", "UTC"),
    "list": pa.list_(pa.int64()),
    "st": pa.struct([pa.field("other_r", pa.int64()), pa.field("at", pa.timestamp("us"))]),
}
SCHEMA = pa.schema(COLUMNS)


ZEROS, ONES = pa.array([0] * 4, pa.int64()), pa.array([1] * 4, pa.int64())
NOW = dt.datetime(2024, 5, 10, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))


def read(condition: str) -> HudiExpression:
    tree = parse_one(f"select 1 from t where {condition}", dialect="trino")
    replace_current_times(tree, NOW)
    mask_ambiguous(tree, [SCHEMA])
    scans = table_scans(tree, "trino", lambda parts: ("t", SCHEMA) if parts == ("t",) else None)
    return as_trino_filters(scans[0].filter, SCHEMA)


def is_understood(condition: str) -> bool:
    expression = read(condition)
    parts: Sequence[HudiExpression] = list(leaves(expression))
    return any(not isinstance(leaf, Unknown) for leaf in parts) and repr(expression) != "TRUE"


@pytest.mark.parametrize(
    "condition",
    [
        "i = 5",
        "i between 1 and 5",
        "i in (1, 2.0, null)",
        "i = 1e0",
        "r = 0.1",
        "r = real '0.1'",
        "d in (real '0.1', 1e0)",
        "x = 1.50",
        "x < 1e0",
        "long < 1.5",
        "s like 'a%'",
        "s = varchar 'a'",
        "day = date '2024-01-01'",
        "day between date '2024-01-01' and date '2024-01-01' + interval '1' month",
        "day > timestamp '2024-01-01 00:00:00 UTC'",
        "at >= timestamp '2024-01-01 00:00:00'",
        "at = timestamp '2024-01-01 00:00:00.000001'",
        "at = timestamp '2024-01-01 00:00'",
        "at = timestamp '2024-01-01'",
        "at <= timestamp '2024-01-01 00:00:00.5'",
        "at <= cast('2024-01-01 00:00:00.5' as timestamp(1))",
        "at <= cast('2024-01-01 00:00:00' as timestamp(0))",
        "at < cast('2024-01-01 00:00:00.1234' as timestamp)",
        "at < cast('2024-01-01 00:00:00.1234' as timestamp(3))",
        "at > timestamp '2024-01-01 00:00:00 +05:00'",
        "ms = timestamp '2024-01-01 00:00:00.001'",
        "date_trunc('day', at) = date '2024-01-01'",
        "st.at < timestamp '2024-01-01 00:00:00'",
        "list is null",
        "(i, s) in ((1, 'a'), (2, 'b'))",
    ],
)
def test_understood(condition: str) -> None:
    assert is_understood(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "i = real '16777217'",
        "x <= real '0.1'",
        "st.other_r = real '1'",
        "other_r = real '1'",
        "long = 1e0",
        "d = 0.1000000000000000055",
        "i between 9007199254740993 and 1e300",
        "i between 9007199254740993 and d",
        "at between timestamp '2024-01-01 00:00:00' and timestamp '2024-01-01 00:00:00 UTC'",
        "(i, s) in ((9007199254740993, 'a'), (1e0, 'b'))",
        "(day, s) in ((date '2024-01-01', 'a'), (timestamp '2024-01-01 00:00:00 UTC', 'b'))",
        "at < cast('2024-01-01 00:00:00.9' as timestamp(0))",
        "at < cast('2024-01-01 00:00:00.96' as timestamp(1))",
        "date_trunc('second', at) = cast('2024-01-01 00:00:00.9996' as timestamp)",
        "date(at) = timestamp '2024-01-01 00:00:00 UTC'",
        "cast(s as char(3)) = 'a'",
        "s = cast('a' as char(3))",
        "cast(d as bigint) = 5",
        "cast(x as bigint) = 5",
        "day = '2024-01-01'",
        "i = '5'",
        "at > current_timestamp - interval '1' month",
        "at > cast(current_timestamp as timestamp)",
        "at > current_timestamp at time zone 'UTC'",
        "day > date_trunc('month', current_date)",
        "regexp_like(s, '^a')",
        "list = array[1]",
        "nothing = 3",
    ],
)
def test_left_unknown(condition: str) -> None:
    assert not is_understood(condition)


def test_instants_are_seen_as_clock_times() -> None:
    seen = trino_schema(SCHEMA)
    assert seen.field("at").type == pa.timestamp("us")
    assert seen.field("st").type.field("at").type == pa.timestamp("us")
    assert seen.field("i").type == pa.int64()


def test_predicates_have_the_columns_own_types() -> None:
    for leaf in leaves(read("at >= timestamp '2024-01-01 00:00:00' and i = 3")):
        column = getattr(leaf, "column", None)
        assert column is None or getattr(leaf, "column_type", None) == SCHEMA.field(column).type


@pytest.mark.parametrize(
    ("condition", "day"),
    [
        ("day > current_date", "2024-05-10"),
        ("day >= (current_date - interval '7' day)", "2024-05-03"),
        ("day > date_add('day', -3, current_date)", "2024-05-07"),
        ("day > now() + interval '1' week - interval '36' hour", "2024-05-15"),
        ("day > localtimestamp", "2024-05-10"),
    ],
)
def test_current_times_are_sure_to_two_days(condition: str, day: str) -> None:
    middle = dt.date.fromisoformat(day)
    days = [middle + dt.timedelta(shift) for shift in (-3, -2, 2, 3)]
    exact = pa.array(days, pa.date32())
    outcomes = evaluate(read(condition), {"day": ColumnStatistics(exact, exact, ZEROS, ONES)}, 4)
    assert outcomes.can_true.tolist() == [False, True, True, True]
    assert outcomes.can_false.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    "condition",
    [
        "year(at) - 1 = 2019",
        "quarter(at) = 1",
        "month(at) = 1",
        "week(at) = 1",
        "day(at) = 1",
        "day_of_week(at) = 1",
        "day_of_year(at) = 1",
        "hour(at) = 0",
        "minute(at) = 0",
        "second(at) in (0, 1)",
        "not (month(at) <> 1)",
    ],
)
def test_functions_of_times_are_those_of_rounded_times_too(condition: str) -> None:
    # the second file ends 300 microseconds before the boundary, the first one a millisecond before it
    boundary = dt.datetime(2024 if "week" in condition else 2020, 1, 1, tzinfo=dt.UTC)
    ends = [boundary - dt.timedelta(microseconds=away) for away in (1_001, 300)]
    starts = [end - dt.timedelta(microseconds=100) for end in ends]
    stats = ColumnStatistics(pa.array(starts, COLUMNS["at"]), pa.array(ends, COLUMNS["at"]), ZEROS[:2], ONES[:2])
    outcomes = evaluate(read(condition), {"at": stats}, 2)
    assert outcomes.can_true.tolist() == [False, True]
    assert outcomes.can_false.tolist() == [True, True]
