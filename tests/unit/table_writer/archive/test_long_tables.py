"""Tables with many commits: few files below `.hoodie`, and cleans that look at little."""

import numpy as np
import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.table import create_table, open_table
from table_format.storage import Storage
from table_writer.services import clean_plan as cleaning
from tests.support.archived_tables import SHORT
from tests.support.toy_table import upsert
from tests.support.work import storage_work

OPTIONS = {**SHORT, "hoodie.archive.merge.files.batch.size": "3", "hoodie.metadata.compact.max.delta.commits": "3"}


def count(storage):
    return sum(1 for entry in storage.list(".hoodie", recursive=True) if not entry.is_dir)


def rise(values):
    """By how much ten commits at the end take more than ten at the beginning; joins of archive files are rarer."""
    tens = np.array(values[len(values) % 10 :]).reshape(-1, 10).sum(axis=1)
    third = len(tens) // 3
    return np.median(tens[-third:]) / np.median(tens[:third]) - 1


@pytest.mark.slow
@pytest.mark.parametrize(("index", "commits"), [("BUCKET", 320), ("RECORD_INDEX", 220)])
def test_neither_the_work_of_a_commit_nor_the_files_become_more(tmp_path, index, commits):
    """By default options; a commit's work varies with archiving and compaction, which come every ten commits."""
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    path = tmp_path / "t"
    create_table(path, schema, record_key="id", buckets=2 if index == "BUCKET" else None, index=index)
    table, works, counts = open_table(path), [], []
    for number in range(commits):
        with storage_work() as work:
            table.upsert(pa.table({"id": [f"k{number % 7}", f"k{number % 5}"], "v": [number, number]}, schema=schema))
        works.append(work)
        counts.append(count(Storage(str(path))))
    begin = 60  # until then the timelines are filled
    assert table.client.timeline().archive.writes
    assert rise([work["calls"] for work in works[begin:]]) < 0.1
    assert rise([work["bytes"] for work in works[begin:]]) < 0.1
    # files of the archive, of which ten of one size are joined
    assert max(counts[-100:]) <= max(counts[begin : begin + 50]) + 20
    rows = Table.open(str(path)).scan(columns=["id", "v"]).to_arrow().to_pylist()
    wanted = {f"k{number % modulus}": number for number in range(commits) for modulus in (7, 5)}
    assert {row["id"]: row["v"] for row in rows} == wanted


@pytest.mark.slow
def test_cleans_of_a_table_that_only_grows_look_at_nothing_once_it_is_archived(client, storage, monkeypatch):
    asked = []
    plain = cleaning.list_files
    monkeypatch.setattr(cleaning, "list_files", lambda *of: (asked.append(of[2]), plain(*of))[1])
    for number in range(14):
        upsert(client, {(f"p={number}", 0): {"k": number}}, OPTIONS)
    assert client.timeline().archive.writes
    asked.clear()
    for number in range(14, 17):
        upsert(client, {(f"p={number}", 0): {"k": number}}, {**OPTIONS, "hoodie.archive.automatic": "false"})
    assert asked == []
    upsert(client, {("p=3", 0): {"k": 100}}, OPTIONS)
    upsert(client, {("p=x", 0): {"k": 100}}, OPTIONS)
    assert [sorted(of) for of in asked if of is not None] == [["p=3"]]
    assert len([name for name in storage.list("p=3") if name.name.endswith(".parquet")]) == 1
