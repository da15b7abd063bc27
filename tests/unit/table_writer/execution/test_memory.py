"""Merges of rows that exceed a task's memory, compared with merges in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from table_writer.execution import local
from table_writer.execution.local import LocalExecutor
from table_writer.writer import TableWriter
from tests.support.reading import current_rows

OPTIONS = {"hoodie.catalog.write.progress": "false", "hoodie.table.name": "t"}
NOT_IN_ORDER = {"hoodie.bulkinsert.sort.mode": "NONE"}


def rows(ids: Any, version: int) -> pa.Table:
    order = np.random.default_rng(version).permutation(np.asarray(ids, np.int64))
    return pa.table({"id": order, "v": np.full(len(order), version), "t": [f"{n:060}" for n in order]})


def written(path: Path, arguments: dict[str, Any], executor: LocalExecutor) -> list[Any]:
    """A table's rows and counts after writes that change some rows, none, and all of them."""
    table = TableWriter.create(path, None, record_key="id", options=OPTIONS, executor=executor, **arguments)
    table.bulk_insert(rows(range(0, 4000, 2), 1), NOT_IN_ORDER if "index" in arguments else {})
    results: list[Any] = []
    for operation, batch in (
        ("upsert", rows(range(1000, 3000), 2)),
        ("delete", rows(range(500, 1500), 3).select(["id"])),
        ("delete", rows(range(9000, 9900), 4).select(["id"])),
        ("delete", rows(range(4000), 5).select(["id"])),
        ("upsert", rows(range(700), 6)),
    ):
        summary = getattr(table, operation)(batch)
        columns = current_rows(table.client).select(["id", "v", "t"])
        counts = (summary.rows_inserted, summary.rows_updated, summary.rows_deleted)
        results.append((counts, columns.sort_by("id").to_pydict()))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"buckets": 1}, {"index": "RECORD_INDEX"}], ids=["buckets", "record index"])
def test_merges_in_key_order_give_the_same_rows(
    tmp_path: Path, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(tmp_path / "memory", arguments, LocalExecutor(2))
    monkeypatch.setattr(LocalExecutor, "task_memory", 20_000)
    # everything waits in files
    monkeypatch.setattr(local, "_WAITING", 1 << 60)
    assert written(tmp_path / "files", arguments, LocalExecutor(2)) == expected
