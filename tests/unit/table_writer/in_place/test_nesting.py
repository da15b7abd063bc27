"""Statements and queries that are nested too deeply to be read."""

import pytest

from pushdown.errors import FilterSyntaxError
from table_writer.in_place.statements import statement_of
from table_writer.in_place.words import mentioned_tables

DEEP = ["lower(" * 100 + "a" + ")" * 100 + " = 'x'", "date(" * 30 + "a" + ")" * 30 + " = a"]


@pytest.mark.parametrize("condition", DEEP)
def test_a_statement_is_refused(condition: str) -> None:
    with pytest.raises(FilterSyntaxError, match="nested too deeply"):
        statement_of(f"DELETE FROM t WHERE {condition}")


@pytest.mark.parametrize("condition", DEEP)
def test_a_query_names_no_tables(condition: str) -> None:
    assert list(mentioned_tables(f"SELECT * FROM t WHERE {condition}")) == []
