"""Real Trino while the service dies, restarts, holds a thousand connections, or uses TLS."""

import os
import signal
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
import trino as client

from hudi_catalog.gateway.options import CATALOGS
from hudi_catalog.gateway.serve import GatewaySettings, running_gateway
from hudi_catalog.server.security import TlsFiles, load_secret
from hudi_catalog.trino.serve import TrinoSettings
from tests.engines.served import served
from tests.engines.trino_world import World, another_service
from tests.support.certificates import Authority
from tests.support.tpch_tables import Layout, write
from tests.support.waiting import until
from tools.engines.process import free_port

pytestmark = pytest.mark.engine

SCHEMA = "faults"
ROWS = 300_000
SLOW = "SELECT count(*), sum(id), max(length(text)) FROM long"
ANSWER = [(ROWS, ROWS * (ROWS - 1) // 2, 100)]
IDLE = 1000


@pytest.fixture(scope="module")
def long_table(world: World) -> World:
    """A table that takes some seconds to serve."""
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "text": [f"{n:0100}" for n in range(ROWS)]})
    write(world.folder(SCHEMA), "long", rows, Layout("id", "id", 16))
    world.register(SCHEMA, "long")
    return world


class Query(threading.Thread):
    """One query; its rows or its error."""

    def __init__(self, world: World, sql: str, catalog: str) -> None:
        super().__init__(daemon=True)
        self._ask = lambda: world.engine.query(sql, catalog=catalog, schema=SCHEMA)
        self.rows: list[tuple[object, ...]] | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.rows = self._ask()
        except Exception as error:
            self.error = error


@pytest.mark.parametrize("shared_secret", [True, False])
def test_killed_and_started_again_while_a_query_runs(long_table: World, shared_secret: bool, tmp_path: Path) -> None:
    world, port = long_table, free_port()
    secret = tmp_path / "secret"
    secret.write_text("a secret that both lives of the service know\n")
    secret.chmod(0o600)
    secret.chmod(0o600)
    # small pages: the query is still reading when the service dies
    catalog = world.engine.create_catalog(
        f"killed_{shared_secret}".lower(),
        "trino_thrift",
        {"trino.thrift.client.addresses": f"127.0.0.1:{port}", "trino-thrift.max-response-size": "1MB"},
    )
    with ExitStack() as stack:
        first = stack.enter_context(served("trino", world.warehouse, port, secret if shared_secret else None))
        assert world.engine.query(f"SELECT count(*) FROM {catalog}.{SCHEMA}.long") == [(ROWS,)]
        query = Query(world, SLOW, catalog)
        query.start()
        running = f"SELECT query_id FROM system.runtime.queries WHERE state = 'RUNNING' AND query = '{SLOW}'"
        until(lambda: world.engine.query(running) or not query.is_alive())
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        stack.enter_context(served("trino", world.warehouse, port, secret if shared_secret else None))
        query.join(60)
        assert not query.is_alive(), "the query hangs"
        # split ids carry all that a new service needs, if it can check their signature
        assert query.rows == ANSWER or (query.error is not None and "hrift" in str(query.error))
        assert world.engine.query(f"SELECT count(*) FROM {catalog}.{SCHEMA}.long") == [(ROWS,)]
    world.engine.drop_catalog(catalog)


def test_a_service_that_is_gone_is_a_clear_error(long_table: World) -> None:
    catalog = long_table.engine.thrift_catalog("gone", free_port())
    with pytest.raises(client.exceptions.TrinoQueryError, match=r"(?i)thrift|connect"):
        long_table.engine.query(f"SELECT count(*) FROM {catalog}.{SCHEMA}.long")
    long_table.engine.drop_catalog(catalog)


def test_a_thousand_idle_connections_disturb_nobody(long_table: World) -> None:
    world = long_table
    with ExitStack() as stack:
        for port in (world.service.port, world.gateway.port):
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        for _ in range(3):
            assert world.through_service(SLOW, SCHEMA) == ANSWER
            assert world.through_gateway(SLOW, SCHEMA) == ANSWER


def test_garbage_beside_a_query_disturbs_nobody(long_table: World) -> None:
    query = Query(long_table, SLOW, long_table.served)
    query.start()
    garbage = (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff\xff\xff", b"\xff" * 64, b"\x00\x00\x00\x08" + os.urandom(8))
    for sent in garbage * 20:
        with socket.create_connection(("127.0.0.1", long_table.service.port), timeout=10) as connection:
            connection.sendall(sent)
    query.join(60)
    assert query.rows == ANSWER


def test_the_service_in_cipher(long_table: World, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign()
    settings = TrinoSettings(str(long_table.warehouse), tls=TlsFiles(signed.certificate, signed.key))
    sql = f"SELECT count(*) FROM {{}}.{SCHEMA}.long WHERE id < 100"
    with another_service(long_table.engine, "plain", settings) as (service, plain):
        with pytest.raises(client.exceptions.TrinoQueryError):
            long_table.engine.query(sql.format(plain))
        properties = {
            "trino.thrift.client.addresses": f"localhost:{service.port}",
            "trino.thrift.client.ssl.enabled": "true",
            "trino.thrift.client.ssl.trust-certificate": authority.certificate,
        }
        secured = long_table.engine.create_catalog("secured", "trino_thrift", properties)
        assert long_table.engine.query(sql.format(secured)) == [(100,)]
        long_table.engine.drop_catalog(secured)


def test_the_gateway_in_cipher_with_a_secret(
    long_table: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the client's library prefers these to the file that it is given
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    authority = Authority(tmp_path)
    signed = authority.sign()
    secret = tmp_path / "secret"
    secret.write_text("open-sesame-says-the-client\n")
    secret.chmod(0o600)
    secret.chmod(0o600)
    engine = long_table.engine
    settings = GatewaySettings(
        engine.uri,
        f"file://{engine.metastore}",
        options={CATALOGS: engine.hive},
        secret=load_secret(str(secret)),
        tls=TlsFiles(signed.certificate, signed.key),
    )
    sql = f"SELECT count(*) FROM {engine.hive}.{SCHEMA}.long WHERE id < 100"
    with running_gateway(settings) as gateway:
        session = {"port": gateway.port, "host": "localhost", "http_scheme": "https", "verify": authority.certificate}
        known = [("hudi-catalog-secret", "open-sesame-says-the-client")]
        assert engine.query(sql, **session, extra_credential=known) == [(100,)]
        with pytest.raises(client.exceptions.HttpError, match="401"):
            engine.query(sql, **session)
