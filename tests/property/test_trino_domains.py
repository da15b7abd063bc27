"""A TupleDomain over served values, as a filter on the table's own: it excludes no row that Trino wants."""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.trino.base.scans import row_condition
from hudi_catalog.trino.domains import expression_of
from hudi_catalog.trino.types import Form, ServedColumn, TypeMapping, columns_of
from pushdown.evaluation.rows import matches
from pushdown.expression import Constant, HudiExpression
from pushdown.walk import reasons_of
from tests.property.profile import examples
from tests.support.trino_wire import FIELDS, SERVICE, block_field, block_values, decoded, encode_block

BELOW, EXACTLY, ABOVE = 1, 2, 3
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROS = st.integers(-5000, 5000) | st.integers(-(10**15), 10**16)
TIMES = MICROS.map(lambda n: EPOCH + dt.timedelta(microseconds=n))
SMALL = st.integers(-3, 3)
TEXTS = st.text("ab\0é€😀\ue000", max_size=3)

# By type: its values, and whether the filter on the rows says exactly what the domain says of the served values.
Case = tuple[pa.DataType, dict[str, str], st.SearchStrategy[Any], bool]
COLUMNS: list[Case] = [
    (pa.int32(), {}, SMALL | st.integers(-(2**31), 2**31 - 1), True),
    (pa.int64(), {}, SMALL | st.integers(-(2**63), 2**63 - 1), True),
    (pa.float64(), {}, SMALL.map(float) | st.floats(allow_nan=False) | st.just(-0.0), True),
    (pa.float32(), {}, SMALL.map(float) | st.floats(allow_nan=False, width=32), True),
    (pa.string(), {}, TEXTS, True),
    (pa.bool_(), {}, st.booleans(), True),
    (pa.date32(), {}, st.dates(), True),
    (pa.timestamp("us", "UTC"), {"timestamp": "truncate"}, TIMES, True),
    (pa.timestamp("us"), {"timestamp": "truncate"}, TIMES.map(lambda t: t.replace(tzinfo=None)), True),
    (pa.timestamp("ms", "UTC"), {}, TIMES.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)), True),
    (pa.timestamp("us", "UTC"), {"timestamp": "bigint"}, TIMES, True),
    (pa.timestamp("us"), {"timestamp": "bigint"}, TIMES.map(lambda t: t.replace(tzinfo=None)), True),
    (pa.timestamp("us", "UTC"), {"timestamp": "varchar"}, TIMES, False),
    (pa.timestamp("us"), {"timestamp": "varchar"}, TIMES.map(lambda t: t.replace(tzinfo=None)), False),
    (pa.decimal128(5, 2), {}, st.decimals(-9, 9, places=2), False),
    (pa.decimal128(15, 2), {}, st.decimals(-(10**13) + 1, 10**13 - 1, places=2), False),
    (pa.decimal128(15, 15), {}, st.decimals(decimal.Decimal("-0.9"), decimal.Decimal("0.9"), places=15), False),
    (pa.decimal128(5, 2), {"decimal": "varchar"}, st.decimals(-9, 9, places=2), False),
    (pa.decimal128(38, 10), {}, st.decimals(-9, 9, places=10), False),
    (pa.decimal128(5, 2), {"decimal": "double"}, st.decimals(-9, 9, places=2), False),
    (pa.decimal128(30, 20), {"decimal": "double"}, st.decimals(-1, 1, places=20), False),
    (pa.decimal128(5, 2), {"decimal": "bigint"}, st.decimals(-9, 9, places=2), True),
    (pa.decimal128(18, 0), {"decimal": "bigint"}, st.integers(-(10**18) + 1, 10**18 - 1).map(decimal.Decimal), True),
    (pa.binary(), {}, st.binary(max_size=2), False),
    (pa.binary(), {"binary": "base64"}, st.binary(max_size=4), False),
    (pa.time64("us"), {}, st.times(), False),
    (pa.list_(pa.int64()), {}, st.lists(SMALL, max_size=2), False),
    (pa.struct([("a", pa.int32())]), {}, st.fixed_dictionaries({"a": SMALL}), False),
]


