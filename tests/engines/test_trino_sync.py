"""Tables registered by the sync, read by a real Trino: through its file metastore and through a real Hive Metastore."""

import datetime as dt
import math
import os
import tarfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog.metastore.hive_types import hive_type
from hudi_catalog.metastore.manifests import Pins
from hudi_catalog.metastore.metastore import SYMLINK_FORMAT, HiveColumn, HiveTable, Metastore
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.stored_columns import TRINO_RULES
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from table_format.errors import UnsupportedTableError
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine

GOLDEN = Path(__file__).parents[1] / "golden/tables"
TABLES = (
    "v6_0150__bkt_complex",
    "v6_0150__bkt_evolve",
    "v6_0150__bkt_hive",
    "v6_0150__bkt_np_types",
    "v6_0150__bkt_slash",
    "v6_1200__bkt_datepart",
    "v6_1200__bkt_urlenc",
    "v6_1200__rli_part",
)
NEWER = ("v6_0150__mor_bkt", "v8_1020__mor_log", "v9_1200__bkt_hive", "v9_1200__cluster")


@dataclass(frozen=True)
class Registry:
    """A metastore, and the catalogs of Trino over it."""

    engine: Engine
    metastore: Metastore
    hive: str
    hudi: str

    def tables(self) -> TrinoTables:
        return TrinoTables(self.metastore, SyncOptions(entry_age=0.0))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.engine.query(sql.replace("HIVE", self.hive).replace("HUDI", self.hudi))


@pytest.fixture(scope="module")
def files(trino: Engine) -> Registry:
    return Registry(trino, open_metastore(str(trino.metastore)), trino.hive, trino.hudi)


@pytest.fixture(scope="module", params=["file", "hms"])
def registry(request: pytest.FixtureRequest, trino: Engine) -> Registry:
    if request.param == "file":
        return request.getfixturevalue("files")  # type: ignore[no-any-return]
    server = request.getfixturevalue("hive_metastore")
    properties = {"hive.metastore.uri": server.uri, "fs.hadoop.enabled": "true"}
    hudi = trino.create_catalog("sync_hudi", "hudi", properties)
    more = {"hive.hudi-catalog-name": hudi, "hive.domain-compaction-threshold": "100000"}
    return Registry(
        trino, open_metastore(server.uri), trino.create_catalog("sync_hive", "hive", properties | more), hudi
    )


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    folder = tmp_path_factory.mktemp("golden")
    for archive, names in (("tables.tar.xz", TABLES), ("newer.tar.xz", NEWER)):
        with tarfile.open(GOLDEN / archive) as packed:
            members = [member for member in packed.getmembers() if member.name.split("/")[0] in names]
            packed.extractall(folder, members=members, filter="data")
    return lambda name: Table.open(f"{folder}/{name}/table")


@pytest.fixture(scope="module")
def module_written(tmp_path_factory: pytest.TempPathFactory) -> LocalTable:
    return trips(tmp_path_factory.mktemp("trips"))


def trips(folder: Path, partition: str = "day") -> LocalTable:
    options: dict[str, Any] = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": partition,
        "hoodie.bucket.index.num.buckets": "2",
    }
    table = LocalTable.create(str(folder / "trips"), rows(0, 1).schema, options)
    table.write("insert", rows(0, 40))
    return table


