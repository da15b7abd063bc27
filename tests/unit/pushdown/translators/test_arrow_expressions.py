import threading

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet
import pytest

from pushdown import (
    And,
    Constant,
    InexactFilterError,
    Not,
    Op,
    Or,
    Predicate,
    Unknown,
    UnknownColumnError,
    matches,
    parse_sql,
)
from pushdown.translators import to_arrow_expression
from tests.support.sample_rows import FILTERS, sample_table
from tests.support.work import function_calls

TABLE = sample_table()


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pyarrow.parquet.write_table(TABLE, path, row_group_size=3)
    return pyarrow.dataset.dataset(path)


@pytest.mark.slow
def test_the_truth_values_are_those_of_rows(parquet):
    memory = pyarrow.dataset.dataset(TABLE)
    compared = 0
    for text in FILTERS:
        expression = parse_sql(text)
        try:
            expected = matches(expression, TABLE).to_pylist()
        except InexactFilterError:
            with pytest.raises(InexactFilterError):
                to_arrow_expression(expression, TABLE.schema)
            continue
        filter_ = to_arrow_expression(expression, TABLE.schema)
        assert memory.to_table(columns={"truth": filter_})["truth"].to_pylist() == expected, text
        # Readers leave row groups out by their statistics.
        assert parquet.count_rows(filter=filter_) == expected.count(True), text
        assert memory.to_table(columns={"truth": ~filter_})["truth"].to_pylist() == [
            None if truth is None else not truth for truth in expected
        ], text
        compared += 1
    assert compared > 180


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.large_string(),
        pa.string(),
        pa.binary(),
        pa.large_binary(),
        pa.binary(1),
    ],
)
def test_texts_and_bytes_of_all_kinds(kind):
    values = pa.array(["a", "b", None, "c"])
    table = pa.table({"a": values.cast(kind) if kind != pa.binary(1) else values.cast(pa.binary()).cast(kind)})
    for text in ("a = 'b'", "a >= 'b'", "a IN ('b', 'x')", "a NOT IN ('b', NULL)", "a <=> 'c'"):
        expression = parse_sql(text)
        truths = pyarrow.dataset.dataset(table).to_table(columns={"x": to_arrow_expression(expression, table.schema)})
        assert truths["x"].to_pylist() == matches(expression, table).to_pylist(), text


def test_fields_of_null_structs_are_null():
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3])], names=["y"], mask=pa.array([False, False, True]))
    table = pa.table({"s": pa.StructArray.from_arrays([inner], names=["x"], mask=pa.array([False, True, False]))})
    dataset = pyarrow.dataset.dataset(table)
    for text, expected in (("s.x.y >= 1", [True, None, None]), ("s.x.y IS NULL", [False, True, True])):
        filter_ = to_arrow_expression(parse_sql(text), table.schema)
        assert dataset.to_table(columns={"x": filter_})["x"].to_pylist() == expected


def test_what_is_unknown_is_refused_or_weakened():
    table = pa.table({"a": [1, 2, None]})
    known, vague = Predicate(Op.EQ, "a", (1,)), Unknown("f(a)")
    with pytest.raises(InexactFilterError, match=r"f\(a\)"):
        to_arrow_expression(And([known, vague]), table.schema)

    def kept(expression):
        return table.filter(to_arrow_expression(expression, table.schema, unknown="weaken"))["a"].to_pylist()

    assert kept(And([known, vague])) == [1]
    assert kept(Or([known, vague])) == [1, 2, None]
    assert kept(Not(And([known, vague]))) == [1, 2, None]
    assert kept(Not(Or([known, vague]))) == [2]
    assert kept(Not(Not(And([known, Not(vague)])))) == [1]
    assert kept(And([])) == [1, 2, None]
    assert kept(Or([])) == []
    assert kept(Constant(None)) == []


def test_a_pattern_that_is_too_long_is_refused_or_weakened():
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    for word in ("LIKE", "NOT LIKE"):
        expression = parse_sql(f"a {word} '{'_' * 200_000}%x' AND b = 1")
        with pytest.raises(InexactFilterError, match="a pattern that is too long"):
            to_arrow_expression(expression, schema)
        weak = to_arrow_expression(expression, schema, unknown="weaken")
        assert str(weak) == str(to_arrow_expression(parse_sql("b = 1"), schema))


