"""Changes by a condition in tables where inserts left several rows of a key."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog import Table, create_table, open_table
from table_format.errors import ConflictError, RecordError
from table_writer.record_index.verify import verify_index
from tests.support.bucketed_tables import MOST_BYTES

INDEXES: dict[str, dict[str, Any]] = {
    "edited": {"buckets": 2, "options": {"hoodie.catalog.write.surgery": "always"}},
    "rewritten": {"buckets": 2, "options": {"hoodie.catalog.write.surgery": "never"}},
    "several file groups": {"buckets": 1, "options": {MOST_BYTES: "1"}},
    "record index": {"index": "RECORD_INDEX"},
}
FIRST = [(1, 1), (1, 2), (1, 4), (2, 3), (3, 5), (3, 6)]


@pytest.fixture(params=INDEXES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Key 1 has two rows of one write and a later one, key 3 has two rows of one write."""
    made = create_table(tmp_path / "t", "k bigint, v int", record_key="k", **INDEXES[request.param])
    made.bulk_insert([{"k": key, "v": value} for key, value in FIRST if value != 4])
    made.bulk_insert([{"k": 1, "v": 4}])
    return made


def content(table: Table) -> list[tuple[int, int]]:
    rows = open_table(table.client.storage.uri).scan(columns=["k", "v"]).to_arrow().to_pylist()
    return sorted((row["k"], row["v"]) for row in rows)


REFUSED: dict[str, Callable[[Table], Any]] = {
    "an update of some rows of a key": lambda table: table.update({"v": "v + 10"}, "v < 3"),
    "an update of all rows of a key": lambda table: table.update({"v": "v + 10"}, "k = 3"),
    "an update of all rows": lambda table: table.update({"v": "v + 10"}),
    "a delete of some rows of a key": lambda table: table.delete("v < 4"),
    "a delete of one row of a key": lambda table: table.delete("v = 6"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_change_of_other_rows_than_those_of_its_condition_is_refused(table: Table, change: str) -> None:
    with pytest.raises(
        RecordError, match=r"\d record\(s\) have several rows in the table, such as '[13]'.*insert_overwrite"
    ):
        REFUSED[change](table)
    assert content(table) == FIRST
    assert [entry.operation for entry in table.history() if entry.action == "commit"] == ["BULK_INSERT"] * 2


def test_exact_changes_are_made(table: Table) -> None:
    assert table.update({"v": "v + 10"}, "k = 2").rows_updated == 1
    assert table.delete("k = 3").rows_deleted == 2
    assert content(table) == [(1, 1), (1, 2), (1, 4), (2, 13)]
    if table.config.index_type == "RECORD_INDEX":  # which knows the last row of key 1
        table.update({"v": "v + 10"}, "v = 4")
        with pytest.raises(RecordError, match=r"such as '1'.*the record index names another row"):
            table.delete("k = 1")
        assert content(table) == [(1, 1), (1, 2), (1, 14), (2, 13)]
        assert table.delete("v = 14").rows_deleted == 1
    else:
        assert table.delete("k = 1").rows_deleted == 3
    assert content(table)[-1] == (2, 13)


def test_a_merge_says_that_it_is_the_table_that_has_several_rows(table: Table) -> None:
    merge = table.merge([{"k": 3, "v": 9}], "k").when_matched_update({"v": "source.v"})
    with pytest.raises(RecordError, match=r"1 record\(s\) have several rows in the table, such as \{'k': 3\}"):
        merge.execute()
    merge = table.merge([{"k": 3, "v": 9}], "k").when_matched_update({"v": "source.v"}, "target.v = 6")
    with pytest.raises(RecordError, match=r"several rows in the table, such as '3'"):
        merge.execute()
    merge = table.merge([{"k": 2, "v": 9}] * 2, "k").when_matched_update({"v": "source.v"})
    with pytest.raises(RecordError, match=r"several rows in the source, such as \{'k': 2\}"):
        merge.execute()
    assert content(table) == FIRST
    assert table.merge([{"k": 2, "v": 9}], "k").when_matched_update({"v": "source.v"}).execute().rows_updated == 1


def test_the_remedies(table: Table) -> None:
    """Of the refusal."""
    rows = [{"k": key, "v": value} for key, value in FIRST if (key, value) not in ((1, 1), (1, 2), (3, 6))]
    table.insert_overwrite(rows)
    assert table.update({"v": "v + 10"}).rows_updated == 3
    assert content(table) == [(1, 14), (2, 13), (3, 15)]
    if table.config.index_type == "RECORD_INDEX":
        assert not any(verify_index(table.client).counts.values())


def test_rows_that_are_merged_range_by_range(tmp_path: Path) -> None:
    """Where a file exceeds the memory of a task."""
    few = {"hoodie.catalog.executor.memory": str(16 << 20), "hoodie.catalog.write.surgery": "never"}
    table = create_table(tmp_path / "t", "k bigint, v bigint, s string", record_key="k", buckets=1, options=few)
    table.upsert([{"k": key, "v": 0, "s": f"{key * 7919 % 99991:0>60}"} for key in range(60_000)])
    table.bulk_insert([{"k": 77, "v": 1, "s": ""}])
    for change in (lambda: table.update({"v": "v + 1"}, "v = 0"), lambda: table.delete("v = 0")):
        with pytest.raises(RecordError, match=r"1 record\(s\) have several rows in the table, such as '77'"):
            change()
    assert table.scan("v = 0").count() == 60_000


def test_a_refusal_that_another_writer_caused_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows were selected before the other one added some: the next attempt selects them anew."""
    table = create_table(tmp_path / "t", "k bigint, v int", record_key="k", buckets=1)
    table.upsert([{"k": 1, "v": 1}])
    other = open_table(tmp_path / "t")
    scan, others = Table.scan, [lambda: other.bulk_insert([{"k": 1, "v": 2}])]

    def overtaken(self: Table, *arguments: Any, **more: Any) -> Any:
        if others and self is not other:
            others.pop()()
        return scan(self, *arguments, **more)

    monkeypatch.setattr(Table, "scan", overtaken)
    with pytest.raises((RecordError, ConflictError), match="several rows in the table"):
        table.update({"v": "v + 1"}, "v = 1")
    monkeypatch.undo()
    assert content(table) == [(1, 1), (1, 2)]