def rows(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    days = ["a b", "50%", "é=x?#&"]
    columns = {"k": pa.array(keys, pa.int64()), "day": [days[key % 3] for key in keys], "x": [key / 4 for key in keys]}
    return pa.table(columns)


@pytest.mark.parametrize("name", [*TABLES, *NEWER])
def test_all_rows_are_read_right(registry: Registry, golden: Callable[[str], Table], name: str) -> None:
    table = golden(name)
    done = sync_to_trino(table, registry.metastore, SyncOptions(database="golden", table=name))
    expected = table.scan(query_type="read_optimized").to_arrow()
    chosen = ", ".join(f'"{field.name}"' for field in expected.schema)
    answer = registry.query(f"SELECT {chosen} FROM HIVE.golden.{done.name}")
    kinds = expected.schema.types
    ours = [tuple(map(plain, row, kinds)) for row in zip(*(c.to_pylist() for c in expected.columns), strict=True)]
    theirs = [tuple(map(plain, row, kinds)) for row in answer]
    assert sorted(theirs, key=repr) == sorted(ours, key=repr)
    assert sync_to_trino(table, registry.metastore, SyncOptions(database="golden", table=name)).changes == ()


def plain(value: Any, kind: Any) -> Any:
    """A value as Trino's client and Arrow both have it; Trino rounds timestamps to milliseconds."""
    if value is None:
        return None
    if isinstance(kind, pa.StructType):
        members = [kind.field(index) for index in range(kind.num_fields)]
        values = value.values() if isinstance(value, dict) else value
        return tuple(plain(one, field.type) for one, field in zip(values, members, strict=True))
    if isinstance(kind, pa.MapType):
        pairs = value.items() if isinstance(value, dict) else value
        return tuple(sorted((key, plain(one, kind.item_type)) for key, one in pairs))
    if pa.types.is_list(kind):
        return tuple(plain(one, kind.value_type) for one in value)
    if pa.types.is_timestamp(kind):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        micros = since // dt.timedelta(microseconds=1)
        return math.floor(micros / 1000 + 0.5)
    if pa.types.is_floating(kind):
        rounded = float(str(np.float32(value))) if pa.types.is_float32(kind) else value
        return "NaN" if math.isnan(value) else rounded
    return bytes(value) if pa.types.is_binary(kind) else value


def test_nothing_that_a_column_can_be_is_lost(registry: Registry, tmp_path: Path) -> None:
    """All types that our writer has, with values and nulls."""
    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 250_000)  # noqa: DTZ001  # as Trino's client gives it
    values: dict[str, tuple[pa.DataType, Any, Any]] = {
        "b": (pa.bool_(), True, True),
        "i": (pa.int32(), -(2**31), -(2**31)),
        "l": (pa.int64(), 2**63 - 1, 2**63 - 1),
        "f": (pa.float32(), 0.5, 0.5),
        "d": (pa.float64(), 1e300, 1e300),
        "s": (pa.string(), "日本 \n'\"", "日本 \n'\""),
        "raw": (pa.binary(), b"\0\xff", b"\0\xff"),
        "day": (pa.date32(), dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
        "t": (pa.timestamp("us", "UTC"), moment, moment),
        "small": (pa.decimal128(5, 2), Decimal("-123.45"), Decimal("-123.45")),
        "big": (pa.decimal128(38, 10), Decimal("9" * 28 + ".0123456789"), Decimal("9" * 28 + ".0123456789")),
        "list": (pa.list_(pa.string()), ["a", None], ["a", None]),
        "m": (pa.map_(pa.string(), pa.int32()), [("x", 1)], {"x": 1}),
        "st": (
            pa.struct([("A", pa.int32()), ("in", pa.struct([("c", pa.string())]))]),
            {"A": 1, "in": {"c": "z"}},
            (1, ("z",)),
        ),
    }
    schema = pa.schema([("k", pa.int64()), *((name, kind) for name, (kind, _, _) in values.items())])
    table = pa.table(
        {"k": [1, 2], **{name: pa.array([value, None], kind) for name, (kind, value, _) in values.items()}}, schema
    )
    options = {"hoodie.table.name": "kinds", "hoodie.datasource.write.recordkey.field": "k"}
    LocalTable.create(str(tmp_path / "kinds"), schema, options).write("insert", table)
    sync_to_trino(Table.open(str(tmp_path / "kinds")), registry.metastore, SyncOptions(database="kinds_of"))
    names = ", ".join(f'"{name}"' for name in values)
    full, empty = registry.query(f"SELECT {names} FROM HIVE.kinds_of.kinds ORDER BY k")
    for name, answer in zip(values, full, strict=True):
        expected = values[name][2]
        assert (tuple_of(answer) if isinstance(expected, tuple) else answer) == expected, name
    assert set(empty) == {None}


def tuple_of(value: Any) -> Any:
    return tuple(map(tuple_of, value)) if isinstance(value, tuple | list) else value


def test_a_commit_is_seen_by_the_next_query_and_a_pin_is_not_moved(registry: Registry, tmp_path: Path) -> None:
    written = trips(tmp_path)
    sync_to_trino(Table.open(written.client.storage.uri), registry.metastore, SyncOptions(database="moving"))
    tables = registry.tables()
    synced = tables.find("moving", "trips")
    assert synced is not None
    schema, pinned = tables.pin(synced, tables.newest(synced))
    for number in range(1, 4):
        written.write("insert", rows(number * 100, 7))
        if number == 2:
            wider = rows(200, 7).append_column("note", pa.array(["new"] * 7))
            written.write("upsert", wider, {"hoodie.datasource.write.reconcile.schema": "true"})
        assert registry.query("SELECT count(*) FROM HIVE.moving.trips") == [(40 + 7 * (number - 1),)]
        tables.point_at(synced, tables.newest(synced))
        assert registry.query("SELECT count(*) FROM HIVE.moving.trips") == [(40 + 7 * number,)]
        assert registry.query(f'SELECT count(*) FROM HIVE."{schema}"."{pinned}"') == [(40,)]
    assert registry.query("SELECT note, count(*) FROM HIVE.moving.trips GROUP BY 1 ORDER BY 2") == [
        ("new", 7),
        (None, 54),
    ]


def test_paths_are_spelled_as_trino_spells_them(registry: Registry, module_written: LocalTable) -> None:
    sync_to_trino(Table.open(module_written.client.storage.uri), registry.metastore, SyncOptions(database="spelled"))
    tables = registry.tables()
    synced = tables.find("spelled", "trips")
    assert synced is not None
    snapshot = tables.newest(synced)
    paths = tables.path_column(synced, snapshot).to_pylist()
    assert {path for (path,) in registry.query('SELECT DISTINCT "$path" FROM HIVE.spelled.trips')} == set(paths)
    for at, path in enumerate(paths):
        (expected,) = registry.query(f"""SELECT count(*) FROM HIVE.spelled.trips WHERE "$path" IN ('{path}')""")
        one = tables.pin(synced, snapshot, snapshot.live_rows[[at]])
        assert registry.query(f'SELECT count(*) FROM HIVE."{one[0]}"."{one[1]}"') == [expected]
        assert expected[0] == pq.read_metadata(path.removeprefix("file://")).num_rows
    nothing = tables.pin(synced, snapshot, np.array([], np.int64))
    assert registry.query(f'SELECT count(*) FROM HIVE."{nothing[0]}"."{nothing[1]}"') == [(0,)]


def test_trinos_own_connector_beside_ours(registry: Registry, module_written: LocalTable) -> None:
    options = SyncOptions(database="beside")
    for _ in range(2):
        sync_to_trino(Table.open(module_written.client.storage.uri), registry.metastore, options, also_hudi=True)
        columns = "k, day, x, _hoodie_record_key"
        ours = registry.query(f"SELECT {columns} FROM HIVE.beside.trips")
        theirs = registry.query(f"SELECT {columns} FROM HUDI.beside.trips_hudi")
        assert sorted(ours) == sorted(theirs)
        assert len(ours) >= 40
        module_written.write("upsert", rows(30, 30))
    day = registry.query("SELECT count(*) FROM HUDI.beside.trips_hudi WHERE day = '50%'")
    assert day == registry.query("SELECT count(*) FROM HIVE.beside.trips WHERE day = '50%'")


def test_who_reads_a_dropped_list_gets_an_error(registry: Registry, tmp_path: Path) -> None:
    """Never an empty table: a query that is slow to begin may come when its pin is gone."""
    written = trips(tmp_path)
    sync_to_trino(Table.open(written.client.storage.uri), registry.metastore, SyncOptions(database="late"))
    tables = registry.tables()
    synced = tables.find("late", "trips")
    assert synced is not None
    schema, name = tables.pin(synced, tables.newest(synced), tables.newest(synced).live_rows[:2])
    entry = registry.metastore.table(schema, name)
    assert entry is not None
    pins = Pins(registry.metastore, retention=-1.0, grace=-1.0)
    for _ in range(2):
        pins.clean(synced.folder, lambda: synced.entry.location, synced.pin_name)
    assert registry.metastore.table(schema, name) is None
    registry.metastore.put_table(entry)  # as a query remembers it that was analysed before
    with pytest.raises(Exception, match="this-pinned-snapshot-was-dropped"):
        registry.query(f'SELECT count(*) FROM HIVE."{schema}"."{name}"')
    assert registry.query("SELECT count(*) FROM HIVE.late.trips") == [(40,)]


def test_a_table_that_trino_would_misread_says_so(registry: Registry, tmp_path: Path) -> None:
    """Older files keep a column as int when it has become double: Trino shall neither read them nor leave them out."""
    written = trips(tmp_path)
    evolve = {"hoodie.datasource.write.reconcile.schema": "true"}
    written.write("upsert", rows(0, 40).append_column("n", pa.array([1] * 40, pa.int32())), evolve)
    table = Table.open(written.client.storage.uri)
    sync_to_trino(table, registry.metastore, SyncOptions(database="misread"))
    written.write("insert", rows(100, 1).append_column("n", pa.array([0.5])), evolve)
    tables = registry.tables()
    synced = tables.find("misread", "trips")
    assert synced is not None
    with pytest.raises(UnsupportedTableError, match="column n is double now, and was int32"):
        tables.point_at(synced, tables.newest(synced))
    with pytest.raises(Exception, match="column n is double now, and was int32"):
        registry.query("SELECT count(*) FROM HIVE.misread.trips")
    written.write("insert_overwrite_table", rows(0, 9).append_column("n", pa.array([0.5] * 9)), evolve)
    tables.point_at(synced, tables.newest(synced))
    assert registry.query("SELECT count(*), sum(n) FROM HIVE.misread.trips WHERE n = 0.5") == [(9, 4.5)]


def test_names_can_be_listed_while_pins_come_and_go(registry: Registry, tmp_path: Path) -> None:
    written = trips(tmp_path)
    sync_to_trino(Table.open(written.client.storage.uri), registry.metastore, SyncOptions(database="busy"))
    tables = registry.tables()
    synced = tables.find("busy", "trips")
    assert synced is not None
    snapshot, done, problems = tables.newest(synced), threading.Event(), []
    tables.pin(synced, snapshot)

    def come_and_go() -> None:
        try:
            while not done.is_set():
                for at in range(len(snapshot.live_rows)):
                    registry.metastore.drop_table(
                        *TrinoTables(registry.metastore).pin(synced, snapshot, np.array([at]))
                    )
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(4):
            registry.query("SHOW TABLES FROM HIVE.busy__snapshots")
            registry.query("SELECT * FROM HIVE.information_schema.columns WHERE table_schema = 'busy__snapshots'")
    finally:
        done.set()
        thread.join()
    assert problems == []


# What files hold, and what the column became since.
NUMBERS = [3, 2**20, -7, None]
EVOLVED: list[tuple[pa.DataType, list[Any], pa.DataType]] = [
    (pa.int32(), NUMBERS, pa.int64()),
    (pa.decimal128(5, 2), [Decimal("1.25"), Decimal(10), Decimal("-2.5"), None], pa.decimal128(10, 2)),
    (pa.decimal128(12, 2), [Decimal("1.25"), Decimal(10), Decimal("-2.5"), None], pa.decimal128(30, 2)),
    (pa.binary(), [b"a", b"", b"zz", None], pa.string()),
    (pa.string(), ["a", "", "zz", None], pa.binary()),
]


@pytest.mark.parametrize(("stored", "values", "wanted"), EVOLVED)
def test_types_that_are_said_to_be_read_right(
    files: Registry, tmp_path: Path, stored: pa.DataType, values: list[Any], wanted: pa.DataType
) -> None:
    assert TRINO_RULES.reads_right(stored, wanted)
    table = pa.table({"c": pa.array(values, stored)})
    put_files(files, tmp_path, "well", table, wanted)
    values_read = [plain(value, wanted) for value in table["c"].cast(wanted).to_pylist()]
    assert sorted(map(repr, values_read)) == sorted(
        repr(plain(c, wanted)) for (c,) in files.query("SELECT c FROM HIVE.evolved.well")
    )
    for value in values_read:
        if value is not None:
            assert files.query(f"SELECT count(*) FROM HIVE.evolved.well WHERE c = {literal(value)}") == [(1,)]
    assert files.query("SELECT count(*) FROM HIVE.evolved.well WHERE c IS NULL") == [(1,)]


@pytest.mark.parametrize(
    ("stored", "values", "wanted"),
    [
        (pa.int32(), NUMBERS, pa.float32()),
        (pa.int32(), NUMBERS, pa.decimal128(10, 2)),
        (pa.decimal128(5, 2), [Decimal("1.25"), Decimal(10)], pa.decimal128(10, 4)),
        (pa.int64(), NUMBERS, pa.float64()),
        (pa.float32(), [1.5, 2.5], pa.float64()),
        (pa.int32(), NUMBERS, pa.string()),
    ],
)
def test_types_that_are_refused_are_read_wrong(
    files: Registry, tmp_path: Path, stored: pa.DataType, values: list[Any], wanted: pa.DataType
) -> None:
    """Once Trino reads these right, the sync need not refuse them any more."""
    assert not TRINO_RULES.reads_right(stored, wanted)
    put_files(files, tmp_path, "badly", pa.table({"c": pa.array(values, stored)}), wanted)
    answer: Any = None
    try:
        answer = files.query(
            f"SELECT count(*) FROM HIVE.evolved.badly WHERE c = CAST({values[1]} AS {sql_type(wanted)})"
        )
    except Exception as error:
        answer = str(error)
    assert answer == [(0,)] or "Malformed Parquet" in answer or "Unsupported Trino column type" in answer


def put_files(files: Registry, folder: Path, name: str, table: pa.Table, wanted: pa.DataType) -> None:
    """An entry over one Parquet file whose column is of another type."""
    pq.write_table(table, folder / "file.parquet")
    (folder / "list").mkdir()
    (folder / "list/manifest").write_text(f"file://{folder}/file.parquet\n")
    files.metastore.create_schema("evolved")
    columns = (HiveColumn("c", hive_type(wanted, "c")),)
    entry = HiveTable("evolved", name, columns, f"file://{folder}/list", SYMLINK_FORMAT, {"EXTERNAL": "TRUE"})
    files.metastore.put_table(entry)


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def sql_type(kind: pa.DataType) -> str:
    return {"float": "real", "string": "varchar"}.get(text := hive_type(kind, "c"), text)


def test_a_folder_that_is_not_there_reads_as_empty(files: Registry, tmp_path: Path) -> None:
    """The fact on which the clean-up rests (see `hudi_catalog.metastore.manifests`)."""
    files.metastore.create_schema("evolved")
    gone = tmp_path / "gone"
    gone.mkdir()
    columns = (HiveColumn("c", "int"),)
    files.metastore.put_table(
        HiveTable("evolved", "gone", columns, f"file://{gone}", SYMLINK_FORMAT, {"EXTERNAL": "TRUE"})
    )
    os.rmdir(gone)
    assert files.query("SELECT count(*) FROM HIVE.evolved.gone") == [(0,)]