def test_the_column_must_be_there():
    with pytest.raises(UnknownColumnError):
        to_arrow_expression(parse_sql("b = 1"), pa.schema([("a", pa.int64())]))
    filter_ = to_arrow_expression(parse_sql("A = 1"), pa.schema([("a", pa.int64())]))
    assert filter_.equals(pc.field("a") == pa.scalar(1, pa.int64()))
    with pytest.raises(UnknownColumnError):
        to_arrow_expression(parse_sql("A = 1"), pa.schema([("a", pa.int64())]), case_sensitive=True)


def test_the_time_zone_is_that_of_the_session():
    table = pa.table({"a": pa.array([0], pa.timestamp("us", "UTC"))})
    expression = parse_sql("a = TIMESTAMP '1970-01-01 01:00:00'")
    assert table.filter(to_arrow_expression(expression, table.schema, time_zone="Europe/Berlin")).num_rows == 1
    assert table.filter(to_arrow_expression(expression, table.schema)).num_rows == 0


@pytest.mark.slow
def test_deep_filters_are_refused_or_weakened():
    table = pa.table({"a": [1, 5]})
    one, other = Predicate(Op.LIKE, "s", ("%x",)), Predicate(Op.LIKE, "s", ("%y",))
    deep = one
    for i in range(5_000):
        deep = (And, Or)[i % 2]([deep, other])
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
    with pytest.raises(InexactFilterError, match="5,001 predicates"):
        to_arrow_expression(deep, schema)
    assert table.filter(to_arrow_expression(deep, schema, unknown="weaken")).num_rows == 2
    for _ in range(4_850):
        deep = deep.children[0]
    with pytest.raises(InexactFilterError, match="levels deep"):
        to_arrow_expression(deep, schema)
    assert table.filter(to_arrow_expression(deep, schema, unknown="weaken")).num_rows == 2
    flat = Predicate(Op.EQ, "a", (5,))
    for _ in range(5_000):
        flat = Not(And([flat, Constant(value=True)]))
    assert table.filter(to_arrow_expression(flat, table.schema)).num_rows == 1


@pytest.mark.slow
def test_wide_filters():
    table = pa.table({"a": list(range(0, 1_000_000, 100_000)), "s": ["x"] * 10})
    listed = to_arrow_expression(Predicate(Op.IN, "a", tuple(range(0, 200_000, 2))), table.schema)
    assert table.filter(listed)["a"].to_pylist() == [0, 100_000]
    joined = Or([Predicate(Op.EQ, "a", (i,)) for i in range(20_000)])
    assert table.filter(to_arrow_expression(joined, table.schema)).num_rows == 1
    patterns = [Predicate(Op.LIKE, "s", (f"%{i}",)) for i in range(20_000)]
    with pytest.raises(InexactFilterError, match="20,000 predicates"):
        to_arrow_expression(Or(patterns), table.schema)
    assert table.filter(to_arrow_expression(Or(patterns), table.schema, unknown="weaken")).num_rows == 10
    assert table.filter(to_arrow_expression(And(patterns), table.schema, unknown="weaken")).num_rows == 0
    for wide_filter in (joined, And(patterns)):
        assert (
            function_calls(lambda wide: to_arrow_expression(wide, table.schema, unknown="weaken"), wide_filter)
            < 5_000_000
        )


def test_the_largest_filters_fit_a_small_stack():
    """Arrow's own recursion, in a thread with a stack of one megabyte."""
    table = pa.table({"a": pa.array([1.0, None]), "s": ["x", None]})
    lists = [Predicate(Op.NOT_IN, "a", (i / 8, i / 4)) for i in range(300)]
    nested = Predicate(Op.LIKE, "s", ("%x",))
    for i in range(98):
        nested = (And, Or)[i % 2]([nested, Predicate(Op.GT, "a", (i / 8,)), Predicate(Op.LIKE, "s", (f"%{i}",))])
    kept = []

    def read() -> None:
        for expression in (And(lists), Or(lists), nested):
            filter_ = to_arrow_expression(expression, table.schema)
            kept.append(pyarrow.dataset.dataset(table).count_rows(filter=filter_))

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=read)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert kept == [0, 1, 0]
