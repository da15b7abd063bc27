"""Column names that Trino's Thrift connector accepts."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.trino.base.names import column_names
from hudi_catalog.trino.types import TypeMapping, columns_of


@pytest.mark.parametrize(
    ("names", "served"),
    [
        (["a", "b_2"], ["a", "b_2"]),
        (["_hoodie_commit_time", "_id", "id"], ["hoodie_commit_time", "id_2", "id"]),
        (["A", "a"], ["a_2", "a"]),
        (["Ab", "aB", "ab_2"], ["ab", "ab_3", "ab_2"]),
        (["größe", "grosse", "数量", "a-b", "a b", "$", "1st", "_"],
         ["grou00dfe", "grosse", "u6570u91cf", "a_b", "a_b_2", "c_", "c_1st", "c__2"]),
        (["_9", "_A", "þ"], ["c_9", "a", "u00fe"]),
    ],
)  # fmt: skip
def test_names(names: list[str], served: list[str]) -> None:
    assert column_names(names) == served


@given(st.lists(st.text(min_size=1, max_size=8) | st.text("aA_1éİ", min_size=1, max_size=3), unique=True))
def test_every_name_is_allowed_and_unique(names: list[str]) -> None:
    served = column_names(names)
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in served)
    assert len(set(served)) == len(served) == len(names)
    assert all(one == name for name, one in zip(names, served, strict=True) if re.fullmatch("[a-z][a-z0-9_]*", name))


def test_comments_tell_the_name_in_the_table() -> None:
    schema = pa.schema(
        [
            pa.field("_hoodie_file_name", pa.string()),
            pa.field("_x", pa.string(), metadata={"comment": "an x"}),
            pa.field("Y", pa.string(), metadata={"comment": "a y"}),
        ]
    )
    meta, x, y = columns_of(schema, TypeMapping())
    assert (meta.name, meta.comment, meta.hidden) == ("hoodie_file_name", "_hoodie_file_name in the table", True)
    assert (x.name, x.comment, x.hidden, x.source) == ("x", "_x in the table: an x", False, "_x")
    assert (y.name, y.comment, y.source) == ("y", "a y", "Y")
