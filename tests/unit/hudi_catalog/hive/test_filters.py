"""Filters of Hive over a snapshot: what does not fit is unknown, and so is what Hive interprets differently."""

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.hive.planning import bound_filter
from pushdown.expression import And, Unknown
from table_format.errors import ServiceError
from tests.support.hive_client import node, tree

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64()),
        pa.field("Name", pa.string()),
        pa.field("name2", pa.string()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("clock", pa.timestamp("us")),
        pa.field("same", pa.int32()),
        pa.field("SAME", pa.int32()),
    ]
)
SNAPSHOT: Any = SimpleNamespace(schema=SCHEMA)


def bound(text: str | None, zone: str | None = "UTC") -> Any:
    return bound_filter(SNAPSHOT, text, zone)


def test_columns_are_found_by_their_names_in_lower_case() -> None:
    assert repr(bound(tree("OPEqual", "name", "string", "x"))) == "Name = 'x'"
    assert repr(bound(tree("OPLessThan", "k", "bigint", 3))) == "k < 3"
    assert bound(None) is None
    assert bound("null") is None


def test_what_does_not_fit_is_unknown() -> None:
    for name in ("absent", "same"):
        filter_ = bound(tree("OPEqual", name, "int", 1))
        assert isinstance(filter_, Unknown)
    with pytest.raises(ServiceError, match="not JSON"):
        bound("{")
    assert isinstance(bound('{"a":[' * 100_000 + "]}" * 100_000), Unknown)


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [("k", "string", "10"), ("k", "int", 10), ("name", "bigint", 10), ("ts", "bigint", 10), ("ts", "string", "2026")],
)
def test_a_column_that_hive_has_under_another_type_is_not_used(column: str, kind: str, value: Any) -> None:
    """As text, '9' is more than '10'; as an int, a number that does not fit is null."""
    filter_ = bound(tree("OPLessThan", column, kind, value))
    assert isinstance(filter_, Unknown)
    assert f"{column} is {kind} in Hive" in filter_.reason
    good = node("OPLessThan", "name2", "string", "x")
    both = {"f": "GenericUDFOPAnd", "t": "boolean", "a": [node("OPEqual", column, kind, value), good]}
    filter_ = bound(json.dumps(both))
    assert isinstance(filter_, And)
    assert "name2 < 'x'" in repr(filter_)


def test_texts_with_a_length_are_understood() -> None:
    assert "Name" in repr(bound(tree("OPLessThan", "name", "varchar(10)", "x")))


def test_clock_times_are_of_hives_zone() -> None:
    text = tree("OPGreaterThan", "ts", "timestamp", "2026-06-15 02:00:00")
    assert "2026-06-15 00:00:00" in repr(bound(text, "Europe/Berlin"))
    assert "2026-06-15 02:00:00" in repr(bound(text, "UTC"))
    unsure = bound(text, None)
    assert isinstance(unsure, Unknown)
    assert "ts holds instants, and the clocks of Hive are not known here" in unsure.reason
    assert repr(bound(tree("OPEqual", "name", "string", "x"), None)) == "Name = 'x'"
    assert "clock >" in repr(bound(text.replace('"ts"', '"clock"'), None))
    skipped = tree("OPGreaterThan", "ts", "timestamp", "2026-03-29 02:30:00")
    assert isinstance(bound(skipped, "Europe/Berlin"), Unknown)
