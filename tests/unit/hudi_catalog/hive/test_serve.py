"""`hudi-catalog serve hive` as a process and in a thread: start, status, log, TLS, secret, stop."""

import importlib.util
import json
import ssl
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from thriftpy2.transport import TTransportException
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.hive.serve import HiveSettings, running_hive
from hudi_catalog.server.security import client_context, load_secret, tls_files
from table_format.errors import HudiError, OptionError, TableNotFoundError
from tests.support.certificates import Authority
from tests.support.command import Command
from tests.support.hive_client import T, read, tree
from tests.support.served_folders import build_trips, thrift_client
from tests.support.waiting import until
from tests.unit.hudi_catalog.hive.test_service import signed

SEVEN = tree("OPEqual", "k", "bigint", 7)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    build_trips(folder)
    return folder


def client_of(port: int, tls: ssl.SSLContext | None = None) -> Any:
    return thrift_client(T.HudiCatalog, port, tls)


def request(warehouse: Path, **fields: Any) -> Any:
    return T.ScanRequest(3, f"file:{warehouse}/trips", "db.trips", "q", filter=SEVEN, timeZone="UTC", **fields)


@pytest.mark.slow
def test_the_service_plans_logs_and_stops(warehouse: Path, tmp_path: Path, start: Callable[..., Command]) -> None:
    log = tmp_path / "queries.jsonl"
    serving = start("serve", "hive", str(warehouse), "--port", "0", "--http-port", "0", "--query-log", str(log))
    assert f"<value>127.0.0.1:{serving.port}</value>" in serving.text
    assert serving.get("/health")[0] == serving.get("/ready")[0] == 200
    client = client_of(serving.port)
    pin = client.pin(request(warehouse), None)
    planned = client.splits(request(warehouse, pin=pin), None)
    assert read(planned.splits, ["k"])["k"].to_pylist().count(7) == 1
    (line,) = [json.loads(text) for text in log.read_text().splitlines()]
    assert (line["table"], line["expression"], line["files_in"], line["splits"]) == ("db.trips", "k = 7", 4, 1)
    status, metrics = serving.get("/metrics")
    assert status == 200
    assert 'hudi_catalog_planned_scans_total{service="hive"} 1.0' in metrics
    assert 'hudi_catalog_requests_total{method="pin",outcome="ok",service="hive"} 1.0' in metrics
    assert "db.trips" in serving.get("/")[1]
    client.close()
    serving.process.terminate()
    assert serving.end() == (0, "")
    assert serving.lines[-1] == "hudi-catalog: stopped\n"


@pytest.mark.slow
def test_secret_and_tls_with_certificates_of_clients(warehouse: Path, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("not to be guessed by anybody\n")
    path.chmod(0o600)
    servers, clients = Authority(tmp_path, "servers"), Authority(tmp_path, "clients")
    own, theirs = servers.sign("localhost"), clients.sign("hive")
    files = tls_files(own.certificate, own.key, clients.certificate)
    with running_hive(HiveSettings(str(warehouse), secret=load_secret(str(path)), tls=files)) as serving:
        trusted = client_context(ca=servers.certificate, certificate=theirs.certificate, key=theirs.key)
        client = client_of(serving.port, trusted)
        asked = request(warehouse)
        assert client.splits(asked, signed(asked, "splits", b"not to be guessed by anybody")).filesKept == 1
        with pytest.raises(T.Refusal, match="asks for the shared secret"):
            client.splits(asked, None)
        client.close()
        for stranger in (client_context(ca=servers.certificate), None):
            with pytest.raises((TTransportException, OSError)):
                client_of(serving.port, stranger).pin(asked, None)
        assert 'outcome="refused"' in serving.metrics.text().decode()


def test_a_service_that_stops_finishes_what_it_does(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hudi_catalog.hive import planning

    real = planning.make_plan

    seen = threading.Event()

    def slow(*arguments: Any) -> Any:
        assert seen.wait(30)
        time.sleep(0.3)  # meanwhile the service begins to stop
        return real(*arguments)

    monkeypatch.setattr(planning, "make_plan", slow)
    with running_hive(HiveSettings(str(warehouse))) as serving:
        client = client_of(serving.port)
        client._oprot.write_message_begin("splits", 1, 5)
        client._oprot.write_struct(T.HudiCatalog.splits_args(request(warehouse), None))
        client._oprot.write_message_end()
        client._oprot.trans.flush()
        until(serving.busy)
        seen.set()
    assert client._iprot.read_message_begin()[0] == "splits"
    client.close()


def lines(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["serve", "hive", "absent", "--print-hive-site", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_to_put_into_hive_site() -> None:
    properties = lines("--host", "a&b", "--port", "7", "--tls-certificate", "x", "--secret-file", "y")
    site = ET.fromstring(f"<configuration>{properties}</configuration>")
    values = {one.findtext("name"): one.findtext("value") for one in site.iter("property")}
    assert values == {"hoodie.catalog.hive.service": "a&b:7", "hoodie.catalog.hive.tls": "true"}
    assert "hoodie.catalog.hive.tls.ca" in properties
    assert "hoodie.catalog.hive.secret.file" in properties
    assert "secret" not in lines()
    assert "0.0.0.0" not in lines("--host", "0.0.0.0")
    assert "<value>[::1]:9790</value>" in lines("--host", "::1")


def test_wrong_usage_is_one_clear_error(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["serve", "hive", str(warehouse), "--port", "0", "--http-port", "0"]
    for more, message in (
        (["-o", "hoodie.catalog.hive.split.siz=1"], "did you mean hoodie.catalog.hive.split.size"),
        (["-o", "hoodie.catalog.hive.locations=here"], "write ours=theirs"),
        (["-o", "hoodie.catalog.trino.split.size=1"], "no such option here"),
        (["--secret-file", "absent"], "secret file absent"),
    ):
        with pytest.raises(OptionError, match=message):
            CliRunner().invoke(app, [*arguments, *more], catch_exceptions=False)
    with pytest.raises(TableNotFoundError, match="there is no such folder"):
        CliRunner().invoke(app, ["serve", "hive", f"{warehouse}/absent"], catch_exceptions=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HudiError, match=r"needs .*: pip install 'hudi-catalog\[services\]'"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_copy_that_takes_long_does_not_delay_the_stop(warehouse: Path) -> None:
    begun, ended = threading.Event(), threading.Event()
    with running_hive(HiveSettings(warehouse=str(warehouse))) as serving:
        copies = serving.service._planner._files._copies
        copies._makers.submit(lambda: (begun.set(), ended.wait(60)))
        assert begun.wait(10)
        serving.stop, stop = lambda _: stop(0.1), serving.stop  # type: ignore[method-assign]
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert not copies.close(0)
    ended.set()
    until(lambda: copies.close(0))
