"""A bootstrap that dies at any change of the storage leaves no wrong index, and does not block others."""

import os
import shutil
from pathlib import Path

import pytest

from table_format.errors import RecordIndexError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.verify import verify_index
from tests.support.faults import FaultyStorage, dying
from tests.support.indexed_tables import BUCKETS, data_places, index_places, make, rows, writer_of

STEP = int(os.environ.get("HUDI_CATALOG_CRASH_STEP", "7"))  # 1 dies at each change


@pytest.fixture(scope="module", params=["no index", "an index"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    table = make(folder, BUCKETS)
    table.write("upsert", rows(0, 8))
    if request.param == "an index":
        bootstrap_index(table.client, groups=1)
    table.write("upsert", rows(6, 10))
    return folder / "things"


def dies(path: Path, at: int, when: str) -> bool:
    """Whether a bootstrap died at the n-th change."""
    with dying(at, when):
        bootstrap_index(TableClient.open(FaultyStorage(str(path))), groups=2, mapper=lambda f, items: [*map(f, items)])
        return False
    (path / ".hoodie" / "lock").unlink(missing_ok=True)  # its process is no more
    return True


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_death_at_any_change(template: Path, tmp_path: Path, when: str) -> None:
    at = 1 if when == "before" else 1 + STEP // 2
    while True:
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        if not dies(path, at, when):
            break
        client = TableClient.open(Storage(str(path)))
        try:
            assert verify_index(client).is_right, at
        except RecordIndexError:
            assert "record_index" not in client.reload().metadata_partitions
        if at % 2:  # a writer comes first
            writer_of(client, BUCKETS).write("upsert", rows(9, 12))
            if "record_index" in client.reload().metadata_partitions:
                assert verify_index(client).is_right, at
        report = bootstrap_index(client, groups=2)
        assert report.keys == len(data_places(client))
        assert index_places(client) == data_places(client), at
        assert not client.storage.exists(".hoodie/.catalog/record_index_build")
        shutil.rmtree(path)
        at += STEP
    assert at > 20
