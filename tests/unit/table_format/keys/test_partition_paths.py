"""Partition paths parsed all at once, beside a parser of one path by Python's own means."""

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.keys.partition_values import (
    DEFAULT_PARTITION,
    escape_path_name,
    escape_path_names,
    parse_partition_paths,
    unescape_path_name,
)

PIECES = ["a=", "b=", "/", "/b=", "1", "-7", "2024-01-02", DEFAULT_PARTITION, "%", "%2F", "%zz", "true", "é", "\n", "."]
paths = st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=9)


def parts_of(path: str, fields: list[str], *, hive_style: bool) -> list[str] | None:
    """The values' texts in a path; None where it cannot be parsed."""
    if not hive_style:
        parts = [path] if len(fields) == 1 else path.split("/")
        return parts if path and len(parts) == len(fields) else None
    match = re.fullmatch("/".join(f"{field}=(.*)" for field in fields), path, re.DOTALL)
    if match is None or any(f"/{field}=" in value for field in fields for value in match.groups()):
        return None
    return list(match.groups())


def read_as(text: str, kind: pa.DataType, *, url_encode: bool) -> tuple[bool, object]:
    """Whether a text is a value of the type, and the value."""
    if text == DEFAULT_PARTITION:
        return True, None
    plain = unescape_path_name(text) if url_encode else text
    if pa.types.is_boolean(kind):
        return plain in ("true", "false"), plain == "true"
    try:
        return True, pa.array([plain], pa.string()).cast(kind)[0].as_py()
    except pa.ArrowInvalid:
        return False, None


@pytest.mark.slow
@settings(max_examples=400)
@given(
    paths,
    st.lists(st.sampled_from([pa.string(), pa.int32(), pa.date32(), pa.bool_()]), min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_each_path_is_parsed_as_if_it_were_alone(
    some: list[str], kinds: list[pa.DataType], hive_style: bool, url_encode: bool
) -> None:
    fields = ["a", "b"][: len(kinds)]
    parsed = parse_partition_paths(some, fields, kinds, hive_style=hive_style, url_encode=url_encode)
    for row, path in enumerate(some):
        parts = parts_of(path, fields, hive_style=hive_style)
        values = [read_as(*one, url_encode=url_encode) for one in zip(parts or [], kinds, strict=False)]
        known = parts is not None and all(valid for valid, _ in values)
        assert parsed["known"][row].as_py() is known, path
        if known:
            assert [parsed.column(at)[row].as_py() for at in range(len(kinds))] == [value for _, value in values]


@pytest.mark.parametrize("texts", [["2024", "x", "7"], ["x"], [], ["1"] * 40 + ["y"] + ["2"] * 40])
def test_one_text_that_is_no_number_leaves_the_others(texts: list[str]) -> None:
    parsed = parse_partition_paths(texts, ["a"], [pa.int64()], hive_style=False, url_encode=False)
    assert parsed["known"].to_pylist() == [text.isdigit() for text in texts]
    assert parsed["a"].to_pylist() == [int(text) if text.isdigit() else None for text in texts]


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8", max_codepoint=0x2FF)), max_size=6))
def test_texts_are_escaped_alike(texts: list[str | None]) -> None:
    expected = [None if text is None else escape_path_name(text) for text in texts]
    assert escape_path_names(pa.array(texts, pa.string())).to_pylist() == expected
