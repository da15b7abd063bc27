"""Tables with many commits: few files below `.hoodie`, and cleans that look at little."""

import pytest

from table_writer.services import clean as cleaning
from tests.support.archived_tables import SHORT
from tests.support.toy_table import rows_of, upsert

OPTIONS = {**SHORT, "hoodie.archive.merge.files.batch.size": "3", "hoodie.metadata.compact.max.delta.commits": "3"}


def count(storage):
    return sum(1 for entry in storage.list(".hoodie", recursive=True) if not entry.is_dir)


@pytest.mark.slow
def test_the_files_below_the_metadata_folder_are_bounded(client, storage):
    counts = []
    for number in range(150):
        upsert(client, {("p=a", number % 7 % 2): {f"k{number % 7}": number}}, OPTIONS)
        counts.append(count(storage))
    assert max(counts[100:]) <= max(counts[20:60]) + 6
    assert rows_of(storage.uri) == {("p=a", f"k{number % 7}"): number for number in range(143, 150)}


def test_cleans_of_a_table_that_only_grows_look_at_nothing_once_it_is_archived(client, storage, monkeypatch):
    asked = []
    plain = cleaning._list_files
    monkeypatch.setattr(cleaning, "_list_files", lambda *of: (asked.append(of[2]), plain(*of))[1])
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
