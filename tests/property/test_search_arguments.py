"""A SearchArgument excludes no file that holds a row on which the filter that Hive sent it for is true."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pushdown import HudiExpression, Op, Predicate, bind, evaluate, simplify
from pushdown.translators import from_search_argument
from tests.property.filters import SCHEMA, Files, files, filters
from tests.property.profile import examples
from tests.property.search_arguments import search_argument
from tests.property.test_filters import assert_outcomes_hold, truths

TYPES = {
    "b": "BOOLEAN",
    "i": "LONG",
    "l": "LONG",
    "f": "FLOAT",
    "d": "FLOAT",
    "dec": "DECIMAL",
    "wide": "DECIMAL",
    "s": "STRING",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP",
}


COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE)


def comparisons(table: pa.Table, data: st.DataObject) -> list[HudiExpression]:
    """Each comparison of each column with one of its values: few of them are in a random filter."""
    made: list[HudiExpression] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        value = data.draw(st.sampled_from(column.to_pylist()), label=name)
        made += [Predicate(op, name, (value,)) for op in COMPARISONS]
    return made


@examples(100)
@given(files(), st.booleans(), st.data())
def test_outcomes_cover_every_row(split: Files, between: bool, data: st.DataObject) -> None:
    for expression in [data.draw(filters(split.table)), *comparisons(split.table, data)]:
        sent = search_argument(expression, TYPES, between=between)
        bound = bind(from_search_argument(sent), SCHEMA)
        actual = truths(expression, split.table, "hive")
        for translated in (bound, simplify(bound)):
            assert_outcomes_hold(evaluate(translated, split.statistics, len(split)), actual, split, (expression, sent))