def served(array: Any, column: ServedColumn) -> tuple[str, list[Any]]:
    block = decoded(encode_block(array, column), "TrinoThriftBlock")
    return block_field(block), block_values(block)


def one_row(field: str, value: Any) -> Any:
    """A block with one value."""
    if field in FIELDS:
        name = field[0].upper() + field[1:].removesuffix("Data")
        return SERVICE.TrinoThriftBlock(**{field: getattr(SERVICE, f"TrinoThrift{name}")(None, [value])})
    struct = SERVICE.TrinoThriftJson if field == "jsonData" else SERVICE.TrinoThriftVarchar
    return SERVICE.TrinoThriftBlock(**{field: struct(None, [len(value)], value)})


def key(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


@st.composite
def value_sets(draw: st.DrawFn, field: str, pool: list[Any]) -> tuple[Any, Any]:
    """A set of served values, and a function that tells whether one is in it."""
    kind = draw(st.sampled_from(["ranges", "ranges", "ranges", "equatable", "all"]))
    if kind == "all" or field == "bigintArrayData" or not pool:
        everything = draw(st.booleans())
        return SERVICE.TrinoThriftValueSet(SERVICE.TrinoThriftAllOrNoneValueSet(everything)), lambda _: everything
    distinct = sorted({key(value) for value in pool})
    if kind == "equatable" or field == "jsonData":
        chosen = draw(st.lists(st.sampled_from(distinct), unique=True))
        inclusive = draw(st.booleans())
        blocks = [one_row(field, value) for value in chosen]
        values = SERVICE.TrinoThriftEquatableValueSet(inclusive, blocks)
        return SERVICE.TrinoThriftValueSet(None, values), lambda value: (key(value) in chosen) == inclusive
    # A cut 2i is before the i-th value, 2i + 1 after it; cuts in pairs make sorted ranges that do not overlap.
    cuts = sorted(draw(st.sets(st.integers(-1, 2 * len(distinct)), max_size=8)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    ranges = [range_of(field, distinct, low, high) for low, high in pairs]

    def inside(value: Any) -> bool:
        at = 2 * distinct.index(key(value))
        return any(low <= at and at + 1 <= high for low, high in pairs)

    return SERVICE.TrinoThriftValueSet(None, None, SERVICE.TrinoThriftRangeValueSet(ranges)), inside


def range_of(field: str, values: list[Any], low: int, high: int) -> Any:
    def marker(cut: int, exact: bool, beyond: int) -> Any:
        if not 0 <= cut < 2 * len(values):
            return SERVICE.TrinoThriftMarker(None, beyond)
        return SERVICE.TrinoThriftMarker(one_row(field, values[cut // 2]), EXACTLY if exact else beyond)

    return SERVICE.TrinoThriftRange(marker(low, low % 2 == 0, ABOVE), marker(high, high % 2 == 1, BELOW))


@pytest.mark.parametrize("case", COLUMNS, ids=lambda case: f"{case[0]} {case[1]}")
@examples(40)
@given(data=st.data())
def test_no_row_is_left_out(case: Case, data: st.DataObject) -> None:
    kind, mapping, values, exact = case
    schema = pa.schema([("C", kind)])
    columns = columns_of(schema, TypeMapping(**mapping))
    rows = data.draw(st.lists(st.none() | values, max_size=8))
    others = data.draw(st.lists(values, max_size=4))
    array: Any = pa.array(rows, kind)
    field, wire = served(array, columns[0])
    _, more = served(pa.array(others, kind), columns[0])
    value_set, inside = data.draw(value_sets(field, [value for value in wire + more if value is not None]))
    null_allowed = data.draw(st.booleans())
    domain = SERVICE.TrinoThriftDomain(value_set, null_allowed)
    expression = expression_of(SERVICE.TrinoThriftTupleDomain({"c": domain}), columns, schema)
    wanted = [null_allowed if value is None else inside(value) for value in wire]
    condition = row_condition(expression)
    let_through = (
        [True] * len(rows)
        if condition is None
        else matches(condition, pa.Table.from_arrays([array], schema=schema)).to_pylist()
    )
    assert all(keep for keep, want in zip(let_through, wanted, strict=True) if want), (expression, rows, wire)
    if exact:
        assert [keep is True for keep in let_through] == wanted, (expression, rows, wire)
    point = expression_of_point(domain, wire, columns, schema)
    assert point is None or columns[0].form not in EXACT_POINTS or not reasons_of(point)


EXACT_POINTS = {Form.DECIMAL_TEXT, Form.TIME_TEXT, Form.HEX, Form.BASE64}


def expression_of_point(domain: Any, wire: list[Any], columns: Any, schema: pa.Schema) -> HudiExpression | None:
    """Equality with the first value, which prunes even where ranges cannot."""
    first = next((value for value in wire if value is not None), None)
    if first is None or columns[0].form not in EXACT_POINTS:
        return None
    block = one_row("varcharData", first)
    marker = SERVICE.TrinoThriftMarker(block, EXACTLY)
    ranges = SERVICE.TrinoThriftRangeValueSet([SERVICE.TrinoThriftRange(marker, marker)])
    equal = SERVICE.TrinoThriftDomain(SERVICE.TrinoThriftValueSet(None, None, ranges), nullAllowed=False)
    return expression_of(SERVICE.TrinoThriftTupleDomain({"c": equal}), columns, schema)


def test_texts_that_no_value_is_served_as() -> None:
    """0.10 is served with two digits: the text 0.1 is that of no row, and is not a row's 0.10 either."""
    schema = pa.schema([("c", pa.decimal128(5, 2))])
    columns = columns_of(schema, TypeMapping(decimal="varchar"))
    numbers = pa.array([decimal.Decimal("0.10"), decimal.Decimal("0.00"), None], pa.decimal128(5, 2))
    table = pa.Table.from_arrays([numbers], schema=schema)
    for text in ("0.1", "-0.00", "+0.10", " 0.10", "1e-1", "NaN", "0.100", "00.10", "x"):
        blocks = [one_row("varcharData", text.encode())]
        for inclusive, wanted in ((True, []), (False, [0, 1])):
            values = SERVICE.TrinoThriftEquatableValueSet(inclusive, blocks)
            domain = SERVICE.TrinoThriftDomain(SERVICE.TrinoThriftValueSet(None, values), nullAllowed=False)
            expression = expression_of(SERVICE.TrinoThriftTupleDomain({"c": domain}), columns, schema)
            matching = matches(expression, table).to_pylist()
            assert [row for row, keep in enumerate(matching) if keep] == wanted, text


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("micros", [253_402_300_800_000_000, -62_135_596_800_000_001, 9 * 10**17])
def test_times_of_years_that_python_does_not_have(zone: str | None, micros: int) -> None:
    schema = pa.schema([pa.field("c", pa.timestamp("us", zone))])
    array: Any = pa.array([micros], pa.int64()).cast(schema.field(0).type)
    columns = columns_of(schema, TypeMapping(timestamp="varchar"))
    field, (text,) = served(array, columns[0])
    point = SERVICE.TrinoThriftMarker(one_row(field, text), EXACTLY)
    ranges = SERVICE.TrinoThriftRangeValueSet([SERVICE.TrinoThriftRange(point, point)])
    domain = SERVICE.TrinoThriftDomain(SERVICE.TrinoThriftValueSet(None, None, ranges), nullAllowed=False)
    expression = expression_of(SERVICE.TrinoThriftTupleDomain({"c": domain}), columns, schema)
    assert row_condition(expression) is None


def test_what_is_not_known_lets_every_row_through() -> None:
    schema = pa.schema([("c", pa.int32())])
    columns = columns_of(schema, TypeMapping())
    nothing = SERVICE.TrinoThriftDomain(SERVICE.TrinoThriftValueSet(), nullAllowed=True)
    for name in ("c", "d"):
        expression = expression_of(SERVICE.TrinoThriftTupleDomain({name: nothing}), columns, schema)
        assert reasons_of(expression)
        assert row_condition(expression) is None
    none = expression_of(SERVICE.TrinoThriftTupleDomain(None), columns, schema)
    assert none == Constant(value=False)
    assert row_condition(expression_of(SERVICE.TrinoThriftTupleDomain({}), columns, schema)) is None
