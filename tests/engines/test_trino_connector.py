"""Our connector in real Trino: types, soundness of filters, dynamic filters, versions, system tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trino as client

from hudi_catalog.trino.serve import TrinoSettings, running_trino
from table_format.errors import HudiError
from tests.engines.answers import rows_agree
from tests.engines.connector_tables import COLUMNS, FOLDERS, SCHEMA, Lake, filters, options, table_of_types, write_types
from tests.engines.trino_engine import Engine
from tests.engines.trino_values import rows_of_arrow, rows_of_trino
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

TABLES = ("cow", "served_")
FILTERS = 80
EVOLVE = {"hoodie.datasource.write.reconcile.schema": "true"}


@pytest.fixture(scope="module")
def lake(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = Path(tmp_path_factory.mktemp("lake"))
    (folder / SCHEMA).mkdir()
    write_types(folder / SCHEMA, "cow")
    write_types(folder / SCHEMA, FOLDERS["served_"])
    with running_trino(TrinoSettings(str(folder))) as service:
        yield Lake(trino, service, folder)


@pytest.fixture(scope="module")
def copied(lake: Lake) -> Lake:
    """The same rows in Trino's memory, where no filter is pushed down."""
    plain = ", ".join(["id", "part", *(name for name, (kind, _) in COLUMNS.items() if not pa.types.is_nested(kind))])
    for name in TABLES:
        lake.engine.query(f"DROP TABLE IF EXISTS memory.default.{name}")
        lake.query(f"CREATE TABLE memory.default.{name} AS SELECT {plain} FROM {name}")
    return lake


@pytest.mark.parametrize("name", TABLES)
def test_every_value_of_every_type(lake: Lake, name: str) -> None:
    ours = lake.table(name).scan().to_arrow()
    listed = ", ".join(f'"{column}"' for column in ours.schema.names)
    assert rows_of_trino(lake.query(f"SELECT {listed} FROM {name}"), ours.schema) == rows_of_arrow(ours)
    visible = lake.query(f"SELECT * FROM {name}")
    assert len(visible[0]) == len(COLUMNS) + 2
    assert lake.query(f"SELECT count(*) FROM {name}") == [(600,)]
    assert lake.query(f"SELECT count(st), count(mp) FROM {name} WHERE part <> 'p1'") == lake.query(
        f"SELECT count(st), count(mp) FROM {name} WHERE part || '' <> 'p1'"
    )


def test_files_that_trino_reads_right_are_not_served(lake: Lake) -> None:
    served = []
    for name in TABLES:
        lake.query(f"SELECT count(i) FROM {name}")
        record = lake.planned(name)
        served.append((record["served"] > 0, record["served"] == record["splits"]))
    assert served == [(False, False), (True, True)]


@pytest.mark.parametrize("name", TABLES)
def test_filters_lose_no_row(copied: Lake, name: str) -> None:
    texts = list(itertools.islice(filters(seed=len(name)), FILTERS))

    def wrong(text: str) -> str:
        ours = copied.query(f"SELECT id FROM {name} WHERE {text}")
        difference = rows_agree(ours, copied.query(f"SELECT id FROM memory.default.{name} WHERE {text}"))
        return f"{text}: {difference}" if difference else ""

    with ThreadPoolExecutor(4) as threads:
        assert [one for one in threads.map(wrong, texts) if one] == []


def test_a_filter_on_columns_that_are_not_read_loses_no_row(lake: Lake) -> None:
    """Trino's reader drops every row by a column of the predicate that it does not read."""
    one = lake.query("SELECT id, l, s FROM cow WHERE l IS NOT NULL AND s IS NOT NULL LIMIT 1")[0]
    assert lake.query(f"SELECT count(*) FROM cow WHERE id = {one[0]} AND l = {one[1]}") == [(1,)]
    assert lake.query(f"SELECT part FROM cow WHERE id = {one[0]}") != []


