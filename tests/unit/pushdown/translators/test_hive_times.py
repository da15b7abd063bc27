"""Hive's clock times, and its functions of times and texts."""

import datetime as dt
import itertools
import zoneinfo

import pyarrow as pa
import pytest

from pushdown import HudiExpression, Unknown, bind
from pushdown.translators import from_hive_tree, to_arrow_expression
from tests.unit.pushdown.translators.hive_trees import COMPARE, HOLDS, call, column, equal, value


def test_clock_times_around_a_change_of_clocks_are_unknown():
    def compared(text: str, kind: str = "timestamp", own: str = "timestamp") -> HudiExpression:
        return from_hive_tree(equal(own, text, kind), time_zone="Europe/Berlin")

    for text in ("2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-10-27 02:00:00"):
        assert isinstance(compared(text), Unknown)
        assert not isinstance(from_hive_tree(equal("timestamp", text)), Unknown)
    for text in ("2024-03-31 01:59:59", "2024-03-31 03:00:00", "2024-10-27 03:00:00"):
        assert not isinstance(compared(text), Unknown)
    # Clocks in São Paulo were changed at midnight.
    midnight = from_hive_tree(equal("timestamp", "2018-11-04", "date"), time_zone="America/Sao_Paulo")
    assert isinstance(midnight, Unknown)
    assert not isinstance(from_hive_tree(equal("date", "2018-11-04"), time_zone="America/Sao_Paulo"), Unknown)


