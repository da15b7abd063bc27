"""Tables with many commits: cleans look at little. `tests/property/test_lifetimes.py` has what else is bounded."""

import pytest

from table_writer.services import clean_plan as cleaning
from tests.support.archived_tables import SHORT
from tests.support.toy_table import upsert

OPTIONS = {**SHORT, "hoodie.archive.merge.files.batch.size": "3", "hoodie.metadata.compact.max.delta.commits": "3"}


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
