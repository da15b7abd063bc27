"""Deaths while a record index gains file groups: keys are looked for where they are all the same."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from table_format.meta_client import TableClient
from table_format.record_index.index import RecordIndex
from table_format.record_index.layout import GLOBAL, IndexLayout
from table_format.record_index.resize import make_room, resize
from table_format.record_index.verify import verify_index
from table_format.storage import Storage
from tests.local_writes import LocalTable
from tests.unit.table_format.transaction.faults import Faults, FaultyStorage, Frozen

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int32())])
KEYS = [f"k{number}" for number in range(9)]
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.type": "RECORD_INDEX",
}
GROUPS = {"hoodie.catalog.record.index.growth": "groups"}
ROOM = {"hoodie.metadata.record.index.max.filegroup.size": "480"}
_MOST = 60


@contextlib.contextmanager
def dying(at: int) -> Iterator[None]:
    FaultyStorage.faults = Faults(at, "before", "freeze")
    try:
        with contextlib.suppress(Frozen):
            yield
    finally:
        FaultyStorage.faults = Faults()


def local_table(path: Path) -> LocalTable:
    return LocalTable(TableClient.open(Storage(str(path))), OPTIONS)


def rows(value: int) -> pa.Table:
    return pa.table({"id": KEYS, "v": [value] * len(KEYS)}, schema=SCHEMA)


def test_file_groups_beside_the_old_ones(tmp_path: Path) -> None:
    template = tmp_path / "template"
    LocalTable.create(str(template), SCHEMA, OPTIONS).write("upsert", rows(0))
    for at in range(1, _MOST):
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        grown = None
        with dying(at):
            grown = resize(TableClient.open(FaultyStorage(str(path))), 2, options=GROUPS)
        local = local_table(path)
        found = IndexLayout.of(local.client)
        assert found is not None
        assert found.scope == GLOBAL, f"after a death before change {at}"
        assert RecordIndex.open(local.client).get_record_locations(pa.array(KEYS)).num_rows == len(KEYS)
        if at % 4 == 0 or grown is not None:
            local.write("upsert", rows(1))
            assert verify_index(local.client).is_right
        shutil.rmtree(path)
        if grown is not None:
            assert at > 5
            return
    pytest.fail("it never ends")


def test_room_for_a_first_write(tmp_path: Path) -> None:
    template = tmp_path / "template"
    LocalTable.create(str(template), SCHEMA, OPTIONS)
    for at in range(1, _MOST):
        path = tmp_path / str(at)
        shutil.copytree(template, path)
        made = None
        with dying(at):
            client = TableClient.open(FaultyStorage(str(path)))
            before = IndexLayout.of(client)
            assert before is not None
            made = make_room(client, before, 50, ROOM)
        client = TableClient.open(Storage(str(path)))
        seen = IndexLayout.of(client)
        assert seen is not None
        assert make_room(client, seen, 100, ROOM).count == 13
        after = IndexLayout.of(client)
        assert after is not None
        assert after.count == 13
        shutil.rmtree(path)
        if made is not None:
            assert made.count == 7
            return
    pytest.fail("it never ends")
