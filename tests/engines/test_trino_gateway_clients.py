"""Trino's real clients through the gateway: its Python client, its command line, its JDBC driver."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import trino as trino_module

from hudi_catalog.gateway.serve import GatewaySettings, ServingGateway, running_gateway
from hudi_catalog.server.security import Secret, TlsFiles
from tests.conftest import skip_or_fail
from tests.engines.trino_engine import Engine
from tests.engines.trino_world import World
from tests.support.certificates import self_signed
from tests.support.gateway_hosting import gateway as hosted_proxy
from tests.support.tpch_tables import Layout, write
from tests.support.waiting import until
from tools.engines.artifacts import Artifact, EngineMissingError, fetch
from tools.engines.jdk import find_java

pytestmark = pytest.mark.engine

SCHEMA = "clients"
CLI = Artifact("io.trino", "trino-cli", "476", classifier="executable")
JDBC = Artifact("io.trino", "trino-jdbc", "476")
PROGRAM = Path(__file__).parent / "jdbc" / "GatewayClient.java"
LINE_NUMBERS = 180_782


@pytest.fixture(scope="module")
def gateway(world: World) -> Iterator[ServingGateway]:
    """A gateway before Trino, with a table of 16 files."""
    ids = pa.array(range(4000), pa.int64())
    names = pa.array([f"näme {number % 10}" for number in range(4000)])
    write(world.folder(SCHEMA), "kinds", pa.table({"id": ids, "name": names}), Layout("id", "id", 16))
    world.register(SCHEMA, "kinds")
    options = {"hoodie.catalog.gateway.trino.catalogs": world.engine.hive}
    settings = GatewaySettings(world.engine.uri, f"file://{world.engine.metastore}", options=options)
    with running_gateway(settings) as running:
        yield running


@dataclass
class Secured:
    gateway: ServingGateway
    certificate: str


def statements(gateway: ServingGateway, text: str) -> list[dict]:
    """What the log says of statements that hold a text, newest first."""
    return [line for line in gateway.log.recent() if line["event"] == "query" and text in str(line.get("sql"))]


def ask(engine: Engine, gateway: ServingGateway, sql: str, **session) -> list:
    return engine.query(sql, port=gateway.port, catalog=engine.hive, schema=SCHEMA, **session)


def test_rows_come_as_from_trino_itself(trino: Engine, gateway: ServingGateway) -> None:
    sql = "SELECT id, name FROM kinds WHERE id IN (3, 77, 3999) ORDER BY id"
    assert ask(trino, gateway, sql) == [(3, "näme 3"), (77, "näme 7"), (3999, "näme 9")]
    assert ask(trino, gateway, sql) == trino.query(sql, catalog=trino.hive, schema=SCHEMA)
    assert statements(gateway, "3999")[0]["outcome"] == "rewritten"


def test_large_results_pass(trino: Engine, gateway: ServingGateway) -> None:
    sql = "SELECT * FROM tpch.tiny.lineitem ORDER BY orderkey, linenumber"
    assert ask(trino, gateway, sql) == trino.query(sql)


@pytest.mark.parametrize("encoding", [None, "json", "json+zstd", "json+lz4"])
def test_encodings_that_a_client_asks_for_pass(trino: Engine, gateway: ServingGateway, encoding: str | None) -> None:
    assert ask(trino, gateway, "SELECT sum(linenumber) FROM tpch.tiny.lineitem", encoding=encoding) == [(LINE_NUMBERS,)]


@pytest.mark.parametrize("legacy", [True, False])
def test_parameters(trino: Engine, gateway: ServingGateway, legacy: bool) -> None:
    session = {"port": gateway.port, "catalog": trino.hive, "schema": SCHEMA, "legacy_prepared_statements": legacy}
    with trino.connection(**session) as connection:
        for number in (5, 6):
            cursor = connection.cursor()
            cursor.execute("SELECT name, id FROM kinds WHERE id = ? AND name LIKE ?", (number, "n%"))
            assert cursor.fetchall() == [[f"näme {number}", number]]
    calls = [line for line in gateway.log.recent() if line["event"] == "query"][:4]
    assert [line for line in calls if line["outcome"] == "rewritten"]
    planned = [line for line in gateway.log.recent() if line["event"] == "planned"][:2]
    assert [line["files_out"] for line in planned] == [1, 1]


def test_errors_are_trinos_own(trino: Engine, gateway: ServingGateway) -> None:
    for sql in ("SELECT nosuch FROM kinds WHERE id = 1", "SELEC 1", "SELECT 1 / (id - 1) FROM kinds WHERE id = 1"):
        errors = []
        for port in (trino.port, gateway.port):
            with pytest.raises(trino_module.exceptions.TrinoUserError) as error:
                trino.query(sql, port=port, catalog=trino.hive, schema=SCHEMA)
            errors.append((error.value.error_name, error.value.error_type))
        assert errors[0] == errors[1]


def test_sessions(trino: Engine, gateway: ServingGateway) -> None:
    session = {"session_properties": {"query_max_run_time": "23m"}, "timezone": "Asia/Tokyo", "user": "zoë"}
    (row,) = ask(trino, gateway, "SELECT current_timezone(), current_user, current_catalog, current_schema", **session)
    assert row == ("Asia/Tokyo", "zoë", trino.hive, SCHEMA)
    (row,) = ask(trino, gateway, "SHOW SESSION LIKE 'query_max_run_time'", **session)
    assert row[1] == "23m"


def test_use_and_set_session_come_back(trino: Engine, gateway: ServingGateway) -> None:
    with trino.connection(port=gateway.port) as connection:
        for sql in (f"USE {trino.hive}.{SCHEMA}", "SET SESSION query_max_run_time = '17m'"):
            connection.cursor().execute(sql).fetchall()
        assert connection.cursor().execute("SELECT count(*) FROM kinds WHERE id = 9").fetchall() == [[1]]
        assert connection.cursor().execute("SHOW SESSION LIKE 'query_max_run_time'").fetchall()[0][1] == "17m"
    assert statements(gateway, "id = 9")[0]["outcome"] == "rewritten"


def test_names_with_accents(trino: Engine, gateway: ServingGateway) -> None:
    with trino.connection(port=gateway.port, user="zoë") as connection:
        statements = [
            'CREATE SCHEMA IF NOT EXISTS memory."gatewäy"',
            'USE memory."gatewäy"',
            "SELECT current_schema, current_user",
            'DROP SCHEMA memory."gatewäy"',
        ]
        answers = [connection.cursor().execute(sql).fetchall() for sql in statements]
    assert answers[2] == [["gatewäy", "zoë"]]


def test_a_gateway_that_is_started_anew_goes_on_with_running_queries(trino: Engine) -> None:
    with hosted_proxy(trino.uri) as first:
        port = first.port
        with trino.connection(port=port) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT * FROM tpch.tiny.lineitem")
            rows = cursor.fetchmany(10)
            first.call(first.proxy.stop())  # without waiting, as when it is killed
            with hosted_proxy(trino.uri, port=port):
                rows += cursor.fetchall()
    assert sorted(map(tuple, rows)) == sorted(trino.query("SELECT * FROM tpch.tiny.lineitem"))


def test_transactions(trino: Engine, gateway: ServingGateway) -> None:
    level = trino_module.transaction.IsolationLevel.READ_COMMITTED
    session = {"port": gateway.port, "catalog": trino.hive, "schema": SCHEMA, "isolation_level": level}
    with trino.connection(**session) as connection:
        cursor = connection.cursor()
        for number in (11, 12):
            cursor.execute(f"SELECT count(*) FROM kinds WHERE id = {number}")
            assert cursor.fetchall() == [[1]]
        connection.commit()
    assert statements(gateway, "id = 12")[0]["outcome"] == "rewritten"


def test_a_cancelled_query_ends(trino: Engine, gateway: ServingGateway) -> None:
    with trino.connection(port=gateway.port) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM tpch.sf1.lineitem")
        assert len(cursor.fetchmany(10)) == 10
        assert gateway.busy()
        state = f"SELECT state FROM system.runtime.queries WHERE query_id = '{cursor.query_id}'"
        assert trino.query(state) == [("RUNNING",)]
        cursor.cancel()
        until(lambda: trino.query(state) == [("FAILED",)])
    until(lambda: not gateway.busy())


def run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def java(artifact: Artifact, version: int) -> tuple[str, str]:
    try:
        return str(find_java(version, fetch=False)), str(fetch(artifact))
    except EngineMissingError as error:
        skip_or_fail(str(error))
        raise


def test_the_command_line(trino: Engine, gateway: ServingGateway) -> None:
    program, jar = java(CLI, 25)
    script = """
        PREPARE p FROM SELECT name FROM kinds WHERE id = ?; EXECUTE p USING 21; DEALLOCATE PREPARE p;
        START TRANSACTION; SELECT count(*) FROM kinds WHERE id = 22; COMMIT;
        SET SESSION query_max_run_time = '19m'; SHOW SESSION LIKE 'query_max_run_time'; USE tpch.tiny;
        SELECT sum(linenumber) FROM lineitem"""
    where = ["--server", f"http://127.0.0.1:{gateway.port}", "--catalog", trino.hive, "--schema", SCHEMA]
    output = run(program, "-Xmx200m", "-jar", jar, *where, "--user", "cli", "--execute", script)
    lines = [line for line in output.splitlines() if line.startswith('"')]
    assert lines[:2] == ['"näme 1"', '"1"']
    assert lines[2].startswith('"query_max_run_time","19m"')
    assert lines[3:] == [f'"{LINE_NUMBERS}"']
    assert statements(gateway, "id = 22")[0]["outcome"] == "rewritten"
    assert [line["outcome"] for line in statements(gateway, "id = ?")][:1] == ["rewritten"]


def test_jdbc(trino: Engine, gateway: ServingGateway) -> None:
    program, jar = java(JDBC, 17)
    url = f"jdbc:trino://127.0.0.1:{gateway.port}/{trino.hive}/{SCHEMA}"
    output = run(program, "-Xmx300m", "-cp", jar, str(PROGRAM), url, "user", "jdbc")
    printed = dict(line.split("=", 1) for line in output.splitlines())
    assert output.splitlines()[:2] == ["prepared=1,7", "prepared=1,8"]
    assert printed["transaction"] == "1"
    assert printed["rows"] == str(LINE_NUMBERS)
    assert re.search(r"Column 'nosuch' cannot be resolved", printed["error"])
    assert printed["cancelled"] == "true"
    assert printed["server"] == "476"
    assert statements(gateway, "id = ?")[0]["outcome"] == "rewritten"
    assert statements(gateway, "id = 7")[0]["outcome"] == "rewritten"


SECRET = "of=printable+letters%without,spaces"


@pytest.fixture(scope="module")
def secured(world: World, gateway: ServingGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A gateway with TLS and a shared secret, before Trino without."""
    folder = self_signed(tmp_path_factory.mktemp("tls"))
    settings = GatewaySettings(
        world.engine.uri,
        f"file://{world.engine.metastore}",
        options={"hoodie.catalog.gateway.trino.catalogs": world.engine.hive},
        secret=Secret(SECRET.encode()),
        tls=TlsFiles(str(folder / "cert.pem"), str(folder / "key.pem")),
    )
    with running_gateway(settings) as running:
        yield Secured(running, str(folder / "cert.pem"))


