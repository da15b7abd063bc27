"""Types that columns had when files were written. What Trino 476 reads correctly was measured on it."""

from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.stored_columns import TRINO_RULES, StoredTypes
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from table_format.errors import UnsupportedTableError
from tests.support.local_writes import LocalTable
from tests.unit.hudi_catalog.metastore.conftest import rows
from tests.unit.hudi_catalog.metastore.test_trino_sync import files_of, listed

NUMBER, WIDE, REAL = pa.int32(), pa.int64(), pa.float32()
RIGHT = [
    (NUMBER, WIDE),
    (pa.decimal128(5, 2), pa.decimal128(20, 2)),
    (pa.binary(), pa.string()),
    (pa.string(), pa.large_string()),
    (pa.dictionary(pa.int32(), pa.string()), pa.string()),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    (pa.list_(NUMBER), pa.list_(WIDE)),
    (pa.map_(pa.string(), NUMBER), pa.map_(pa.string(), WIDE)),
    (pa.struct([("a", NUMBER)]), pa.struct([("a", WIDE), ("new", REAL)])),
]
WRONG = [
    (WIDE, NUMBER),
    (NUMBER, REAL),
    (NUMBER, pa.float64()),
    (WIDE, REAL),
    (REAL, pa.float64()),
    (NUMBER, pa.decimal128(10, 2)),
    (pa.decimal128(5, 2), pa.decimal128(10, 4)),
    (pa.decimal128(10, 2), pa.decimal128(5, 2)),
    (NUMBER, pa.string()),
    (pa.date32(), pa.string()),
    (pa.list_(NUMBER), pa.list_(REAL)),
    (pa.map_(pa.string(), NUMBER), pa.map_(pa.string(), REAL)),
    (pa.struct([("a", pa.struct([("b", WIDE)]))]), pa.struct([("a", pa.struct([("b", REAL)]))])),
]


@pytest.mark.parametrize(("stored", "wanted"), RIGHT)
def test_what_is_read_right(stored: pa.DataType, wanted: pa.DataType) -> None:
    assert TRINO_RULES.reads_right(stored, wanted)
    assert TRINO_RULES.reads_right(wanted, wanted)


@pytest.mark.parametrize(("stored", "wanted"), WRONG)
def test_what_is_read_wrong(stored: pa.DataType, wanted: pa.DataType) -> None:
    assert not TRINO_RULES.reads_right(stored, wanted)


def with_type(first: int, kind: pa.DataType) -> pa.Table:
    table = rows(first, 30)
    return table.append_column("n", pa.array(range(30), kind))


def test_older_files_decide(written: LocalTable, metastore: FileMetastore) -> None:
    """A column grows from int to long to double, while some files stay as they were."""
    evolve = {"hoodie.datasource.write.reconcile.schema": "true"}
    base = written.client.storage.uri
    written.write("upsert", with_type(0, NUMBER), evolve)
    sync_to_trino(Table.open(base), metastore)
    tables = TrinoTables(metastore)
    synced = tables.find("db", "trips")
    written.write("insert", with_type(100, WIDE).slice(0, 1), evolve)
    tables.pin(synced, tables.newest(synced))
    written.write("insert", with_type(200, pa.float64()).slice(0, 1), evolve)
    wrong = "column n is double now, and was int"
    snapshot = tables.newest(synced)
    for act in (lambda: tables.pin(synced, snapshot), lambda: tables.point_at(synced, snapshot)):
        with pytest.raises(UnsupportedTableError, match=wrong):
            act()
        # an older snapshot would be rows that are missing without a word
        (line,) = listed(metastore.table("db", "trips"))
        assert wrong in line
        assert not Path(line.removeprefix("file://")).exists()
    with pytest.raises(UnsupportedTableError, match=wrong):
        sync_to_trino(Table.open(base), metastore)
    written.write("insert_overwrite_table", with_type(0, pa.float64()), evolve)
    tables.point_at(synced, tables.newest(synced))
    assert sync_to_trino(Table.open(base), metastore).changes == ()
    assert sorted(listed(metastore.table("db", "trips"))) == files_of(Table.open(base))


def test_every_instants_files_are_looked_at_once(written: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    from hudi_catalog.metastore import stored_columns

    schema_of = stored_columns._schema_of
    monkeypatch.setattr(stored_columns, "_schema_of", lambda *a: looked.append(a[1]) or schema_of(*a))
    table = Table.open(written.client.storage.uri)
    types = StoredTypes()
    for _ in range(2):
        types.check(table.snapshot())
    assert len(looked) == 1
    written.write("upsert", rows(0, 1))
    types.check(table.refresh().snapshot())
    assert len(looked) == 2
