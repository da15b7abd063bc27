"""Hive's storage handler in a real HiveServer2, before a service whose answers are chosen: right, wrong, late, none."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.hive.zones import agreed_zone
from catalog.services.tls import TlsFiles, server_context
from catalog.sync.metastore import (
    HANDLER,
    HANDLER_CLASSES,
    STORAGE_HANDLER,
    HiveColumn,
    HivePartition,
    HiveTable,
    Metastore,
)
from catalog.sync.open_metastore import open_metastore
from tests.certificates import Authority
from tests.engines.hive_engine import ON_TEZ, Engine, HiveError
from tests.engines.hive_fake_service import Answer, Call, fake_service, message, parquet_splits, refusal, splits_of

pytestmark = pytest.mark.engine

KEY = "hoodie.catalog.hive."
COLUMNS = "id bigint, name string, k int"
WITHOUT_TASKS = {"hive.fetch.task.conversion": "more"}
ON_MAPREDUCE = {"hive.execution.engine": "mr", **ON_TEZ}
SOON = {f"{KEY}timeout.seconds": "2"}
NAMES = count()


class Tables:
    """Makes tables of the handler over a folder of Parquet files."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.database = engine.create_database("handler")

    def make(
        self,
        port: int | str,
        *,
        columns: str = COLUMNS,
        folder: Path | None = None,
        handler: str = "HudiStorageHandler",
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """A table that asks a port of this machine, or any addresses."""
        name = f"{self.database}.h{next(NAMES)}"
        service = f"127.0.0.1:{port}" if isinstance(port, int) else port
        said = {f"{KEY}service": service, **(properties or {})}
        self.engine.run(
            f"CREATE EXTERNAL TABLE {name} ({columns}) STORED BY 'hudicatalog.hive.{handler}' "
            f"LOCATION '{located(folder or self.folder)}' TBLPROPERTIES ({texts(said)})"
        )
        return name


def located(folder: Path) -> str:
    """A folder as Hive's LOCATION has it: nothing in it is escaped."""
    return f"file://{folder}"


def texts(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in properties.items())


def write(folder: Path, number: int) -> None:
    """A file of a hundred rows."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = range(number * 100, number * 100 + 100)
    rows = {"id": list(ids), "name": [f"n{i}" for i in ids], "k": pa.array([i % 7 for i in ids], pa.int32())}
    pq.write_table(pa.table(rows), folder / f"f{number}.parquet")


@pytest.fixture(scope="module")
def tables(hive: Engine, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("handled")
    for number in range(3):
        write(folder, number)
    return Tables(hive, folder)


@pytest.fixture
def right(tables: Tables) -> Iterator[Any]:
    """A service that gives all files."""
    with fake_service(parquet_splits(str(tables.folder))) as service:
        yield service


def answering(tables: Tables, splits: Answer) -> Answer:
    """Right but for the splits."""
    whole = parquet_splits(str(tables.folder))
    return lambda call: whole(call) if call.method == "pin" else splits(call)


# ---- right answers


def test_all_scans_of_a_query_read_the_snapshot_that_it_was_compiled_with(tables: Tables, right: Any) -> None:
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
    tables: Tables, right: Any, handler: str, settings: Mapping[str, str]
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
    assert request.version == 1
    assert request.table == name
    assert request.location.removeprefix("file:").replace("///", "/") == str(tables.folder)
    assert request.settings == {
        f"{KEY}query.type": "snapshot",
        f"{KEY}columns": "id,name,k",
        f"{KEY}columns.types": "bigint:string:int",
    }
    assert agreed_zone(request.timeZone, request.zoneOffsets)
    assert request.splitBytes == 256_000_000


def test_a_count_reads_no_column(tables: Tables, right: Any) -> None:
    assert tables.engine.query(f"SELECT count(*) FROM {tables.make(right.port)}") == [(300,)]
    assert right.of("splits")[0].request.columns == []
    assert right.of("splits")[0].request.filter is None


def test_constants_of_every_type_arrive_as_they_are(tables: Tables, right: Any) -> None:
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
            for condition, found in wanted.items():
                rows_found = tables.engine.query(f"SELECT * FROM {name} WHERE {condition}", settings=WITHOUT_TASKS)
                assert len(rows_found) == found, (handler, condition)
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


def test_a_plan_that_runs_again_reads_the_newest_snapshot(tables: Tables, right: Any) -> None:
    name = tables.make(right.port)
    with tables.engine.session() as session:
        session.run(f"PREPARE p FROM SELECT count(*) FROM {name} WHERE id < ?")
        assert session.query("EXECUTE p USING 10") == [(10,)]
        assert session.query("EXECUTE p USING 20") == [(20,)]
    compiled = [call.request.queryId for call in right.of("pin")]
    assert len(set(compiled)) == 3
    assert [call.request.queryId for call in right.of("splits")] == compiled[1:]


def test_tables_of_one_task_keep_their_own_filters(tables: Tables, right: Any) -> None:
    """MapReduce reads a table once for all scans of it, with the filter of none of them."""
    name = tables.make(right.port)
    parts = (f"SELECT id FROM {name} WHERE k = {k}" for k in (1, 2))
    assert tables.engine.query(f"SELECT count(*) FROM ({' UNION ALL '.join(parts)}) x", settings=ON_MAPREDUCE) == [
        (86,)
    ]
    assert {call.request.filter for call in right.of("splits")} == {None}
    assert {call.request.columns is None for call in right.of("splits")} == {True}


def test_one_task_never_reads_a_folder_as_two_tables(tables: Tables, right: Any) -> None:
    one = tables.make(right.port)
    other = tables.make(right.port, properties={f"{KEY}query.type": "snapshot"})
    sql = f"SELECT count(*) FROM (SELECT id FROM {one} UNION ALL SELECT id FROM {other}) x"
    assert tables.engine.query(sql, settings=ON_TEZ) == [(600,)]
    with pytest.raises(HiveError):
        tables.engine.query(sql, settings=ON_MAPREDUCE)


# ---- wrong answers


def inside(call: Call, name: str) -> str:
    return f"{call.request.location}/{name}"


WRONG: dict[str, tuple[Callable[[Call], Any], str]] = {
    "another table's file": (lambda call: splits_of([("file:/etc/passwd", 0, 10)]), "not inside the table's location"),
    "a folder beside": (lambda call: splits_of([(f"{call.request.location}2/a", 0, 9)]), "not inside the table's"),
    "a step upwards": (lambda call: splits_of([(inside(call, "../x.parquet"), 0, 9)]), "no name of a file"),
    "another store": (lambda call: splits_of([("hdfs://h" + call.request.location[5:] + "/f", 0, 9)]), "not inside"),
    "the folder itself": (lambda call: splits_of([(call.request.location, 0, 9)]), "not inside"),
    "a negative start": (lambda call: splits_of([(inside(call, "f0.parquet"), -1, 9)]), "bytes -1"),
    "no bytes": (lambda call: splits_of([(inside(call, "f0.parquet"), 0, 0)]), "bytes 0 and 0"),
    "too many bytes": (lambda call: splits_of([(inside(call, "f0.parquet"), 5, 2**63 - 1)]), "bytes 5"),
    "bytes twice": (
        lambda call: splits_of([(inside(call, "f0.parquet"), 0, 9), (inside(call, "f0.parquet"), 8, 9)]),
        "two splits with the same bytes",
    ),
    "a newer version": (lambda call: splits_of([], version=2), "of version 2.*hive-jar"),
    "another snapshot": (lambda call: splits_of([], pin="pin 2"), "another snapshot"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_answer_fails_the_query_and_says_why(tables: Tables, kind: str) -> None:
    answer, reason = WRONG[kind]
    with fake_service(answering(tables, answer)) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=f"Hudi table {name}: the service gave a wrong answer: .*{reason}"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)


def test_tasks_say_it_too(tables: Tables) -> None:
    with fake_service(answering(tables, lambda call: splits_of([("file:/etc/passwd", 0, 10)]))) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=f"Hudi table {name}: the service gave a wrong answer"):
            tables.engine.query(f"SELECT count(*) FROM {name}", settings=ON_TEZ)
    with fake_service(parquet_splits(str(tables.folder))) as service:
        name = tables.make(service.port)
        assert tables.engine.query(f"SELECT count(*) FROM {name}", settings=ON_TEZ) == [(300,)]


GARBAGE = {
    "nothing": b"",
    "a web page": b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20,
    "zeros": bytes(100),
    "an answer to another call": message("pin"),
    "an answer without splits": message("splits"),
    "an answer to another request": message("splits", sequence=7),
    "half an answer": message("splits")[:9],
    "ones": b"\xff" * 64,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_an_answer_that_cannot_be_read_fails_the_query(tables: Tables, kind: str) -> None:
    with fake_service(answering(tables, lambda _: GARBAGE[kind])) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=rf"Hudi table {name}: the service does not answer \(127.0.0.1:\d+: an an"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
        assert len(service.of("splits")) == 1


# ---- no answers


def test_a_refusal_is_the_query_s_message(tables: Tables) -> None:
    with fake_service(lambda _: refusal("no table here: run hudi-catalog sync")) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=rf"Hudi table {name}: no table here: run hudi-catalog sync$"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
        assert len(service.calls) == 1


def test_what_may_pass_is_tried_again(tables: Tables) -> None:
    whole, calls = parquet_splits(str(tables.folder)), count()

    def answer(call: Call) -> Any:
        return {0: refusal("busy", retryable=True), 1: None}.get(next(calls)) if len(service.calls) < 3 else whole(call)

    with fake_service(answer) as service:
        name = tables.make(service.port)
        assert len(tables.engine.query(f"SELECT id FROM {name}", settings=WITHOUT_TASKS)) == 300
    assert [call.method for call in service.calls] == ["pin", "pin", "pin", "splits"]


def test_a_dead_service_fails_the_query_with_one_message(tables: Tables) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    name = tables.make(port, properties=SOON)
    start = time.monotonic()
    told = rf"Hudi table {name}: the service does not answer \(127.0.0.1:{port}: Connection refused.*\): see that `hudi"
    with pytest.raises(HiveError, match=told):
        tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
    assert time.monotonic() - start < 10
    assert len(tables.engine.query(f"DESCRIBE {name}")) == 3
    tables.engine.run(f"DROP TABLE {name}")


def test_another_address_answers_for_a_dead_one(tables: Tables, right: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    name = tables.make(f"127.0.0.1:{port}, 127.0.0.1:{right.port}")
    assert len(tables.engine.query(f"SELECT id FROM {name}", settings=WITHOUT_TASKS)) == 300


def test_a_slow_service_is_not_waited_for(tables: Tables) -> None:
    def answer(call: Call) -> Any:
        time.sleep(4)

    with fake_service(answer) as service:
        name = tables.make(service.port, properties={f"{KEY}timeout.seconds": "1"})
        start = time.monotonic()
        with pytest.raises(HiveError, match="no answer within 1 s"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
        assert time.monotonic() - start < 3.5
        assert len(service.calls) == 1


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("service", "nowhere", "it is host:port"),
        ("service", "", "is not set"),
        ("service", "h:99999", "it is host:port"),
        ("timeout.seconds", "soon", "a number of seconds"),
        ("timeout.seconds", "-1", "a number of seconds"),
    ],
)
def test_a_wrong_setting_is_named(tables: Tables, setting: str, value: str, told: str) -> None:
    name = tables.make(9, properties={f"{KEY}{setting}": value})
    with pytest.raises(HiveError, match=f"Hudi table {name}: {KEY}{setting}.*{told}"):
        tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)


# ---- encryption and the secret


def test_connections_are_encrypted_and_both_sides_known(tables: Tables, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server, client = authority.sign(), authority.sign("hive")
    stores = {"hive": pkcs12(client.certificate, client.key), "stranger": pkcs12(*vars(stranger.sign("x")).values())}
    context = server_context(TlsFiles(server.certificate, server.key, client_ca=authority.certificate))
    password = tmp_path / "password"
    password.write_text("secret store\n")
    tls = {f"{KEY}tls": "true", f"{KEY}tls.ca": authority.certificate}
    known = {**tls, f"{KEY}tls.keystore": stores["hive"], f"{KEY}tls.keystore.password.file": str(password)}
    with fake_service(parquet_splits(str(tables.folder)), tls=context) as service:
        sql = f"SELECT id FROM {tables.make(service.port, properties=SOON)} WHERE k = 3 AND id < 10"
        assert asked_with(tables, sql, known) == [(3,)]
        asked = len(service.calls)
        refused = [
            {},
            tls,
            {**known, f"{KEY}tls.ca": stranger.certificate},
            {**known, f"{KEY}tls.keystore": stores["stranger"]},
            {**known, f"{KEY}tls.keystore.password.file": f"{tmp_path}/none"},
            {**known, f"{KEY}tls.ca": str(password)},
            {**known, f"{KEY}tls": "maybe"},
            {**known, f"{KEY}tls": "false"},
        ]
        for settings in refused:
            with pytest.raises(HiveError, match="Hudi table"):
                asked_with(tables, sql, settings)
        assert len(service.calls) == asked
    with fake_service(parquet_splits(str(tables.folder)), tls=other_name(authority)) as service:
        sql = f"SELECT id FROM {tables.make(service.port, properties=SOON)}"
        with pytest.raises(HiveError, match="Hudi table"):
            asked_with(tables, sql, tls)
        assert not service.calls


def asked_with(tables: Tables, sql: str, connection: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Rows of a query under settings of the connection, in the one session of these tests."""
    keys = ("tls", "tls.ca", "tls.keystore", "tls.keystore.password.file", "secret.file")
    with tables.engine.session({"hudicatalog.tests": "connections", **WITHOUT_TASKS}) as session:
        for key in keys:
            session.run(f"SET {KEY}{key}={connection.get(KEY + key, '')}")
        return session.query(sql)


def pkcs12(certificate: str, key: str) -> str:
    path = f"{certificate}.p12"
    names = ("-in", certificate, "-inkey", key, "-out", path, "-passout", "pass:secret store")
    subprocess.run(("openssl", "pkcs12", "-export", *names), check=True, capture_output=True)
    return path


def other_name(authority: Authority) -> ssl.SSLContext:
    """A server with a certificate of the right authority, for another host than the one that is asked."""
    names = Path(authority.certificate).parent
    config = names / "other.ext"
    config.write_text("subjectAltName=DNS:elsewhere.example\n")
    key, request, certificate = (f"{names}/other.{kind}" for kind in ("key", "csr", "pem"))
    made = ("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=elsewhere.example", "-keyout", key, "-out")
    subprocess.run((*made, request), check=True, capture_output=True)
    signed = ("-CA", authority.certificate, "-CAkey", authority.certificate.replace(".pem", ".key"), "-CAcreateserial")
    extended = ("-extfile", str(config), "-days", "1", "-in", request, "-out", certificate)
    subprocess.run(("openssl", "x509", "-req", *signed, *extended), check=True, capture_output=True)
    return server_context(TlsFiles(certificate, key))


def test_calls_are_signed_with_the_secret(tables: Tables, right: Any, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a secret of Hive\n")
    name = tables.make(right.port)
    settings = {f"{KEY}secret.file": str(file)}
    asked_with(tables, f"SELECT * FROM {name} WHERE name = 'ü'", settings)
    assert [call.method for call in right.calls] == ["pin", "splits"]
    for call in right.calls:
        assert call.credential.signature == signature(b"a secret of Hive", call)
        assert abs(call.credential.time / 1000 - time.time()) < 60
        assert "secret" not in str(call.request.settings)
    asked_with(tables, f"SELECT * FROM {name}", {})
    assert "HUDI_CATALOG_SECRET" in os.environ or right.calls[-1].credential is None
    for wrong in ("short", None):
        if wrong:
            file.write_text(wrong)
        else:
            file.unlink()
        with pytest.raises(HiveError, match=f"Hudi table {name}: .*secret"):
            asked_with(tables, f"SELECT * FROM {name}", settings)


def signature(secret: bytes, call: Call) -> bytes:
    """As the contract says it is made."""
    signed = struct.pack(">q", call.credential.time)
    request = call.request
    for part in (call.method, request.location, request.table, request.queryId, request.pin, request.filter):
        text = None if part is None else part.encode()
        signed += struct.pack(">i", -1 if text is None else len(text)) + (text or b"")
    key = hmac.digest(secret, b"hive", hashlib.sha256)
    return hmac.digest(key, signed, hashlib.sha256)


# ---- what a table may be, and what it is not


@pytest.mark.parametrize("key", ["tls", "tls.ca", "tls.keystore", "tls.keystore.password.file", "secret.file"])
def test_tables_cannot_choose_keys_and_secrets(tables: Tables, right: Any, key: str) -> None:
    with pytest.raises(HiveError, match=f"{KEY}{key} belongs into Hive's configuration"):
        tables.make(right.port, properties={f"{KEY}{key}": "/etc/passwd"})
    name = tables.make(right.port)
    with pytest.raises(HiveError, match="belongs into Hive's configuration"):
        tables.engine.run(f"ALTER TABLE {name} SET TBLPROPERTIES ('{KEY}{key}'='false')")


def test_tables_whose_files_hive_would_delete_are_refused(tables: Tables, right: Any) -> None:
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
    mine = tables.make(right.port)
    with pytest.raises(HiveError, match="would belong to Hive"):
        tables.engine.run(f"ALTER TABLE {mine} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    with pytest.raises(HiveError, match=r"external\.table\.purge"):
        tables.engine.run(f"ALTER TABLE {mine} SET TBLPROPERTIES ('external.table.purge'='true')")
    with pytest.raises(HiveError, match=r"external\.table\.purge"):
        tables.make(right.port, properties={"external.table.purge": "TRUE"})
    tables.engine.run(f"DROP TABLE {mine}")
    assert len(list(tables.folder.glob("*.parquet"))) == 3


def test_partitions_that_somebody_registered_are_not_read(tables: Tables, right: Any) -> None:
    """Every partition would be all of the table."""
    day = HiveColumn("day", "string")
    store, table = entry(tables, right.port, tables.folder, partition_columns=(day,))
    store.put_partitions(table, [HivePartition((value,), located(tables.folder)) for value in "ab"])
    name = f"{table.schema}.{table.name}"
    with pytest.raises(HiveError, match=f"Hudi table {name}: it is registered without PARTITIONED BY"):
        tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)


def test_an_entry_whose_files_would_be_deleted_is_not_dropped(tables: Tables, right: Any, tmp_path: Path) -> None:
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
    said = {STORAGE_HANDLER: HANDLER_CLASSES[HANDLER.input_format], f"{KEY}service": f"127.0.0.1:{port}"}
    table = HiveTable(
        schema=tables.database,
        name=f"h{next(NAMES)}",
        columns=(HiveColumn("id", "bigint"),),
        location=located(folder),
        format=HANDLER,
        parameters={"EXTERNAL": "TRUE", **said, **(parameters or {})},
        **more,
    )
    store.put_table(table)
    return store, table


def test_columns_are_found_by_their_names(tables: Tables, right: Any) -> None:
    by_place = {"parquet.column.index.access": "true"}
    for handler in ("HudiStorageHandler", "HudiRowStorageHandler"):
        name = tables.make(right.port, columns="k int, id bigint", handler=handler, properties=by_place)
        assert tables.engine.query(f"SELECT * FROM {name} WHERE id = 150", settings=WITHOUT_TASKS) == [(3, 150)]
    name = tables.make(right.port, columns="k int, id bigint", properties=by_place)
    assert tables.engine.query(f"SELECT * FROM {name} WHERE id = 150", settings=ON_TEZ) == [(3, 150)]


def test_writing_is_refused(tables: Tables, right: Any, tmp_path: Path) -> None:
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
