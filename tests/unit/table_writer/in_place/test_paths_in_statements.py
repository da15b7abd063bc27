"""Tables that a statement names by their paths."""

import pytest

from pushdown.errors import FilterSyntaxError
from table_writer.in_place.words import with_replaced_paths


def replaced(text: str) -> str:
    return with_replaced_paths(text, "hudi_catalog", lambda path: f"<{path}>")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("SELECT * FROM hudi_catalog.`/a/b`", "SELECT * FROM </a/b>"),
        ("SELECT * FROM HUDI_CATALOG.`/a` version, t", "SELECT * FROM </a> version, t"),
        ("SELECT * FROM hudi_catalog.`/a` AS timestamp", "SELECT * FROM </a> AS timestamp"),
        ("SELECT * FROM x.hudi_catalog.`/a`, hudi_catalog.a", "SELECT * FROM x.hudi_catalog.`/a`, hudi_catalog.a"),
        ("SELECT * FROM other.`/a` TIMESTAMP AS OF '2026-01-01'", None),
    ],
)
def test_paths_get_other_words(text: str, other: str | None) -> None:
    assert replaced(text) == (text if other is None else other)


@pytest.mark.parametrize(
    "when",
    ["TIMESTAMP AS OF '2026-01-01'", "version as of '20260101'", "\n FOR SYSTEM_TIME AS OF x", "FOR VERSION  AS OF 1"],
)
def test_states_of_the_past_are_refused(when: str) -> None:
    with pytest.raises(
        FilterSyntaxError, match=r"^/a/b: a statement reads tables at their newest state.*to_df\(as_of="
    ):
        replaced(f"SELECT * FROM hudi_catalog.`/a/b` {when} WHERE x")
