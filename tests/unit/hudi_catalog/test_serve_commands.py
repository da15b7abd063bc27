"""The commands that run services, as separate processes: start, status, log, stop."""

import importlib.util
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from thriftpy2.transport import TTransportException
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.gateway.serve import GatewaySettings, running_gateway
from hudi_catalog.server.security import client_context, load_secret, tls_files
from hudi_catalog.trino.serve import TrinoSettings, running_trino
from table_format.errors import HudiError
from tests.support.certificates import Authority
from tests.support.command import MAIN, Command
from tests.support.served_folders import build_trips, thrift_client
from tests.support.trino_wire import SERVICE as T


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    build_trips(folder)
    return folder


def client_of(port: int, tls: ssl.SSLContext | None = None) -> Any:
    return thrift_client(T.TrinoThriftService, port, tls)


class Scan:
    """A query by Thrift's own client: its splits first, its rows later."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.client = client_of(port, tls)
        columns, first = T.TrinoThriftNullableColumnSet({"k"}), T.TrinoThriftNullableToken(None)
        name = T.TrinoThriftSchemaTableName("default", "trips")
        seven = T.TrinoThriftBlock(bigintData=T.TrinoThriftBigint(None, [7]))
        exactly = T.TrinoThriftMarker(seven, 2)
        values = T.TrinoThriftValueSet(rangeValueSet=T.TrinoThriftRangeValueSet([T.TrinoThriftRange(exactly, exactly)]))
        domain = T.TrinoThriftTupleDomain({"k": T.TrinoThriftDomain(values, False)})
        batch = self.client.trinoGetSplits(name, columns, domain, 100, first)
        assert batch.nextToken is None
        self.splits = batch.splits

    def rows(self, client: Any = None) -> list[int]:
        keys = []
        for split in self.splits:
            page = (client or self.client).trinoGetRows(split.splitId, ["k"], 1 << 20, T.TrinoThriftNullableToken(None))
            keys += page.columnBlocks[0].bigintData.longs or [] if page.rowCount else []
        return keys


@pytest.mark.slow
def test_the_service_plans_logs_and_stops(warehouse: Path, tmp_path: Path, start: Callable[..., Command]) -> None:
    log = tmp_path / "queries.jsonl"
    serving = start("serve", "trino", str(warehouse), "--port", "0", "--http-port", "0", "--query-log", str(log))
    assert f"trino.thrift.client.addresses=127.0.0.1:{serving.port}" in serving.text
    assert serving.get("/health")[0] == 200
    assert serving.get("/ready")[0] == 200
    scan = Scan(serving.port)
    assert scan.rows() == [7]
    (line,) = [json.loads(text) for text in log.read_text().splitlines()]
    assert (line["table"], line["expression"], line["files_in"]) == ("default.trips", "k = 7", 4)
    assert line["files_out"] == len(scan.splits) < 4
    log.rename(tmp_path / "older.jsonl")
    serving.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 10
    while not log.exists() and time.monotonic() < until:
        time.sleep(0.02)
    Scan(serving.port).rows()
    assert len(log.read_text().splitlines()) == 1
    status, metrics = serving.get("/metrics")
    assert status == 200
    assert 'hudi_catalog_planned_scans_total{service="trino"} 2.0' in metrics
    assert 'hudi_catalog_requests_total{method="GetRows",outcome="ok",service="trino"}' in metrics
    gauges = {"file_groups": 4, "small_file_groups": 4, "pending_instants": 0}
    for name, value in gauges.items():
        assert f'hudi_catalog_table_{name}{{service="trino",table="trips"}} {value}.0' in metrics, name
    assert "default.trips" in serving.get("/")[1]
    scan.client.close()
    serving.process.terminate()
    assert serving.end() == (0, "")
    assert serving.lines[-1] == "hudi-catalog: stopped\n"


@pytest.mark.slow
def test_an_address_of_ipv6_is_told_in_brackets(warehouse: Path, start: Callable[..., Command]) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"::1: {error}")
    serving = start("serve", "trino", str(warehouse), "--port", "0", "--http-port", "0", "--host", "::1")
    assert re.search(r" to Trino at \[::1\]:\d+; a catalog", serving.text)
    serving.process.send_signal(signal.SIGINT)
    assert serving.end()[0] == 0


@pytest.mark.slow
def test_a_running_query_is_finished_before_the_end(warehouse: Path, start: Callable[..., Command]) -> None:
    serving = start("serve", "trino", str(warehouse), "--port", "0", "--http-port", "0")
    scan = Scan(serving.port)
    serving.process.terminate()
    until = time.monotonic() + 10
    while serving.get("/ready")[0] == 200 and time.monotonic() < until:
        time.sleep(0.02)
    assert serving.get("/health")[0] == 200
    assert scan.rows() == [7]
    code, stdout = serving.end()
    assert code == 0
    assert json.loads(stdout)["expression"] == "k = 7"


def test_another_process_with_the_secret_goes_on(warehouse: Path, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("not to be guessed by anybody\n")
    path.chmod(0o600)
    known = TrinoSettings(str(warehouse), secret=load_secret(str(path)))
    with running_trino(known) as first:
        scan = Scan(first.port)
        assert len(scan.splits) > 0
    with running_trino(known) as second:
        assert scan.rows(client_of(second.port)) == [7]
    with running_trino(TrinoSettings(str(warehouse))) as stranger:
        with pytest.raises(T.TrinoThriftServiceException) as refused:
            scan.rows(client_of(stranger.port))
        assert not refused.value.retryable
        assert 'requests_total{method="GetRows",outcome="refused"' in stranger.metrics.text().decode()


@pytest.mark.slow
def test_tls_and_the_certificates_of_clients(warehouse: Path, tmp_path: Path) -> None:
    servers, clients = Authority(tmp_path, "servers"), Authority(tmp_path, "clients")
    own, theirs = servers.sign("localhost"), clients.sign("trino")
    files = tls_files(own.certificate, own.key, clients.certificate)
    with running_trino(TrinoSettings(str(warehouse), tls=files)) as serving:
        trusted = client_context(ca=servers.certificate, certificate=theirs.certificate, key=theirs.key)
        scan = Scan(serving.port, trusted)
        assert scan.rows() == [7]
        scan.client.close()
        for stranger in (client_context(ca=servers.certificate), None):
            with pytest.raises((TTransportException, OSError)):
                Scan(serving.port, stranger)


@pytest.mark.slow
def test_a_second_signal_ends_the_waiting(warehouse: Path, start: Callable[..., Command]) -> None:
    serving = start("serve", "trino", str(warehouse), "--port", "0", "--http-port", "0")
    scan = Scan(serving.port)
    serving.process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    while serving.get("/ready")[0] == 200 and time.monotonic() < begin + 10:
        time.sleep(0.02)
    serving.process.send_signal(signal.SIGINT)
    assert serving.end()[0] == 0
    assert "stopping although queries are running" in serving.text
    scan.client.close()


@pytest.mark.slow
def test_a_gateway_without_trino_says_so_and_stops(tmp_path: Path, start: Callable[..., Command]) -> None:
    gateway = start("gateway", "http://127.0.0.1:9", "--metastore", str(tmp_path), "--port", "0", "--http-port", "0")
    status, text = gateway.get("/ready")
    assert status == 503
    assert json.loads(text)["checks"]["metastore"] == "ok"
    assert "127.0.0.1:9" in json.loads(text)["checks"]["trino"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/v1/statement", b"SELECT 1", timeout=20)
    with refused.value as answer:
        assert answer.code == 502
        assert "127.0.0.1:9" in answer.read().decode()
    gateway.process.terminate()
    code, stdout = gateway.end()
    assert code == 0
    rules, query = map(json.loads, stdout.splitlines())
    assert (rules["event"], query["sql"]) == ("access rules", "SELECT 1")
    assert "hoodie.catalog.gateway.trino.rules" in "".join(gateway.lines)


def lines(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_the_catalog_file_names_the_address() -> None:
    properties = lines("serve", "trino", "absent", "--print-catalog", "--port", "7", "--host", "lake.example")
    assert properties[:2] == ["connector.name=trino_thrift", "trino.thrift.client.addresses=lake.example:7"]
    assert "0.0.0.0" not in "".join(lines("serve", "trino", "absent", "--print-catalog", "--host", "0.0.0.0"))
    assert "addresses=[::1]:9779" in lines("serve", "trino", "absent", "--print-catalog", "--host", "::1")[1]
    safe = lines("serve", "trino", "absent", "--print-catalog", "--tls-certificate", "x.pem")
    assert "trino.thrift.client.ssl.enabled=true" in safe
    larger = lines("serve", "trino", "absent", "--print-catalog", "-o", "hoodie.catalog.trino.frame.size=268435456")
    assert "trino.thrift.client.max-frame-size=256MB" in larger
    presto = lines("serve", "trino", "absent", "--print-catalog", "--presto")
    assert presto[0] == "connector.name=presto-thrift"
    assert "presto.thrift.client.transport=FRAMED" in presto
    assert "trino" not in "".join(presto)
    both = CliRunner().invoke(app, ["serve", "trino", "absent", "--print-catalog", "--connector", "--presto"])
    assert both.exit_code == 2
    assert "choose --connector or --presto" in both.output


SERVE, GATEWAY = ("serve", "trino", "{warehouse}"), ("gateway", "http://127.0.0.1:9", "--metastore", "{warehouse}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serve", "trino", "{warehouse}/absent"), "absent: there is no such folder"),
        ((*SERVE, "-o", "hoodie.catalog.trino.split.siz=1"), "did you mean hoodie.catalog.trino.split.size"),
        ((*SERVE, "-o", "hoodie.catalog.trino.split.size=x"), "give a whole number"),
        ((*SERVE, "-o", "hoodie.catalog.gateway.paths.most=1"), "no such option here"),
        ((*SERVE, "-o", "x"), "write key=value"),
        ((*SERVE, "--config", "{warehouse}/absent"), "--config .*absent: No such file"),
        ((*SERVE, "--query-log", "{warehouse}/absent/log"), "--query-log .*absent/log: No such file"),
        ((*SERVE, "--secret-file", "{warehouse}/absent"), "secret file .*absent"),
        ((*SERVE, "--tls-certificate", "{warehouse}/absent"), "TLS certificate .*absent"),
        ((*SERVE, "--tls-key", "x"), "TLS needs a certificate"),
        (
            ("serve", "trino", "{warehouse}/trips/.hoodie/hoodie.properties"),
            "hoodie.properties is a file, and not a folder",
        ),
        ((*SERVE, "--host", "203.0.113.5"), r"203\.0\.113\.5:0: .*; --host is an address or a name of this machine"),
        ((*SERVE, "--host", "no.such.host.invalid"), r"no\.such\.host\.invalid:0: .*; --host is an address"),
        ((*SERVE, "--host", "a..b"), r"a\.\.b:0: .*; --host is an address"),
        ((*SERVE, "--http-host", "203.0.113.5"), r"203\.0\.113\.5:0: .*; --http-host is an address"),
        ((*GATEWAY, "--host", "2001:db8::5"), r"\[2001:db8::5\]:0: .*; --host is an address"),
        ((*GATEWAY, "-o", "hoodie.catalog.trino.split.size=1"), "no such option here"),
        ((*GATEWAY, "-o", "hoodie.catalog.gateway.paths.most=x"), "give a whole number"),
        ((*GATEWAY, "--upstream-ca", "{warehouse}/absent"), "TLS CA .*absent"),
        (("gateway", "trino:8080", "--metastore", "x"), "is not http://host:port"),
        (("gateway", "http://t:1", "--metastore", "thrift://a:b"), "is not an address of a Hive Metastore"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_one_clear_error(warehouse: Path, arguments: tuple[str, ...], message: str) -> None:
    command = [text.format(warehouse=warehouse) for text in (*arguments, "--port", "0", "--http-port", "0")]
    with pytest.raises(HudiError, match=message):
        CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.slow
def test_a_taken_port_is_told_in_one_line(warehouse: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        again = subprocess.run(
            [*MAIN, "serve", "trino", str(warehouse), "--port", str(port), "--http-port", "0"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (again.returncode, again.stdout) == (1, "")
    assert re.fullmatch(rf"hudi-catalog: .*127\.0\.0\.1:{port}.*\n", again.stderr)


def test_options_come_from_a_file_and_flags_win(tmp_path: Path) -> None:
    config = tmp_path / "options"
    config.write_text("hoodie.catalog.gateway.paths.most=7\nhoodie.catalog.gateway.uris=host\n")
    from hudi_catalog.cli.arguments import all_options

    assert all_options(str(config), ["hoodie.catalog.gateway.paths.most=8"]) == {
        "hoodie.catalog.gateway.paths.most": "8",
        "hoodie.catalog.gateway.uris": "host",
    }


def test_a_gateway_in_a_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"hoodie.catalog.gateway.paths.most": "7", "hoodie.catalog.service.drain.timeout.seconds": "1"}
    known = {**options, "hoodie.catalog.gateway.trino.rules": "none"}
    with running_gateway(GatewaySettings("http://127.0.0.1:9", str(tmp_path), options=known)) as serving:
        assert serving.log.recent() == []
    with running_gateway(GatewaySettings("http://127.0.0.1:9", str(tmp_path), options=options)) as serving:
        (line,) = serving.log.recent()
        assert line["event"] == "access rules"
        assert "do not apply to `s__snapshots.t__…`" in line["message"]
        assert "hoodie.catalog.gateway.trino.rules" in caplog.text
        assert serving.rewriter.options.paths == 7
        assert serving.drain_seconds == 1
        with urllib.request.urlopen(f"http://127.0.0.1:{serving.http_port}/health", timeout=10) as answer:
            assert answer.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{serving.http_port}/health", timeout=10)


@pytest.mark.parametrize("arguments", [SERVE, GATEWAY], ids=["serve", "gateway"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HudiError, match=r"needs .*: pip install 'hudi-catalog\[services\]'"):
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.slow
def test_other_commands_start_without_the_libraries_of_services() -> None:
    code = (
        "import sys, catalog, hudi_catalog.cli.main; "
        "print({'aiohttp', 'prometheus_client', 'thriftpy2', 'trino', 'asyncio'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