NUMBERS = [3, 2**20, -7, None]
DECIMALS = [Decimal("1.25"), Decimal(10), Decimal("-2.50"), None]
MOMENTS = [0, 1_700_000_000_123, -1, None]
#: What files hold, and what the table has.
PAIRS: list[tuple[pa.DataType, list[Any], pa.DataType]] = [
    (pa.int32(), NUMBERS, pa.int64()),
    (pa.int16(), [3, -7, None], pa.int32()),
    (pa.uint32(), [3, 2**32 - 1, None], pa.int64()),
    (pa.uint8(), [3, 255, None], pa.int32()),
    (pa.int32(), NUMBERS, pa.float64()),
    (pa.int64(), NUMBERS, pa.float32()),
    (pa.int32(), NUMBERS, pa.decimal128(12, 2)),
    (pa.float32(), [1.5, 0.1, -7.25, None], pa.float64()),
    (pa.string(), ["a", "", "zz", None], pa.binary()),
    (pa.binary(), [b"a", b"", b"zz", None], pa.string()),
    (pa.binary(3), [b"abc", b"\x00\xff\x01", None], pa.binary()),
    (pa.decimal128(5, 2), DECIMALS, pa.decimal128(12, 2)),
    (pa.decimal128(5, 2), DECIMALS, pa.decimal128(30, 2)),
    (pa.decimal128(5, 2), DECIMALS, pa.decimal128(30, 4)),
    (pa.decimal128(30, 2), DECIMALS, pa.decimal128(38, 2)),
    (pa.timestamp("ms", "UTC"), MOMENTS, pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), MOMENTS, pa.timestamp("us", "UTC")),
    (pa.timestamp("ns", "UTC"), [0, 1_700_000_000_123_000, None], pa.timestamp("us", "UTC")),
    (pa.struct([("a", pa.int32())]), [{"a": 1}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])),
    (pa.struct([("z", pa.int32())]), [{"z": 1}, None], pa.struct([("a", pa.int64())])),
    (pa.list_(pa.int32()), [[1, None], None], pa.list_(pa.int64())),
    (pa.map_(pa.string(), pa.float32()), [[("k", 0.1)], None], pa.map_(pa.string(), pa.float64())),
]


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_files_of_other_types_are_read_right_or_refused(lake: Lake, number: int) -> None:
    stored, values, wanted = PAIRS[number]
    name = f"pair_{number}"
    _replace_column(lake, name, pa.array(values, stored), wanted)
    try:
        ours = lake.table(name).scan(columns=["id", "c"]).to_arrow()
    except HudiError:
        with pytest.raises(client.exceptions.TrinoQueryError, match="HUDI_CATALOG"):
            lake.query(f"SELECT id, c FROM {name}")
        return
    assert rows_of_trino(lake.query(f"SELECT id, c FROM {name}"), ours.schema) == rows_of_arrow(ours)
    assert lake.query(f"SELECT count(*) FROM {name} WHERE c IS NULL") == [(ours["c"].null_count,)]
    if not pa.types.is_nested(wanted):
        for (key,) in lake.query(f"SELECT id FROM {name} WHERE c IS NOT NULL"):
            # the value is a constant by the time when files are planned
            found = lake.query(f"SELECT id FROM {name} WHERE c = (SELECT c FROM {name} WHERE id = {key})")
            assert (key,) in found
            kind = {row[0]: row[1] for row in lake.query(f"DESCRIBE {name}")}["c"]
            if kind != "varbinary":
                text = lake.query(f"SELECT CAST(c AS varchar) FROM {name} WHERE id = {key}")[0][0]
                assert (key,) in lake.query(f"SELECT id FROM {name} WHERE c = CAST('{text}' AS {kind})"), text


