"""Our connector in real Trino while its service is gone, killed, another one, or asks for proofs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import trino as client

from hudi_catalog.server.security import TlsFiles, load_secret
from hudi_catalog.trino.options import THRIFT_CONNECTORS
from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.engines.connector_tables import options
from tests.engines.served import served
from tests.engines.trino_engine import Engine
from tests.support.certificates import Authority
from tests.support.local_writes import LocalTable
from tests.support.waiting import until
from tools.engines.process import free_port

pytestmark = pytest.mark.engine

#: HUDI_CATALOG_KILLED_QUERIES says how many, which CI keeps few.
KILLED_QUERIES = int(os.environ.get("HUDI_CATALOG_KILLED_QUERIES", "6"))
ROWS = 400
COUNT = "SELECT count(*), sum(id) FROM {}.default.{}"
ANSWER = [(ROWS, ROWS * (ROWS - 1) // 2)]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twice the same table; the service reads all files of the second one, whose path Trino's locations cannot have."""
    folder = Path(tmp_path_factory.mktemp("faults"))
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "part": [f"p{one % 4}" for one in range(ROWS)]})
    for name in ("t", "served#"):
        LocalTable.create(str(folder / name), rows.schema, options("t")).write("insert", rows)
    return folder


@contextmanager
def made(engine: Engine, name: str, port: int, **properties: str) -> Iterator[str]:
    catalog = engine.connector_catalog(name, port, **properties)
    try:
        yield catalog
    finally:
        engine.drop_catalog(catalog)


def test_a_service_that_is_gone_is_a_clear_error(trino: Engine) -> None:
    with (
        made(trino, "gone", free_port(), timeout_seconds="2") as catalog,
        pytest.raises(client.exceptions.TrinoQueryError, match=r"HUDI_CATALOG_SERVICE_GONE.*serve trino") as caught,
    ):
        trino.query(COUNT.format(catalog, "t"))
    assert "127.0.0.1:" in str(caught.value)


def test_another_service_answers_for_one_that_is_gone(trino: Engine, warehouse: Path) -> None:
    with running_trino(TrinoSettings(str(warehouse))) as service:
        both = f"127.0.0.1:{free_port()},127.0.0.1:{service.port}"
        with made(trino, "two", service.port, service=both) as catalog:
            assert trino.query(COUNT.format(catalog, "t")) == ANSWER
            assert trino.query(COUNT.format(catalog, "served_")) == ANSWER


