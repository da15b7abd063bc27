"""Incremental ranges that begin at a write which was taken back: their reader is told, whatever undid it."""

from pathlib import Path

import pytest

import hudi_catalog
from hudi_catalog import UndoneWriteError
from tests.support.layout_2_tables import to_layout_2


def make(path: Path) -> tuple[hudi_catalog.Table, list[str]]:
    table = hudi_catalog.create_table(path / "t", "id bigint, v bigint", record_key="id", buckets=1)
    return table, [table.upsert([{"id": number, "v": number}]).instant for number in range(3)]


def test_after_a_rollback_and_a_restore(tmp_path: Path) -> None:
    table, (first, second, third) = make(tmp_path)
    table.rollback(third)
    with pytest.raises(UndoneWriteError, match=f"incremental from {third}.*begin at {second}") as refused:
        table.scan(incremental=(third, None)).to_arrow()
    assert refused.value.begin == second
    assert table.scan(incremental=(second, None)).to_arrow().num_rows == 0
    table.upsert([{"id": 7, "v": 7}])
    with pytest.raises(UndoneWriteError):
        table.scan(incremental=(third, None)).to_arrow()
    table.restore(to=first)
    for gone in (second, third):
        with pytest.raises(UndoneWriteError) as refused:
            table.scan(incremental=(gone, "latest"))
        assert refused.value.begin == first
    # a range that reaches over what is gone never had it
    assert table.scan(incremental=("earliest", None)).to_arrow()["v"].to_pylist() == [0]


def test_the_first_write_is_gone(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint, v bigint", record_key="id", buckets=1)
    only = table.upsert([{"id": 1, "v": 1}]).instant
    table.rollback(only)
    table.upsert([{"id": 2, "v": 2}])
    with pytest.raises(UndoneWriteError) as refused:
        table.scan(incremental=(only, None))
    assert refused.value.begin == "earliest"
    assert table.scan(incremental=(refused.value.begin, None)).to_arrow().num_rows == 1


def test_after_the_rollback_was_archived(tmp_path: Path) -> None:
    table, (_, second, third) = make(tmp_path)
    table.rollback(third)
    short = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.compact.max.delta.commits": "2",
    }
    for number in range(12):
        table.upsert([{"id": 9, "v": number}], short)
    timeline = table.client.timeline()
    assert not timeline.rolled_back  # archived
    with pytest.raises(UndoneWriteError) as refused:
        table.scan(incremental=(third, None))
    assert refused.value.begin == second


@pytest.mark.parametrize("by", ["rollback", "restore"])
def test_in_layout_2_by_the_time_at_which_the_write_completed(tmp_path: Path, by: str) -> None:
    table, (first, second, third) = make(tmp_path)
    before = to_layout_2(tmp_path / "t", tmp_path / "before")
    if by == "rollback":
        table.rollback(third)
    else:
        table.restore(to=second)
    last = table.upsert([{"id": 9, "v": 9}]).instant
    done = to_layout_2(tmp_path / "t", tmp_path / "after")
    after = hudi_catalog.open_table(tmp_path / "after")
    with pytest.raises(UndoneWriteError) as refused:
        after.scan(incremental=(before[third], None))
    assert refused.value.begin == done[second]
    for begin in (first, second, last):
        newer = {second: [1], last: [9]}
        wanted = [v for time, values in newer.items() if time > begin for v in values]
        assert sorted(after.scan(incremental=(done[begin], None)).to_arrow()["v"].to_pylist()) == wanted
    # a time at which nothing completed, before what was taken back began, and one after it was
    early, late = str(int(third) - 1), str(int(done[last]) + 1)
    assert after.scan(incremental=(early, None)).to_arrow()["v"].to_pylist() == [9]
    assert after.scan(incremental=(late, None)).to_arrow().num_rows == 0
