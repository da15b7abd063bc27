"""Warnings for unsecured endpoints, and access to the status port."""

import asyncio
import base64
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.gateway.serve import GatewaySettings, ServingGateway
from hudi_catalog.hive.serve import HiveSettings, ServingHive
from hudi_catalog.server.endpoints import StatusGuard, is_loopback
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret, TlsFiles, client_context
from hudi_catalog.server.status import StatusServer
from hudi_catalog.trino.serve import ServingTrino, TrinoSettings
from tests.support.certificates import Authority
from tests.support.command import Command

ALL = "0.0.0.0"
VALUE = "a secret that is long enough, ä"
SECRET = Secret(VALUE.encode())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def files(authority: Authority) -> TlsFiles:
    own = authority.sign("localhost")
    return TlsFiles(own.certificate, own.key)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", [ALL, "", "::", "10.0.0.1", "203.0.113.5", "no.such.host.invalid"])
def test_beyond_loopback(host: str) -> None:
    assert not is_loopback(host)


@contextmanager
def status(guard: StatusGuard, host: str = "127.0.0.1") -> Iterator[Callable[..., tuple[int, str]]]:
    server = StatusServer("trino", Metrics(), QueryLog(), checks={"warehouse": lambda: None}, host=host, guard=guard)

    class Beside:
        drain_seconds = 0.0
        port = 0

        async def start(self) -> None:
            self.port = await server.start()

        def set_ready(self, ready: bool, /) -> None:
            server.ready = ready

        def busy(self) -> bool:
            return False

        async def stop(self, _seconds: float, /) -> None:
            await server.stop()

        def reopen_log(self) -> None:
            pass

    beside = Beside()

    def get(path: str, tls: ssl.SSLContext | None = None, authorization: str | None = None) -> tuple[int, str]:
        address = f"{server.scheme}://localhost:{beside.port}{path}"
        asked = urllib.request.Request(address, headers={"Authorization": authorization} if authorization else {})
        try:
            with urllib.request.urlopen(asked, timeout=10, context=tls) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    with hosted(beside):
        yield get


def basic(value: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{value}".encode()).decode()


def test_on_loopback_the_status_port_asks_nobody(files: TlsFiles) -> None:
    guard = StatusGuard.of("127.0.0.1", files, SECRET)
    assert guard == StatusGuard()
    with status(guard) as get:
        assert {get(path)[0] for path in ("/", "/metrics", "/health", "/ready")} == {200}
        assert "warehouse" in get("/ready")[1]


def test_elsewhere_it_asks_for_the_secret_of_the_service() -> None:
    with status(StatusGuard.of(ALL, None, SECRET)) as get:
        for wrong in (None, "Bearer wrong", basic("wrong"), "Basic %", "Digest x", f"Bearer {VALUE[:-1]}", VALUE):
            assert [get(path, None, wrong)[0] for path in ("/", "/metrics")] == [401, 401], wrong
        assert get("/metrics", None, f"Bearer {VALUE}".encode().decode("latin-1"))[0] == 200
        assert get("/", None, basic(VALUE))[0] == 200
        # probes know no secret, and see no details
        assert get("/health")[0] == 200
        assert [get("/ready")[0], json.loads(get("/ready")[1])] == [200, {"service": "trino", "ready": True}]
        assert "warehouse" in get("/ready", None, basic(VALUE))[1]


def test_elsewhere_it_asks_for_the_certificates_of_the_service(authority: Authority, files: TlsFiles) -> None:
    guard = StatusGuard.of(ALL, TlsFiles(files.certificate, files.key, authority.certificate), None)
    known, stranger = authority.sign("prometheus"), client_context(ca=authority.certificate)
    with status(guard) as get:
        trusted = client_context(ca=authority.certificate, certificate=known.certificate, key=known.key)
        assert [get(path, trusted)[0] for path in ("/", "/metrics", "/ready", "/health")] == [200] * 4
        assert [get(path, stranger)[0] for path in ("/", "/metrics", "/ready", "/health")] == [403, 403, 200, 200]
        assert "warehouse" not in get("/ready", stranger)[1]


def warnings(service: Any) -> list[str]:
    async def run() -> tuple[str, ...]:
        await service.start()
        await service.stop(0)
        return service.warnings  # type: ignore[no-any-return]

    messages = asyncio.run(run())
    assert [record["message"] for record in reversed(service.log.recent())] == list(messages)
    return [re.sub(r":\d+ has", " has", warning) for warning in messages]


def test_every_door_that_stands_open_has_a_line(tmp_path: Path, authority: Authority, files: TlsFiles) -> None:
    lake = str(tmp_path)
    closed = TlsFiles(files.certificate, files.key, authority.certificate)
    for service, settings in ((ServingTrino, TrinoSettings), (ServingHive, HiveSettings)):
        assert warnings(service(settings(lake))) == []  # type: ignore[arg-type]
        assert warnings(service(settings(lake, host=ALL, http_host=ALL, tls=closed))) == []  # type: ignore[arg-type]
        own, page = warnings(service(settings(lake, host=ALL, http_host=ALL)))  # type: ignore[arg-type]
        assert re.match(
            r"open door: the service for (Trino|Hive) at 0\.0\.0\.0 has no TLS: .*, and no client authentication", own
        )
        assert page.startswith("open door: the status page at 0.0.0.0 has no TLS: ")
    # a secret signs Trino's split ids, and lets nobody in; Hive's lets in those who know it
    (own,) = warnings(ServingTrino(TrinoSettings(lake, host=ALL, http_host=ALL, tls=files, secret=SECRET)))
    assert "no TLS" not in own
    assert "reads all tables" in own
    assert "--tls-client-ca" in own
    assert warnings(ServingHive(HiveSettings(lake, host=ALL, http_host=ALL, tls=files, secret=SECRET))) == []


def test_the_gateway_names_open_metastores_too(tmp_path: Path, files: TlsFiles) -> None:
    trino, hive = "http://127.0.0.1:9", "thrift://127.0.0.1:9,thrift://192.0.2.1:9"
    rules = {"hoodie.catalog.gateway.trino.rules": "none"}
    assert warnings(ServingGateway(GatewaySettings(trino, str(tmp_path), options=rules))) == []
    own, store = warnings(ServingGateway(GatewaySettings(trino, hive, host=ALL, options=rules)))
    assert own.startswith("open door: the gateway at 0.0.0.0 has no TLS: ")
    assert store.startswith("open door: the metastore at 192.0.2.1 has no TLS: ")
    password = tmp_path / "password"
    password.write_text("of the metastore")
    password.chmod(0o600)
    known = {
        **rules,
        "hoodie.catalog.metastore.auth": "LDAP",
        "hoodie.catalog.metastore.username": "ann",
        "hoodie.catalog.metastore.password.file": str(password),
        "hoodie.catalog.metastore.tls": "true",
    }
    settings = GatewaySettings(trino, hive, host=ALL, tls=files, secret=SECRET, options=known)
    assert warnings(ServingGateway(settings)) == []


@pytest.mark.slow
def test_the_command_says_it_on_the_terminal(tmp_path: Path, start: Callable[..., Command]) -> None:
    serving = start("serve", "trino", str(tmp_path), "--host", ALL, "--port", "0", "--http-port", "0")
    (line,) = [line for line in serving.lines if "open door" in line]
    assert f"the service for Trino at {ALL}:{serving.port} has no TLS" in line
    assert "status at http://127.0.0.1:" in serving.text  # the page stays on loopback unless told otherwise
    serving.process.terminate()
    code, stdout = serving.end()
    assert (code, json.loads(stdout)["event"]) == (0, "open door")