def test_a_frozen_service_costs_one_exchange(trino: Engine, warehouse: Path) -> None:
    with running_trino(TrinoSettings(str(warehouse))) as service, socket.create_server(("127.0.0.1", 0)) as frozen:
        connections: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):  # closed at the end
                while True:
                    connections.append(frozen.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        both = f"127.0.0.1:{frozen.getsockname()[1]},127.0.0.1:{service.port}"
        with made(trino, "frozen", service.port, service=both, timeout_seconds="2") as catalog:
            for name in ("t", "served_"):
                assert trino.query(COUNT.format(catalog, name)) == ANSWER
        assert len(connections) == 1
        for connection in connections:
            connection.close()


def test_killed_and_started_again_between_and_during_queries(trino: Engine, warehouse: Path) -> None:
    """A right answer or a clear error: of files that Trino reads, of rows of the service, of a join by buckets."""
    port, done = free_port(), threading.Event()
    joined = "SELECT count(*), sum(a.id) FROM {0}.default.t a JOIN {0}.default.t b ON a.id = b.id AND a.part = b.part"
    asked = [COUNT.format("{0}", "t"), COUNT.format("{0}", "served_"), joined]
    answers: list[object] = []
    with ExitStack() as stack:
        service = stack.enter_context(served("trino", warehouse, port))
        catalog = stack.enter_context(made(trino, "killed", port, timeout_seconds="10"))
        session = {"join_distribution_type": "PARTITIONED"}

        def ask(sql: str) -> None:
            while not done.is_set():
                try:
                    answers.append(trino.query(sql.format(catalog), session_properties=session))
                except client.exceptions.TrinoQueryError as error:
                    answers.append(error.error_name)

        threads = [threading.Thread(target=ask, args=(sql,)) for sql in asked]
        for thread in threads:
            thread.start()
        while len(answers) < KILLED_QUERIES:
            right = answers.count(ANSWER)
            os.kill(service.pid, signal.SIGKILL)
            service.wait()
            service = stack.enter_context(served("trino", warehouse, port))
            until(lambda right=right: answers.count(ANSWER) >= right + 6)
        done.set()
        for thread in threads:
            thread.join(60)
    assert all(one == ANSWER or one == "HUDI_CATALOG_SERVICE_GONE" for one in answers)


def test_a_secret_and_cipher(trino: Engine, warehouse: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign()
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").certificate
    secrets = []
    for text in ("a secret that Trino knows too", "another secret altogether"):
        secrets.append(tmp_path / f"secret-{len(secrets)}")
        secrets[-1].write_text(text)
        secrets[-1].chmod(0o600)
    settings = TrinoSettings(
        str(warehouse), tls=TlsFiles(signed.certificate, signed.key), secret=load_secret(str(secrets[0]))
    )
    with running_trino(settings) as service:
        tls = {"service": f"localhost:{service.port}", "tls": "true", "tls.ca": authority.certificate}
        with made(trino, "proved", service.port, **tls, secret_file=str(secrets[0])) as catalog:
            assert trino.query(COUNT.format(catalog, "served_")) == ANSWER
        for name, properties, message in (
            ("stranger", {**tls, "secret_file": str(secrets[1])}, "secret is not the service's"),
            ("silent", tls, "asks for the shared secret"),
            (
                "plain",
                {"timeout_seconds": "2"},
                r"SERVICE_GONE.*a service with a certificate wants hudi-catalog\.tls=true",
            ),
            ("untrusting", {**tls, "tls.ca": stranger}, r"SERVICE_GONE.*hudi-catalog\.tls\.ca names the authority"),
        ):
            with (
                made(trino, name, service.port, **properties) as catalog,
                pytest.raises(client.exceptions.TrinoQueryError, match=message),
            ):
                trino.query(COUNT.format(catalog, "t"))


def test_thrift_connectors_are_refused_where_they_are_not_wanted(trino: Engine, warehouse: Path) -> None:
    with running_trino(TrinoSettings(str(warehouse), options={THRIFT_CONNECTORS: "false"})) as service:
        _check_both(trino, service)


def _check_both(trino: Engine, service: ServingTrino) -> None:
    thrift = trino.thrift_catalog("unwanted", service.port)
    with made(trino, "wanted", service.port) as catalog:
        assert trino.query(COUNT.format(catalog, "t")) == ANSWER
        with pytest.raises(client.exceptions.TrinoQueryError, match="answers our own connector alone"):
            trino.query(COUNT.format(thrift, "t"))
    trino.drop_catalog(thrift)


def test_properties_that_are_wrong_are_named(trino: Engine, tmp_path: Path) -> None:
    readable = tmp_path / "secret"
    readable.write_text("a secret that everybody knows")
    readable.chmod(0o644)
    for properties, message in (
        ({"nothing": "1"}, "has no property hudi-catalog.nothing"),
        ({"service": "nowhere"}, "hudi-catalog.service=nowhere: it is host:port"),
        ({"service": "http://127.0.0.1:1"}, "http://127.0.0.1:1: it is host:port alone, without http://"),
        ({"timeout_seconds": "soon"}, "hudi-catalog.timeout-seconds=soon: it is a number of seconds"),
        ({"tls.ca": "/nowhere"}, "hudi-catalog.tls.ca is set, but not hudi-catalog.tls=true"),
        ({"secret_file": "/nowhere"}, "hudi-catalog.secret-file: /nowhere cannot be read: there is no such file"),
        ({"secret_file": str(readable)}, "its mode rw-r--r-- lets others than its owner use it"),
        ({"tls": "true", "tls.ca": "/nowhere"}, "hudi-catalog.tls.ca: /nowhere cannot be read: there is no such file"),
    ):
        with pytest.raises(client.exceptions.TrinoQueryError, match=message):
            trino.connector_catalog("wrong", 1, **properties)


def test_a_table_of_a_file_that_is_gone_or_damaged_says_so(trino: Engine, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "part": ["p"] * 10})
    plain = {**options("t"), "hoodie.metadata.enable": "false", "hoodie.bucket.index.num.buckets": "1"}
    for name in ("gone", "damaged", "pages"):
        LocalTable.create(str(tmp_path / name), rows.schema, plain).write("insert", rows)
    (damaged,) = (tmp_path / "damaged").glob("p/*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"not a PAR")
    (pages,) = (tmp_path / "pages").glob("p/*.parquet")
    content = bytearray(pages.read_bytes())
    content[200:900] = b"\xaa" * 700
    pages.write_bytes(content)
    with running_trino(TrinoSettings(str(tmp_path))) as service, made(trino, "files", service.port) as catalog:
        assert trino.query(f"SELECT count(*) FROM {catalog}.default.gone") == [(10,)]
        for path in (tmp_path / "gone").glob("p/*.parquet"):
            path.unlink()
        for name in ("gone", "damaged", "pages"):
            with pytest.raises(client.exceptions.TrinoQueryError, match=rf"HUDI_CATALOG.*{tmp_path}/{name}/p/"):
                trino.query(f"SELECT sum(id) FROM {catalog}.default.{name}")


def test_a_table_that_cannot_be_read_is_no_service_that_is_gone(trino: Engine, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "part": ["p"] * 10})
    LocalTable.create(str(tmp_path / "t"), rows.schema, options("t")).write("insert", rows)
    (tmp_path / "t/.hoodie/hoodie.properties").unlink()
    (tmp_path / "t/.hoodie/hoodie.properties").mkdir()
    LocalTable.create(str(tmp_path / "shortened"), rows.schema, options("t")).write("insert", rows)
    (tmp_path / "shortened/.hoodie/hoodie.properties").write_text("")
    message = "HUDI_CATALOG_REFUSED.*a folder is where a regular file belongs"
    with running_trino(TrinoSettings(str(tmp_path))) as service, made(trino, "unread", service.port) as catalog:
        with pytest.raises(client.exceptions.TrinoQueryError, match=message):
            trino.query(COUNT.format(catalog, "t"))
        with pytest.raises(
            client.exceptions.TrinoQueryError, match=r"shortened: \.hoodie/hoodie\.properties: at byte 0"
        ):
            trino.query(COUNT.format(catalog, "shortened"))
        refused = [one for one in service.log.recent() if "folder is where" in one.get("message", "")]
    assert len(refused) == 1
