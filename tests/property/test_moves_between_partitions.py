"""Updates and merges that move records between partitions: random ones equal a dictionary's, under each index."""

import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_catalog import Table, create_table, open_table
from table_format.errors import RecordError
from table_writer.record_index.verify import verify_index

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int32()), ("note", pa.string())])
INDEXES = {
    "buckets": {"hoodie.bucket.index.num.buckets": "2"},
    "buckets, and a record index": {
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.metadata.record.index.enable": "true",
    },
    "record index": {"hoodie.index.type": "RECORD_INDEX"},
    "record index by partition": {"hoodie.index.type": "RECORD_LEVEL_INDEX"},
}
DAYS = st.sampled_from(["a", "b", "c", None, ""])
Rows = dict[tuple[int, str], dict[str, Any]]
NULL_PATH = "__HIVE_DEFAULT_PARTITION__"


def path_of(day: str | None) -> str:
    return day or NULL_PATH


def row(key: int, day: str | None, n: int, note: str | None = None) -> dict[str, Any]:
    return {"id": key, "day": day, "n": n, "note": note}


@st.composite
def tables(draw: st.DrawFn, *, unique: bool) -> list[dict[str, Any]]:
    """Rows whose keys are unique, or unique within a partition."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 4), DAYS, st.integers(0, 5)), max_size=14))
    chosen = {key if unique else (key, path_of(day)): row(key, day, n) for key, day, n in pairs}
    return list(chosen.values())


def placed(rows: list[dict[str, Any]]) -> Rows | None:
    """The rows by place; None where two have one."""
    places = {(one["id"], path_of(one["day"])): one for one in rows}
    return places if len(places) == len(rows) else None


AROUND = {"a": "b", "b": "c", "c": "a"}
AROUND_SQL = "CASE day WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' WHEN 'c' THEN 'a' ELSE day END"


def updated(rows: list[dict[str, Any]], to: str | None, least: int) -> list[dict[str, Any]]:
    """Rows move to one day, or each to the next one."""
    days = {one["day"]: AROUND.get(one["day"], one["day"]) if to == "around" else to for one in rows}
    return [{**one, "day": days[one["day"]], "n": one["n"] - 9} if one["n"] >= least else one for one in rows]


def merged(rows: list[dict[str, Any]], source: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of day b are deleted, others move to the source's day; unknown ones are inserted."""
    by_key, known = {one["id"]: one for one in source}, {one["id"] for one in rows}
    result = []
    for one in rows:
        match = by_key.get(one["id"])
        if match is None:
            result.append(one)
        elif one["day"] != "b":
            result.append({**one, "day": match["day"], "note": "moved"})
    return result + [one for one in source if one["id"] not in known]


def content(table: Table) -> list[dict[str, Any]]:
    rows = open_table(table.client.storage.uri).scan(columns=SCHEMA.names).to_arrow().to_pylist()
    return sorted(rows, key=repr)


def check(table: Table, change: Callable[[], Any], before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    """The change is made, or refused where two rows would get one place. Returns whether it was made."""
    if placed(after) is None:
        with pytest.raises(RecordError):
            change()
        after = before
    else:
        change()
    assert content(table) == sorted(after, key=repr)
    if "record_index" in table.config.metadata_partitions and len({one["id"] for one in after}) == len(after):
        assert not any(verify_index(table.client).counts.values())
    return placed(after) is not None


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_moves(index: str, data: st.DataObject) -> None:
    unique = "by partition" not in index and index != "buckets"
    rows = data.draw(tables(unique=unique))
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(
            f"{folder}/t", SCHEMA, record_key="id", partition_by="day", ordering="n", options=INDEXES[index]
        )
        if rows:
            table.upsert(pa.Table.from_pylist(rows, SCHEMA))
        before = content(table)
        to, least = data.draw(DAYS | st.just("around")), data.draw(st.integers(0, 6))
        value = "NULL" if to is None else AROUND_SQL if to == "around" else f"'{to}'"
        after = updated(before, to, least)
        check(table, lambda: table.update({"day": value, "n": "n - 9"}, f"n >= {least}"), before, after)
        before = content(table)
        source = data.draw(tables(unique=True))
        merge = table.merge(pa.Table.from_pylist(source, SCHEMA), "id")
        merge.when_matched_delete("target.day = 'b'")
        merge.when_matched_update({"day": "source.day", "note": "'moved'"}).when_not_matched_insert_all()
        check(table, merge.execute, before, merged(before, source))
