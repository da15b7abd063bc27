"""`matches` against what Spark 4.3 itself answered (tests/golden/spark_filters, made by its make.py)."""

import json
import os

import pytest

from pushdown import bind, matches, parse_sql, simplify
from tests.support.sample_rows import FILTERS, sample_table

_FILE = os.path.join(os.path.dirname(__file__), "../../../golden/spark_filters/answers.json")
with open(_FILE, encoding="utf-8") as _file:
    ANSWERS = json.load(_file)["answers"]
TABLE = sample_table()


def test_every_filter_has_an_answer():
    assert list(ANSWERS) == FILTERS
    assert not [text for text, answer in ANSWERS.items() if isinstance(answer, str)]


@pytest.mark.parametrize("text", FILTERS)
def test_rows_are_those_of_spark(text):
    assert matches(parse_sql(text), TABLE).to_pylist() == ANSWERS[text]


@pytest.mark.parametrize("text", FILTERS)
def test_simplified_filters_give_the_same_rows(text):
    assert matches(simplify(bind(parse_sql(text), TABLE.schema)), TABLE).to_pylist() == ANSWERS[text]


@pytest.mark.parametrize("text", FILTERS)
def test_sql_text_round_trip(text):
    expression = parse_sql(text)
    assert parse_sql(expression.to_sql()) == expression