def _replace_column(lake: Lake, name: str, values: Any, wanted: pa.DataType) -> None:
    """A table of one file, in which a column has another type than the table says."""
    ids = pa.array(range(len(values)), pa.int64())
    rows = pa.table({"id": ids, "part": ["p"] * len(values), "c": pa.nulls(len(values), wanted)})
    plain = {**options(name), "hoodie.metadata.enable": "false", "hoodie.bucket.index.num.buckets": "1"}
    folder = lake.folder / SCHEMA / name
    LocalTable.create(str(folder), rows.schema, plain).write("insert", rows)
    (path,) = folder.glob("p/*.parquet")
    stored = pq.ParquetFile(path).read()
    at = stored.column_names.index("c")
    order = [int(one) for one in stored["id"].to_pylist()]
    blooms = None if pa.types.is_nested(values.type) else {"c": True}
    pq.write_table(stored.set_column(at, "c", values.take(pa.array(order))), path, bloom_filter_options=blooms)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_zero_is_found_by_the_other_sign(lake: Lake, kind: pa.DataType) -> None:
    """Parquet's Bloom filters have the bytes of -0.0."""
    name = f"zeros_{kind}"
    _replace_column(lake, name, pa.array([-0.0, 1.5, -7.25], kind), kind)
    sql_type = {row[0]: row[1] for row in lake.query(f"DESCRIBE {name}")}["c"]
    lake.query(f"CREATE TABLE memory.default.{name} AS SELECT id, c FROM {name}")
    for zero in ("0.0", "-0.0"):
        assert lake.query(f"SELECT id FROM {name} WHERE c = CAST('{zero}' AS {sql_type})") == [(0,)]
        among = f"WHERE c IN (CAST('{zero}' AS {sql_type}), 1.5)"  # Trino's hash of a real tells the zeros apart
        counted = lake.query(f"SELECT count(*) FROM memory.default.{name} {among}")
        assert lake.query(f"SELECT count(*) FROM {name} {among}") == counted


