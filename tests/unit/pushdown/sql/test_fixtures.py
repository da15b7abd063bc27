"""SQL conditions and what they become, dialect by dialect; the fixtures are the table of what maps."""

import json
import pathlib

import pytest

from pushdown import parse_sql

FOLDER = pathlib.Path(__file__).parent / "fixtures"


def cases():
    for path in sorted(FOLDER.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for condition in content["conditions"]:
            yield pytest.param(content["dialect"], condition["sql"], condition["expected"])


@pytest.mark.parametrize(("dialect", "text", "expected"), list(cases()))
def test_conditions(dialect, text, expected):
    expression = parse_sql(text, dialect)
    assert expression.to_sql() == expected


@pytest.mark.parametrize(("dialect", "text", "expected"), list(cases()))
def test_text_is_read_back(dialect, text, expected):
    assert parse_sql(expected, "spark").to_sql() == expected, (dialect, text)