def test_clock_times_lose_no_instant():
    """Hive compares the clock times that instants show."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    start = dt.datetime(2024, 10, 26, 22, tzinfo=dt.UTC)
    stored = [start + dt.timedelta(minutes=15 * i) for i in range(24)]
    table = pa.table({"a": pa.array(stored, pa.timestamp("us", "UTC"))})
    clocks = [moment.astimezone(berlin).replace(tzinfo=None) for moment in stored]
    for literal, (operator, name) in itertools.product(sorted(set(clocks)), COMPARE.items()):
        node = call(name, column("a", "timestamp"), value(str(literal), "timestamp"))
        expression = bind(from_hive_tree(node, time_zone="Europe/Berlin"), table.schema, time_zone="Europe/Berlin")
        kept = to_arrow_expression(expression, table.schema, unknown="weaken")
        hits = [HOLDS[operator](clock, literal) for clock in clocks]
        rows = set(table.filter(kept)["a"].to_pylist())
        assert {moment for moment, hit in zip(stored, hits, strict=True) if hit} <= {
            moment.astimezone(dt.UTC) for moment in rows
        }


TS, TO_DATE = column("a", "timestamp"), "GenericUDFDate"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (call(TO_DATE, TS, to="date"), "CAST(a AS DATE) = DATE '2024-01-02'"),
        (call("GenericUDFToDate", TS, to="date"), "CAST(a AS DATE) = DATE '2024-01-02'"),
        (call(TO_DATE, column("a", "date"), to="date"), "a = DATE '2024-01-02'"),
        (call(TO_DATE, column("a", "string"), to="date"), None),
        (call(TO_DATE, TS, value("x", "string"), to="date"), None),
        (call(TO_DATE, to="date"), None),
        (call("GenericUDFLastDay", TS, to="date"), None),
    ],
)
def test_dates_of_times(node, expected):
    expression = from_hive_tree(call("GenericUDFOPEqual", node, value("2024-01-02", "date")))
    assert isinstance(expression, Unknown) if expected is None else expression.to_sql() == expected
    assert isinstance(from_hive_tree(call("GenericUDFOPEqual", node, value("2024-01-02", "string"))), Unknown)


def test_lists_of_functions_values():
    days = [value(f"2024-01-{day:02}", "date") for day in (2, 5)]
    expression = from_hive_tree(call("GenericUDFIn", call(TO_DATE, TS, to="date"), *days))
    assert expression.to_sql() == "CAST(a AS DATE) = DATE '2024-01-02' OR CAST(a AS DATE) = DATE '2024-01-05'"
    many = call("GenericUDFIn", call(TO_DATE, TS, to="date"), *days * 51)
    assert isinstance(from_hive_tree(many), Unknown)


@pytest.mark.parametrize(
    ("own", "number", "expected"),
    [
        ("date", "2024", "year(a) >= 2024"),
        ("timestamp", "2024", "year(a) >= 2024"),
        ("string", "2024", None),
        ("date", "1582", None),
        ("date", "9999", None),
        ("timestamp", "1899", None),
        ("timestamp", None, None),
    ],
)
def test_years(own, number, expected):
    node = call("GenericUDFOPEqualOrGreaterThan", call("UDFYear", column("a", own), to="int"), value(number, "int"))
    expression = from_hive_tree(node)
    assert isinstance(expression, Unknown) if expected is None else expression.to_sql() == expected


def test_days_that_begin_with_a_change_of_clocks_are_unknown():
    zone = "America/Sao_Paulo"
    for day, plain in (("2018-11-02", True), ("2018-11-03", False), ("2018-11-04", False), ("2018-11-05", True)):
        node = call("GenericUDFOPEqual", call(TO_DATE, TS, to="date"), value(day, "date"))
        assert isinstance(from_hive_tree(node, time_zone=zone), Unknown) is not plain


@pytest.mark.parametrize(
    ("operator", "start", "length", "text", "own", "understood"),
    [
        ("=", "1", "3", "n15", "string", True),
        ("<>", "1", "3", "n15", "string", True),
        ("<=>", "1", "3", "\uffff", "string", True),
        ("<", "1", "3", "n15", "string", False),  # engines' ways to count differ in order
        ("=", "1", "3", "😀", "string", False),
        ("=", "2", "3", "n15", "string", False),
        ("=", "1", "0", "", "string", False),
        ("=", "1", "3", "n15", "varchar(5)", False),
        ("=", "1", None, "n15", "string", False),
    ],
)
def test_beginnings_of_texts(operator, start, length, text, own, understood):
    function = call("substr", column("a", own), value(start, "int"), value(length, "int"), to="string")
    expression = from_hive_tree(call(COMPARE[operator], function, value(text, "string")))
    assert isinstance(expression, Unknown) is not understood
    two = call("substr", column("a", "string"), value("1", "int"), to="string")
    assert isinstance(from_hive_tree(call("GenericUDFOPEqual", two, value("x", "string"))), Unknown)


@pytest.mark.parametrize(
    ("zone", "start"), [("Europe/Berlin", "2024-10-26"), ("America/Sao_Paulo", "2018-11-03"), ("UTC", "2023-12-31")]
)
def test_functions_of_times_lose_no_instant(zone, start):
    """Instants around changes of clocks, as Hive sees them: as clock times."""
    first = dt.datetime.fromisoformat(start).replace(tzinfo=dt.UTC)
    stored = [first + dt.timedelta(minutes=30 * i) for i in range(120)]
    table = pa.table({"a": pa.array(stored, pa.timestamp("us", "UTC"))})
    clocks = [moment.astimezone(zoneinfo.ZoneInfo(zone)) for moment in stored]
    exact = 0
    for operator, name in COMPARE.items():
        tests = [
            (call(TO_DATE, TS, to="date"), value(str(day), "date"), day, [clock.date() for clock in clocks])
            for day in sorted({clock.date() for clock in clocks})
        ]
        tests += [
            (call("year", TS, to="int"), value(str(year), "int"), year, [clock.year for clock in clocks])
            for year in (2018, 2023, 2024)
        ]
        for function, literal, wanted, values in tests:
            expression = bind(
                from_hive_tree(call(name, function, literal), time_zone=zone), table.schema, time_zone=zone
            )
            kept = table.filter(to_arrow_expression(expression, table.schema, unknown="weaken"))["a"].to_pylist()
            hits = {moment for moment, one in zip(stored, values, strict=True) if HOLDS[operator](one, wanted)}
            assert hits <= set(kept), (operator, literal)
            exact += hits == set(kept)
    assert exact > 30