def test_parts_of_large_files_are_read_once_each(lake: Lake) -> None:
    """Row groups apart, with and without a filter that leaves some of them out."""
    count = 60_000
    rows = pa.table(
        {"id": pa.array(range(count), pa.int64()), "part": ["p"] * count, "n": [f"{n:08}" for n in range(count)]}
    )
    path = lake.folder / SCHEMA / "large"
    plain = {**options("large"), "hoodie.bucket.index.num.buckets": "2", "hoodie.metadata.enable": "false"}
    LocalTable.create(str(path), rows.schema, plain).write("insert", rows)
    for file in path.glob("p/*.parquet"):
        pq.write_table(pq.ParquetFile(file).read(), file, row_group_size=1000)
    small = TrinoSettings(str(lake.folder), options={"hoodie.catalog.trino.split.size": "100000"})
    with running_trino(small) as service:
        catalog = lake.engine.connector_catalog("parts", service.port)
        splits = {}
        for text in ("true", "id < 12345", "id >= 30000 AND n < '00030500'", "n = '00059999'", "id % 7 = 3"):
            sql = f"SELECT count(*), sum(id), count(DISTINCT n) FROM {{}}.{SCHEMA}.large WHERE {text}"
            ours = lake.engine.query(sql.format(catalog))
            assert ours == lake.engine.query(sql.format(lake.catalog)), text
            splits[text] = next(one for one in service.log.recent() if one.get("event") == "planned")["splits"]
        assert splits["true"] > 4
        assert splits["n = '00059999'"] < splits["true"]
        expected = [(count, count * (count - 1) // 2, count)]
        assert lake.engine.query(sql.format(catalog).replace("id % 7 = 3", "true")) == expected
        lake.engine.drop_catalog(catalog)


def test_a_list_of_partitions_too_long_to_send_is_checked_by_the_engine(lake: Lake) -> None:
    rows = pa.table({"id": pa.array(range(40), pa.int64()), "part": pa.array([n % 4 for n in range(40)], pa.int64())})
    LocalTable.create(str(lake.folder / SCHEMA / "numbered"), rows.schema, options("numbered")).write("insert", rows)
    # 1 is missing in the list, and lies between its ends
    listed = ", ".join(str(n) for n in range(0, 50_000, 2))
    assert lake.query(f"SELECT count(*) FROM numbered WHERE part IN ({listed})") == [(20,)]
    assert lake.query("SELECT count(*) FROM numbered WHERE part IN (0, 2)") == [(20,)]


def test_added_columns_are_null_in_older_files(lake: Lake) -> None:
    rows = table_of_types().select(["id", "part", "i"])
    table = LocalTable.create(str(lake.folder / SCHEMA / "grown"), rows.schema, options("grown"))
    table.write("insert", rows)
    later = rows.slice(0, 10).append_column("extra", pa.array(["x"] * 10))
    table.write("upsert", later, EVOLVE)
    assert lake.query("SELECT count(*), count(extra) FROM grown") == [(600, 10)]
    assert lake.query("SELECT count(*) FROM grown WHERE extra IS NULL") == [(590,)]
    assert lake.query("SELECT count(i) FROM grown WHERE extra = 'x'") == lake.query(
        "SELECT count(i) FROM grown WHERE id < 10"
    )


def test_a_field_and_the_row_that_holds_it_in_one_filter(lake: Lake) -> None:
    inner = pa.struct([("c", pa.int32()), ("d", pa.int32())])
    values = [{"b": {"c": None, "d": 1}}, {"b": {"c": 5, "d": 1}}, {"b": None}, None]
    rows = pa.table(
        {"id": pa.array([1, 2, 3, 4]), "s": ["x", "y", "x", "y"], "a": pa.array(values, pa.struct([("b", inner)]))}
    )
    write(lake.folder / SCHEMA, "rows_in_rows", rows, Layout("id", "id", 1))
    for condition, ids in (
        ("a.b.c IS NULL OR (a.b IS NOT NULL AND s = 'y')", [1, 2, 3, 4]),
        ("a.b.c = 5 OR (a.b IS NULL AND s = 'x')", [2, 3]),
        ("a.b.d = 1 AND (a.b.c = 5 OR a.b IS NULL OR a IS NULL)", [2]),
    ):
        assert lake.query(f"SELECT id FROM rows_in_rows WHERE {condition} ORDER BY id") == [(one,) for one in ids]
    inside = "WITH w AS (SELECT a.b b, id FROM rows_in_rows) SELECT w.b.c, w.b.d, w.b IS NULL FROM w"
    assert lake.query(f"{inside} WHERE w.b.c = 5 OR (w.b IS NULL AND id > 3)") == [(5, 1, False), (None, None, True)]


def test_values_of_a_join_leave_files_out(lake: Lake) -> None:
    days = pa.array([one // 100 for one in range(6000)], pa.int32())
    facts = pa.table({"id": pa.array(range(6000), pa.int64()), "day": days.cast(pa.string()), "key": days})
    write(lake.folder / SCHEMA, "facts", facts, Layout("id", "id", 2, "day"))
    names = pa.table({"key": pa.array(range(60), pa.int32()), "name": [f"n{one % 30}" for one in range(60)]})
    write(lake.folder / SCHEMA, "names", names, Layout("key", "key", 1))
    sql = "SELECT count(*), sum(f.id) FROM facts f JOIN names n ON f.key = n.key WHERE n.name = 'n7'"
    expected = [(200, sum(range(700, 800)) + sum(range(3700, 3800)))]
    patient = {f"{lake.catalog}.dynamic_filtering_wait_timeout": "60s"}
    assert lake.query(sql, session_properties=patient) == expected
    record = lake.planned("facts")
    assert (record["files_in"], record["files_out"]) == (120, 4)
    # splits that did not wait, or waited for values that are too many for readers: the same rows
    for wait, most in (("0s", 100), ("2s", 0)):
        session = {
            f"{lake.catalog}.dynamic_filtering_wait_timeout": wait,
            f"{lake.catalog}.dynamic_filtering_reader_values": str(most),
        }
        assert lake.query(sql, session_properties=session) == expected
    text = "\n".join(row[0] for row in lake.query(f"EXPLAIN ANALYZE VERBOSE {sql}"))
    assert "files of the table" in text
    assert "planning milliseconds" in text


def test_statistics_are_of_the_files_that_the_filter_keeps(lake: Lake) -> None:
    shown = {row[0]: row for row in lake.query("SHOW STATS FOR (SELECT * FROM cow WHERE part = 'p1')")}
    assert shown[None][4] == 120.0
    whole = {row[0]: row for row in lake.query("SHOW STATS FOR cow")}
    assert whole[None][4] == 600.0
    assert (whole["id"][2], whole["id"][5:]) == (600.0, ("0", "599"))
    nulls = lake.query("SELECT count_if(i IS NULL) FROM cow")[0][0]
    assert whole["i"][3] == pytest.approx(nulls / 600)
    edges = lake.query("SELECT year(min(moment)), year(max(moment)) FROM cow")[0]
    assert [int(text[:4]) for text in whole["moment"][5:]] == [*edges]


def test_hidden_columns(lake: Lake) -> None:
    by_path = lake.query('SELECT "$path", "$partition", "$file_size", count(*) FROM cow GROUP BY 1, 2, 3')
    assert sum(row[3] for row in by_path) == 600
    for path, partition, size, rows in by_path[:3]:
        file = Path(path.removeprefix("file://"))
        assert file.stat().st_size == size
        assert file.parent.name == partition
        assert lake.query(f"SELECT count(*) FROM cow WHERE \"$path\" = '{path}'") == [(rows,)]
    assert lake.query("SELECT count(*) FROM cow WHERE \"$partition\" = 'p2'") == [(120,)]
    commits = lake.query("SELECT _hoodie_commit_time, count(*) FROM cow GROUP BY 1 ORDER BY 1")
    assert [count for _, count in commits] == [500, 100]


@pytest.mark.parametrize("name", TABLES)
def test_versions(lake: Lake, name: str) -> None:
    first, second = [row[0] for row in lake.query(f'SELECT instant FROM "{name}$snapshots" ORDER BY 1')]
    now = lake.query(f"SELECT count(*), sum(i) FROM {name}")
    before = lake.query(f"SELECT count(*), sum(i) FROM {name} FOR VERSION AS OF '{first}'")
    assert before == [(600, pa.compute.sum(table_of_types()["i"]).as_py())]
    assert before != now
    assert lake.query(f"SELECT count(*), sum(i) FROM {name} FOR VERSION AS OF {second}") == now
    moment = lake.query(f'SELECT CAST("time" AS varchar) FROM "{name}$snapshots" ORDER BY instant')[0][0]
    assert lake.query(f"SELECT count(*), sum(i) FROM {name} FOR TIMESTAMP AS OF TIMESTAMP '{moment}'") == before
    both = f"SELECT count(*) FROM {name} a JOIN {name} FOR VERSION AS OF '{first}' b ON a.id = b.id"
    assert lake.query(both) == [(600,)]
    with pytest.raises(client.exceptions.TrinoQueryError, match="HUDI_CATALOG_REFUSED"):
        lake.query(f"SELECT * FROM {name} FOR VERSION AS OF '20000101000000000'")
    with pytest.raises(client.exceptions.TrinoQueryError, match="FOR VERSION AS OF takes an instant"):
        lake.query(f"SELECT * FROM {name} FOR VERSION AS OF true")


def test_system_tables(lake: Lake) -> None:
    files = lake.query('SELECT partition, path, bytes FROM "cow$files"')
    assert len(files) == 20
    assert all((lake.folder / SCHEMA / "cow" / path).stat().st_size == size for _, path, size in files)
    assert lake.query('SELECT partition, file_groups FROM "cow$partitions" ORDER BY 1') == [
        (f"p{one}", 4) for one in range(5)
    ]
    assert [row[0] for row in lake.query('SELECT operation FROM "cow$timeline" ORDER BY instant')] == [
        "INSERT",
        "UPSERT",
    ]
    assert ("hoodie.table.name", "cow") in lake.query('SELECT * FROM "cow$properties"')
    with pytest.raises(client.exceptions.TrinoQueryError, match="does not exist"):
        lake.query('SELECT * FROM "cow$nothing"')


def test_names_and_listings(lake: Lake) -> None:
    assert set(TABLES) <= {row[0] for row in lake.query("SHOW TABLES")}
    columns = lake.query("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'cow'")
    assert {name for name, _ in columns} == {"id", "part", *COLUMNS}
    kinds = dict(columns)
    assert kinds["moment"] == "timestamp(6) with time zone"
    assert kinds["long_dec"] == "decimal(30,15)"
    assert "row(a integer, bb array(decimal(20,3))" in kinds["st"].lower().replace('"', "")
    assert "partition key" in {row[2] for row in lake.query("DESCRIBE cow")}
    with pytest.raises(client.exceptions.TrinoQueryError, match="does not exist"):
        lake.query("SELECT * FROM nowhere")
    with pytest.raises(client.exceptions.TrinoQueryError, match="does not support"):
        lake.query("DELETE FROM cow WHERE id = 1")
