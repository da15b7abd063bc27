"""A file that holds a matching row is never excluded, whatever the filter, the values and the statistics are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pushdown import HudiExpression, bind, columns_of, evaluate, key_bindings, matches, parse_sql, restrict, simplify
from pushdown.expression import Not, all_of, any_of
from tests.property.filters import COLUMNS, ENGINES, SCHEMA, Files, file_questions, filters, questions, row_truth
from tests.property.profile import MANY


def truths(expression: HudiExpression, table: Any, engine: str) -> list[bool | None]:
    return [row_truth(expression, row, engine) for row in table.to_pylist()]


def assert_outcomes_hold(outcomes: Any, actual: list[bool | None], split: Files, context: Any) -> None:
    for i, (start, end) in enumerate(zip(split.starts, split.ends, strict=True)):
        seen = set(actual[start:end])
        allowed = {
            value
            for value, mask in ((True, outcomes.can_true), (False, outcomes.can_false), (None, outcomes.can_null))
            if mask[i]
        }
        assert seen <= allowed, (context, i, seen, allowed)
        if outcomes.only_true[i]:
            assert seen == {True}, context


@MANY
@given(file_questions())
def test_outcomes_cover_every_row_in_every_engine(question: tuple[Files, HudiExpression]) -> None:
    split, expression = question
    bound = bind(expression, SCHEMA)
    outcomes = evaluate(bound, split.statistics, len(split))
    for engine in ENGINES:
        assert_outcomes_hold(outcomes, truths(expression, split.table, engine), split, (engine, expression))


@MANY
@given(file_questions())
def test_outcomes_of_a_simplified_filter_cover_every_row(question: tuple[Files, HudiExpression]) -> None:
    split, expression = question
    outcomes = evaluate(simplify(bind(expression, SCHEMA)), split.statistics, len(split))
    for engine in ENGINES:
        assert_outcomes_hold(outcomes, truths(expression, split.table, engine), split, (engine, expression))


@MANY
@given(file_questions(), st.sets(st.sampled_from(sorted(COLUMNS))))
def test_a_restricted_filter_only_gets_weaker(question: tuple[Files, HudiExpression], kept: set[str]) -> None:
    split, expression = question
    restricted = restrict(bind(expression, SCHEMA), kept)
    assert set(columns_of(restricted)) <= kept
    outcomes = evaluate(restricted, split.statistics, len(split))
    assert_outcomes_hold(outcomes, truths(expression, split.table, "spark"), split, expression)


@MANY
@given(questions())
def test_rows_binding_and_simplification_agree_with_the_plain_meaning(question: tuple[Any, HudiExpression]) -> None:
    table, expression = question
    expected = truths(expression, table, "spark")
    bound = bind(expression, SCHEMA)
    if "UNKNOWN" in bound.to_sql().upper():
        return  # NaN against whole numbers: engines differ
    assert matches(bound, table).to_pylist() == expected
    assert matches(simplify(bound), table).to_pylist() == expected
    assert bind(bound, SCHEMA) == bound


def same_outcomes(left: Any, right: Any) -> bool:
    names = ("can_true", "can_false", "can_null")
    return all((getattr(left, name) == getattr(right, name)).all() for name in names)


@MANY
@given(file_questions(), st.data())
def test_the_laws_of_de_morgan_and_of_double_negation(
    question: tuple[Files, HudiExpression], data: st.DataObject
) -> None:
    split, expression = question
    a, b = bind(expression, SCHEMA), bind(data.draw(filters(split.table)), SCHEMA)
    for left, right in (
        (Not(all_of(a, b)), any_of(Not(a), Not(b))),
        (Not(any_of(a, b)), all_of(Not(a), Not(b))),
        (Not(Not(a)), a),
    ):
        for one, two in ((left, right), (simplify(left), simplify(right))):
            outcomes = [evaluate(side, split.statistics, len(split)) for side in (one, two)]
            assert same_outcomes(*outcomes), (left, right)
        if "UNKNOWN" not in left.to_sql().upper():
            assert matches(left, split.table).to_pylist() == matches(right, split.table).to_pylist(), (left, right)


@MANY
@given(filters())
def test_sql_text_reads_back(expression: HudiExpression) -> None:
    again = parse_sql(expression.to_sql())
    assert bind(again, SCHEMA).to_sql() == bind(parse_sql(again.to_sql()), SCHEMA).to_sql()


@MANY
@given(questions())
def test_sql_text_means_the_same(question: tuple[Any, HudiExpression]) -> None:
    table, expression = question
    again = parse_sql(expression.to_sql())
    assert truths(again, table, "spark") == truths(expression, table, "spark")


@MANY
@given(questions(), st.data())
def test_bindings_hold_the_keys_of_all_matching_rows(question: tuple[Any, HudiExpression], data: st.DataObject) -> None:
    table, expression = question
    fields = data.draw(st.lists(st.sampled_from(table.column_names), min_size=1, unique=True))
    bindings = key_bindings(bind(expression, SCHEMA), fields)
    if bindings is None:
        return
    keys = {repr(key) for key in bindings}
    assert len(keys) == len(bindings)
    for engine in ENGINES:
        for row, truth in zip(table.to_pylist(), truths(expression, table, engine), strict=True):
            if truth:
                assert repr(tuple(row[name] for name in fields)) in keys, (engine, expression, row)
