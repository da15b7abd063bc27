"""Hive's storage handler in a real HiveServer2, with a service that answers correctly: requests, rows, refusals."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_catalog.hive.planning import agreed_zone
from hudi_catalog.metastore.metastore import (
    HANDLER_CLASSES,
    HANDLER_FORMAT,
    STORAGE_HANDLER,
    HiveColumn,
    HivePartition,
    HiveTable,
    Metastore,
)
from hudi_catalog.metastore.open_metastore import open_metastore
from tests.engines.hive_engine import ON_TEZ, HiveError
from tests.engines.hive_fake_service import (
    Call,
    FakeService,
    fake_service,
    parquet_splits,
    splits_of,
)
from tests.engines.hive_handler_tables import (
    KEY,
    NAMES,
    ON_MAPREDUCE,
    WITHOUT_TASKS,
    Tables,
    located,
    write,
)

pytestmark = pytest.mark.engine


def test_all_scans_of_a_query_read_the_snapshot_that_it_was_compiled_with(tables: Tables, right: FakeService) -> None:
    name = tables.make(right.port)
    sql = f"SELECT count(*) FROM {name} a JOIN {name} b ON a.id = b.id WHERE a.k = 3 AND b.id < 100"
    assert tables.engine.query(sql) == [(14,)]
    assert len(right.of("pin")) == 1
    assert {call.request.pin for call in right.of("splits")} == {"pin 1"}
    assert len(right.of("splits")) == 2
    assert len({call.request.queryId for call in right.calls}) == 1
    assert tables.engine.query(f"SELECT k FROM {name} WHERE id = 150", settings=WITHOUT_TASKS) == [(3,)]
    assert len(right.of("pin")) == 2
    assert len({call.request.queryId for call in right.calls}) == 2


@pytest.mark.parametrize("settings", [WITHOUT_TASKS, ON_TEZ], ids=["without tasks", "on Tez"])
@pytest.mark.parametrize("handler", ["HudiStorageHandler", "HudiRowStorageHandler"])
def test_the_filter_and_the_columns_arrive(
    tables: Tables, right: FakeService, handler: str, settings: Mapping[str, str]
) -> None:
    name = tables.make(right.port, handler=handler, properties={f"{KEY}query.type": "snapshot"})
    sql = f"SELECT name FROM {name} WHERE id = 150 AND name LIKE 'n1%'"
    assert tables.engine.query(sql, settings=settings) == [("n150",)]
    request = right.of("splits")[-1].request
    assert request.filter == (
        '{"f":"GenericUDFOPAnd","t":"boolean","a":['
        '{"f":"GenericUDFOPEqual","t":"boolean","a":[{"c":"id","t":"bigint"},{"v":"150","t":"bigint"}]},'
        '{"f":"like","t":"boolean","a":[{"c":"name","t":"string"},{"v":"n1%","t":"string"}]}]}'
    )
    assert sorted(request.columns) == ["id", "name"]
    assert request.version == 3
    assert request.table == name
    assert request.location.removeprefix("file:").replace("///", "/") == str(tables.folder)
    assert request.settings == {
        f"{KEY}query.type": "snapshot",
        f"{KEY}columns": "id,name,k",
        f"{KEY}columns.types": "bigint:string:int",
    }
    assert agreed_zone(request.timeZone, request.zoneOffsets)
    assert request.splitBytes == 256_000_000


def test_a_count_reads_no_column(tables: Tables, right: FakeService) -> None:
    assert tables.engine.query(f"SELECT count(*) FROM {tables.make(right.port)}") == [(300,)]
    assert right.of("splits")[0].request.columns == []
    assert right.of("splits")[0].request.filter is None


def test_constants_of_every_type_arrive_as_they_are(tables: Tables, right: FakeService) -> None:
    columns = "d date, t timestamp, n decimal(12,3), c char(5), v varchar(5), f float, b boolean, x binary, s string"
    name = tables.make(right.port, columns=columns)
    wanted = {
        "d = DATE '2024-05-30'": ("2024-05-30", "date"),
        "t < TIMESTAMP '2024-05-30 10:11:12.123456'": ("2024-05-30 10:11:12.123456", "timestamp"),
        "n = 12.5": ("12.5", "decimal(3,1)"),
        "c = 'ab'": ("ab   ", "char(5)"),
        "f > cast(1.5 AS float)": ("1.5", "float"),
        "s = 'a\"ü\\\\😀'": ('a"ü\\😀', "string"),
        "s > unhex('ff00')": None,
    }
    for condition, constant in wanted.items():
        try:
            tables.engine.query(f"SELECT * FROM {name} WHERE {condition}", settings=WITHOUT_TASKS)
        except HiveError:
            assert constant is None
            continue
        sent = right.of("splits")[-1].request.filter
        if constant:
            value, kind = constant
            assert {"v": value, "t": kind} in list(constants(sent)), sent


def constants(text: str) -> Iterator[dict[str, Any]]:
    pending = [json.loads(text)]
    while pending:
        node = pending.pop()
        pending.extend(node.get("a", []))
        if "v" in node:
            yield node


def test_values_of_files_that_are_of_narrower_types_are_found(tables: Tables, tmp_path: Path) -> None:
    """Hive's own reading of such files loses rows: it fits the filter's literals to the types of the file."""
    rows = {
        "c": pa.array([1, 2, 3], pa.int32()),
        "f": pa.array([0.1, 0.5, 2], pa.float32()),
        "d": [dt.date(1, 1, 1), dt.date(1500, 1, 1), dt.date(2000, 1, 1)],
    }
    pq.write_table(pa.table(rows), tmp_path / "narrow.parquet")
    wanted = {
        "c < 4294967297": 3,
        "c <> 4294967297": 3,
        "f > 0.1D": 3,
        "d < DATE '0001-01-02'": 1,
        "d = DATE '1500-01-01'": 1,
    }
    with fake_service(parquet_splits(str(tmp_path))) as service:
        for handler in ("HudiStorageHandler", "HudiRowStorageHandler"):
            name = tables.make(service.port, columns="c bigint, f double, d date", folder=tmp_path, handler=handler)
            for condition, count in wanted.items():
                rows_found = tables.engine.query(f"SELECT * FROM {name} WHERE {condition}", settings=WITHOUT_TASKS)
                assert len(rows_found) == count, (handler, condition)
            at_once = " AND ".join(wanted).replace("= DATE '1500", "<> DATE '1500")
            assert tables.engine.query(f"SELECT d FROM {name} WHERE {at_once}", settings=ON_TEZ) == [("0001-01-01",)]


def test_folders_of_any_name_are_read(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c=ü&${x}"
    inner = folder / "at=2026-01-01 10:00%3A00"
    write(inner, 0)

    def answer(call: Call) -> Any:
        if call.method == "pin":
            return "one ${hive.query.id} & %41"
        file = inner / "f0.parquet"
        path = f"{call.request.location}/{inner.name}/{file.name}"
        return splits_of([(path, 0, file.stat().st_size)], pin=call.request.pin)

    with fake_service(answer) as service:
        name = tables.make(service.port, folder=folder)
        for settings in (WITHOUT_TASKS, ON_TEZ):
            assert tables.engine.query(f"SELECT count(id) FROM {name} WHERE k = 3", settings=settings) == [(14,)]
        assert {call.request.location for call in service.calls} == {f"file:{folder}"}
        assert {call.request.pin for call in service.of("splits")} == {"one ${hive.query.id} & %41"}


def test_a_plan_that_runs_again_reads_the_newest_snapshot(tables: Tables, right: FakeService) -> None:
    name = tables.make(right.port)
    with tables.engine.session() as session:
        session.run(f"PREPARE p FROM SELECT count(*) FROM {name} WHERE id < ?")
        assert session.query("EXECUTE p USING 10") == [(10,)]
        assert session.query("EXECUTE p USING 20") == [(20,)]
    compiled = [call.request.queryId for call in right.of("pin")]
    assert len(set(compiled)) == 3
    assert [call.request.queryId for call in right.of("splits")] == compiled[1:]


def test_tables_of_one_task_keep_their_own_filters(tables: Tables, right: FakeService) -> None:
    """MapReduce reads a table once for all scans of it, with the filter of none of them."""
    name = tables.make(right.port)
    parts = (f"SELECT id FROM {name} WHERE k = {k}" for k in (1, 2))
    assert tables.engine.query(f"SELECT count(*) FROM ({' UNION ALL '.join(parts)}) x", settings=ON_MAPREDUCE) == [
        (86,)
    ]
    assert {call.request.filter for call in right.of("splits")} == {None}
    assert {call.request.columns is None for call in right.of("splits")} == {True}


def test_one_task_never_reads_a_folder_as_two_tables(tables: Tables, right: FakeService) -> None:
    one = tables.make(right.port)
    other = tables.make(right.port, properties={f"{KEY}query.type": "snapshot"})
    sql = f"SELECT count(*) FROM (SELECT id FROM {one} UNION ALL SELECT id FROM {other}) x"
    assert tables.engine.query(sql, settings=ON_TEZ) == [(600,)]
    with pytest.raises(HiveError):
        tables.engine.query(sql, settings=ON_MAPREDUCE)


# what a table may be, and what it is not


@pytest.mark.parametrize("key", ["tls", "tls.ca", "tls.keystore", "tls.keystore.password.file", "secret.file"])
def test_tables_cannot_choose_keys_and_secrets(tables: Tables, right: FakeService, key: str) -> None:
    with pytest.raises(HiveError, match=f"{KEY}{key} belongs into Hive's configuration"):
        tables.make(right.port, properties={f"{KEY}{key}": "/etc/passwd"})
    name = tables.make(right.port)
    with pytest.raises(HiveError, match="belongs into Hive's configuration"):
        tables.engine.run(f"ALTER TABLE {name} SET TBLPROPERTIES ('{KEY}{key}'='false')")


def test_tables_whose_files_hive_would_delete_are_refused(tables: Tables, right: FakeService) -> None:
    stored = "STORED BY 'hudicatalog.hive.HudiStorageHandler'"
    name = f"{tables.database}.owned"
    with pytest.raises(HiveError, match="write CREATE EXTERNAL TABLE"):
        tables.engine.run(f"CREATE TABLE {name} (id bigint) {stored} LOCATION '{located(tables.folder)}'")
    with pytest.raises(HiveError, match="has no location"):
        tables.engine.run(f"CREATE EXTERNAL TABLE {name} (id bigint) {stored}")
    with pytest.raises(HiveError, match="without PARTITIONED BY"):
        tables.engine.run(
            f"CREATE EXTERNAL TABLE {name} (id bigint) PARTITIONED BY (k int) {stored} "
            f"LOCATION '{located(tables.folder)}'"
        )
    with pytest.raises(HiveError, match="without CLUSTERED BY"):
        tables.engine.run(
            f"CREATE EXTERNAL TABLE {name} (id bigint) CLUSTERED BY (id) INTO 2 BUCKETS {stored} "
            f"LOCATION '{located(tables.folder)}'"
        )
    handled = tables.make(right.port)
    with pytest.raises(HiveError, match="would belong to Hive"):
        tables.engine.run(f"ALTER TABLE {handled} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    with pytest.raises(HiveError, match=r"external\.table\.purge"):
        tables.engine.run(f"ALTER TABLE {handled} SET TBLPROPERTIES ('external.table.purge'='true')")
    with pytest.raises(HiveError, match=r"external\.table\.purge"):
        tables.make(right.port, properties={"external.table.purge": "TRUE"})
    tables.engine.run(f"DROP TABLE {handled}")
    assert len(list(tables.folder.glob("*.parquet"))) == 3


def test_partitions_that_somebody_registered_are_not_read(tables: Tables, right: FakeService) -> None:
    """Every partition would be all of the table."""
    day = HiveColumn("day", "string")
    store, table = entry(tables, right.port, tables.folder, partition_columns=(day,))
    store.put_partitions(table, [HivePartition((value,), located(tables.folder)) for value in "ab"])
    name = f"{table.schema}.{table.name}"
    with pytest.raises(HiveError, match=f"Hudi table {name}: it is registered without PARTITIONED BY"):
        tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)


def test_an_entry_whose_files_would_be_deleted_is_not_dropped(
    tables: Tables, right: FakeService, tmp_path: Path
) -> None:
    write(tmp_path, 0)
    _, table = entry(tables, right.port, tmp_path, parameters={"external.table.purge": "true"})
    name = f"{table.schema}.{table.name}"
    with pytest.raises(HiveError, match=r"external\.table\.purge"):
        tables.engine.run(f"DROP TABLE {name}")
    assert (tmp_path / "f0.parquet").exists()
    tables.engine.run(f"ALTER TABLE {name} SET TBLPROPERTIES ('external.table.purge'='false')")
    tables.engine.run(f"DROP TABLE {name}")
    assert (tmp_path / "f0.parquet").exists()


def entry(
    tables: Tables, port: int, folder: Path, *, parameters: Mapping[str, str] | None = None, **more: Any
) -> tuple[Metastore, HiveTable]:
    """An entry that somebody made in the metastore, past Hive."""
    [(uri,)] = tables.engine.query("SET hive.metastore.uris")
    store = open_metastore(str(uri).partition("=")[2])
    properties = {STORAGE_HANDLER: HANDLER_CLASSES[HANDLER_FORMAT.input_format], f"{KEY}service": f"127.0.0.1:{port}"}
    table = HiveTable(
        schema=tables.database,
        name=f"h{next(NAMES)}",
        columns=(HiveColumn("id", "bigint"),),
        location=located(folder),
        format=HANDLER_FORMAT,
        parameters={"EXTERNAL": "TRUE", **properties, **(parameters or {})},
        **more,
    )
    store.put_table(table)
    return store, table


def test_columns_are_found_by_their_names(tables: Tables, right: FakeService) -> None:
    by_place = {"parquet.column.index.access": "true"}
    for handler in ("HudiStorageHandler", "HudiRowStorageHandler"):
        name = tables.make(right.port, columns="k int, id bigint", handler=handler, properties=by_place)
        assert tables.engine.query(f"SELECT * FROM {name} WHERE id = 150", settings=WITHOUT_TASKS) == [(3, 150)]
    name = tables.make(right.port, columns="k int, id bigint", properties=by_place)
    assert tables.engine.query(f"SELECT * FROM {name} WHERE id = 150", settings=ON_TEZ) == [(3, 150)]


def test_writing_is_refused(tables: Tables, right: FakeService, tmp_path: Path) -> None:
    name = tables.make(right.port)
    other, made = tables.make(right.port), f"{tables.database}.made"
    stored = "STORED BY 'hudicatalog.hive.HudiStorageHandler'"
    before = sorted(path.name for path in tables.folder.iterdir())
    read_only = [
        f"INSERT INTO {name} VALUES (1, 'a', 2)",
        f"INSERT OVERWRITE TABLE {name} SELECT * FROM {name}",
        f"FROM {name} INSERT INTO {name} SELECT * INSERT INTO {other} SELECT *",
        f"CREATE EXTERNAL TABLE {made} {stored} LOCATION '{located(tmp_path / 'new')}' AS SELECT 1 AS id",
    ]
    for sql in read_only:
        with pytest.raises(HiveError, match=r"Hudi table .* is read-only in Hive"):
            tables.engine.run(sql)
    hives_own = [
        f"TRUNCATE TABLE {name}",
        f"DELETE FROM {name} WHERE id = 1",
        f"UPDATE {name} SET k = 1",
        f"LOAD DATA INPATH '{located(tables.folder)}/f0.parquet' INTO TABLE {name}",
    ]
    for sql in hives_own:
        with pytest.raises(HiveError):
            tables.engine.run(sql)
    assert sorted(path.name for path in tables.folder.iterdir()) == before


def test_statistics_never_answer_a_query(tables: Tables, tmp_path: Path) -> None:
    write(tmp_path, 0)
    using = {"hive.compute.query.using.stats": "true", "hive.stats.fetch.column.stats": "true"}
    with fake_service(parquet_splits(str(tmp_path))) as service:
        name = tables.make(service.port, folder=tmp_path)
        sql = f"SELECT count(*), count(name), min(id), max(id) FROM {name}"
        tables.engine.run(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS")
        write(tmp_path, 1)
        assert tables.engine.query(sql, settings=using) == [(200, 200, 0, 199)]