def test_the_python_client_with_tls_and_the_secret(
    trino: Engine, secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)  # the client's library would take them before `verify`
    session = {"host": "localhost", "http_scheme": "https", "verify": secured.certificate}
    named = {**session, "extra_credential": [("hudi-catalog-secret", SECRET)]}
    assert ask(trino, secured.gateway, "SELECT name FROM kinds WHERE id = 31", **named) == [("näme 1",)]
    assert statements(secured.gateway, "id = 31")[0]["outcome"] == "rewritten"
    assert ask(trino, secured.gateway, "SELECT sum(linenumber) FROM tpch.tiny.lineitem", **named) == [(LINE_NUMBERS,)]
    with pytest.raises(trino_module.exceptions.HttpError, match=r"401.*hudi-catalog-secret is missing"):
        ask(trino, secured.gateway, "SELECT 1", **session)
    with pytest.raises(trino_module.exceptions.TrinoConnectionError, match="certificate"):
        ask(trino, secured.gateway, "SELECT 1", **{**named, "verify": True})


def test_the_command_line_with_tls_and_the_secret(trino: Engine, secured: Secured) -> None:
    program, jar = java(CLI, 25)
    where = ["--server", f"https://localhost:{secured.gateway.port}", "--truststore-path", secured.certificate]
    names = ["--catalog", trino.hive, "--schema", SCHEMA, "--user", "cli"]
    command = [program, "-Xmx200m", "-jar", jar, *where, *names, "--execute", "SELECT name FROM kinds WHERE id = 32"]
    credential = ["--extra-credential", f"hudi-catalog-secret={SECRET}"]
    assert '"näme 2"' in run(*command, *credential).splitlines()
    refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0
    assert "the extra credential hudi-catalog-secret is missing" in refused.stderr


def test_jdbc_with_tls_and_the_secret(trino: Engine, secured: Secured) -> None:
    program, jar = java(JDBC, 17)
    url = f"jdbc:trino://localhost:{secured.gateway.port}/{trino.hive}/{SCHEMA}"
    properties = ["user", "jdbc", "SSL", "true", "SSLTrustStorePath", secured.certificate]
    credential = ["extraCredentials", f"hudi-catalog-secret:{SECRET}"]
    output = run(program, "-Xmx300m", "-cp", jar, str(PROGRAM), url, *properties, *credential)
    assert output.splitlines()[:2] == ["prepared=1,7", "prepared=1,8"]
