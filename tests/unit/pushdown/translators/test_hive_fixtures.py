"""Filters as Hive 4.0.1 sent them, with the number of rows that it found."""

import json
from pathlib import Path

import pyarrow.dataset
import pytest

from pushdown import HudiExpression, bind, matches, reasons_of
from pushdown.translators import from_hive_json, from_hive_tree, from_search_argument, to_arrow_expression
from pushdown.walk import inexact_part
from tests.unit.pushdown.translators.hive_rows import hive_table

FIXTURES = Path(__file__).parent / "fixtures"
TREES = [case for case in json.loads((FIXTURES / "hive_tree.json").read_text()) if case.get("sent", True)]
ARGUMENTS = json.loads((FIXTURES / "search_argument.json").read_text())


def rows_let_through(expression: HudiExpression, number: int) -> int:
    table = hive_table(number)
    weak = to_arrow_expression(expression, table.schema, unknown="weaken")
    return pyarrow.dataset.dataset(table).count_rows(filter=weak)


@pytest.mark.parametrize("case", TREES, ids=lambda case: case["sql"])
def test_a_tree_of_hive(case):
    expression = from_hive_tree(case["input"])
    assert expression.to_sql() == case["expected"]
    assert from_hive_json(json.dumps(case["input"])) == expression
    if case["rows"] is None:
        return
    if inexact_part(bind(expression, hive_table(case["table"]).schema)) is not None:
        assert rows_let_through(expression, case["table"]) >= case["rows"]
    elif case["input"] is not None:
        # Where Hive sends no filter it had one all the same, and applies it itself.
        assert matches(expression, hive_table(case["table"])).to_pylist().count(True) == case["rows"]


@pytest.mark.parametrize("case", ARGUMENTS, ids=lambda case: case["sql"])
def test_a_search_argument_of_hive(case):
    expression = from_search_argument(case["input"])
    assert expression.to_sql() == case["expected"]
    if case["rows"] is not None:
        assert rows_let_through(expression, case["table"]) >= case["rows"]


def test_most_filters_are_understood():
    """Of the forms that Hive sends, those with a function without order are all that is not."""
    assert len(TREES) == 99
    assert sum(not reasons_of(from_hive_tree(case["input"])) for case in TREES) == 85
