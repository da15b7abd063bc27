"""A clustering whose first run was rolled back, and which is archived before that rollback is."""

from pathlib import Path
from typing import Any

import pytest

from hudi_catalog import create_table, open_table
from hudi_catalog.table import Table
from table_format.instant import Action
from table_writer.commit.rollback import uncounted_files
from table_writer.commit.transaction import WriteTransaction

OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
}


def insert(table: Table, batch: int) -> None:
    table.insert([{"id": f"k{10 * batch + number}", "a": batch} for number in range(10)], OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("between", [2, 3])
def test_its_rows_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int) -> None:
    table = create_table(tmp_path / "t", "id string, a bigint", record_key="id", index="RECORD_INDEX", options=OPTIONS)
    for batch in range(3):
        insert(table, batch)
    planned = table.cluster(plan_only=True, options=OPTIONS).instant
    assert planned is not None
    for batch in range(3, 3 + between):
        insert(table, batch)

    def die(*_: Any) -> None:
        raise RuntimeError("the run died")

    publish = WriteTransaction._publish
    monkeypatch.setattr(WriteTransaction, "_publish", die)
    with pytest.raises(RuntimeError, match="the run died"):
        table.run_clustering(options=OPTIONS)
    monkeypatch.setattr(WriteTransaction, "_publish", publish)
    table.run_clustering(options=OPTIONS)
    only_archived = 0
    for batch in range(3 + between, 15):
        insert(table, batch)
        reopened = open_table(tmp_path / "t")
        assert reopened.scan().count() == reopened.scan().to_arrow().num_rows == 10 * (batch + 1)
        timeline = reopened.client.timeline()
        if timeline.find(planned) is None and any(one.action == Action.ROLLBACK for one in timeline.completed):
            only_archived += 1
            assert planned in timeline.rolled_back
            assert timeline.is_committed(planned)
            assert uncounted_files(reopened.client, timeline, planned) == []
            reopened.upsert([{"id": "k0", "a": -1}], OPTIONS)
            assert reopened.scan("id = 'k0'").count() == 1
    assert only_archived
