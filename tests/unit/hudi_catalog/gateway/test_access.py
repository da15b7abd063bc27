"""The shared secret, and TLS on both sides."""

import json
import socket
import ssl
from pathlib import Path

import pytest

from hudi_catalog.server.security import Secret
from tests.support.certificates import client_side, self_signed, server_side
from tests.support.gateway_hosting import (
    Request,
    Upper,
    answer,
    connected,
    exchange,
    gateway,
    get,
    post,
    read_all,
    recording,
    result,
)

SECRET = "a secret of some length, with = and % and é"
QUOTED = "a+secret+of+some+length%2C+with+%3D+and+%25+and+%C3%A9"
SLUG = "yaa720ef845ba26760a2b78718a423116fd80db7f"


def secret() -> Secret:
    return Secret(SECRET.encode())


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([f"hudi-catalog-secret={QUOTED}"], []),
        ([f"a=b, hudi-catalog-secret={QUOTED} ,c=d%2C"], ["a=b,c=d%2C"]),
        (["a=b", f"hudi-catalog-secret={QUOTED}"], ["a=b"]),
    ],
)
def test_a_client_with_the_secret_may_and_trino_does_not_see_it(lines: list[str], left: list[str]) -> None:
    with recording(answer(result())) as trino, gateway(trino.port, Upper(), secret=secret()) as hosted:
        headers = [f"X-Trino-Extra-Credential: {line}" for line in lines]
        assert b" 200 " in exchange(hosted.port, post("select 1", *headers))
    assert trino.requests[0].all("x-trino-extra-credential") == left
    assert not any(b"secret" in value for _, value in trino.requests[0].headers)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "missing"),
        (["a=b"], "missing"),
        (["hudi-catalog-secret"], "missing"),
        (["hudi-catalog-secret="], "is not the one"),
        (["hudi-catalog-secret=wrong"], "is not the one"),
        ([f"hudi-catalog-secret={QUOTED}", "hudi-catalog-secret=wrong"], "is not the one"),
        ([f"Hudi-Catalog-Secret={QUOTED}"], "missing"),
    ],
)
def test_a_client_without_the_secret_is_refused(lines: list[str], says: str) -> None:
    rewriter = Upper()
    with recording(answer(result())) as trino, gateway(trino.port, rewriter, secret=secret()) as hosted:
        headers = [f"X-Trino-Extra-Credential: {line}" for line in lines]
        raw = exchange(hosted.port, post("select 1", *headers))
    assert raw.startswith(b"HTTP/1.1 401 ")
    message = json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert says in message
    assert "--extra-credential" in message
    assert (trino.requests, rewriter.asked) == ([], [])


@pytest.mark.parametrize(
    ("path", "may"),
    [
        (f"/v1/statement/queued/20261121_165744_00038_xx6fn/{SLUG}/1", True),
        (f"/v1/statement/executing/20261121_165744_00038_xx6fn/{SLUG}/0", True),
        (f"/v1/statement/executing/partialCancel/20261121_165744_00038_xx6fn/1/{SLUG}/1", True),
        ("/v1/spooled/download/AbCdEf0123456789-_=", True),
        ("/v1/spooled/ack/AbCdEf0123456789-_%3D", True),
        ("/v1/info", True),
        ("/v1/info/state", True),
        ("/oauth2/token/abc", True),
        ("/v1/statement/queued/../../query/20261121_165744_00038_xx6fn/aaaaaaaaaaaaaaaaaaaaaaaa/1", False),
        ("/v1/statement/queued/%2e%2e/%2e%2e/query/aaaaaaaaaaaaaaaaaaaaaaaaaaa/1", False),
        (f"/v1/statement/queued/q;x=/{SLUG}/1", False),
        (f"/v1/statement/queued/q/{SLUG}/1/../../../../../query", False),
        ("/v1/spooled/../query", False),
        ("/oauth2/../v1/query", False),
        ("/v1/info/../query", False),
        ("/v1/query", False),
        ("/v1/query/20261121_165744_00038_xx6fn", False),
        ("/v1/node", False),
        ("/ui/", False),
        ("/", False),
    ],
)
def test_which_paths_need_the_secret(path: str, may: bool) -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port, secret=secret()) as hosted:
        raw = exchange(hosted.port, get(path))
        assert raw.startswith(b"HTTP/1.1 200 " if may else b"HTTP/1.1 401 ")
        assert len(trino.requests) == may
        named = exchange(hosted.port, get(path, f"X-Trino-Extra-Credential: hudi-catalog-secret={QUOTED}"))
        assert named.startswith(b"HTTP/1.1 200 ")


def test_without_a_secret_credentials_pass() -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port) as hosted:
        exchange(hosted.port, get("/x", "X-Trino-Extra-Credential: a=b,c=d"))
    assert trino.requests[0].all("x-trino-extra-credential") == ["a=b,c=d"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


def secure_exchange(port: int, request: bytes, context: ssl.SSLContext) -> bytes:
    with context.wrap_socket(connected(port), server_hostname="localhost") as connection:
        connection.sendall(request)
        return read_all(connection)


def uris(raw: bytes) -> list[str]:
    members = json.loads(raw.partition(b"\r\n\r\n")[2])
    return [members["infoUri"], members["nextUri"]]


def trino_builds_uris(scheme: str):
    def reply(request: Request) -> bytes:
        start = f"{scheme}://{request.one('host')}"
        return answer(
            result(following=f"{start}/v1/statement/queued/q/s/1").replace(b"http://trino", start.encode()),
            "Content-Type: application/json",
            f"Location: {start}/ui/login.html",
            f'WWW-Authenticate: Bearer x_redirect_server="{start}/oauth2/a", x_token_server="{start}/oauth2/b"',
        )

    return reply


def test_clients_with_tls_get_uris_that_lead_back(certificate: Path) -> None:
    with recording(trino_builds_uris("http")) as trino, gateway(trino.port, tls=server_side(certificate)) as hosted:
        raw = secure_exchange(hosted.port, post("select 1"), client_side(certificate))
    assert uris(raw) == [
        "https://gate:1/ui/query.html?20261121_000000_00001_aaaaa",
        "https://gate:1/v1/statement/queued/q/s/1",
    ]
    assert b"Location: https://gate:1/ui/login.html\r\n" in raw
    assert b'Bearer x_redirect_server="https://gate:1/oauth2/a", x_token_server="https://gate:1/oauth2/b"\r\n' in raw


def test_a_client_without_tls_is_not_served_by_a_gateway_with_it(certificate: Path) -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port, tls=server_side(certificate)) as hosted:
        try:
            raw = exchange(hosted.port, get("/x"))
        except ConnectionResetError:
            raw = b""
        assert raw == b""
        assert b" 200 " in secure_exchange(hosted.port, get("/x"), client_side(certificate))
    assert len(trino.requests) == 1


@pytest.fixture
def secure_trino(certificate: Path):
    with recording(trino_builds_uris("https")) as trino:
        assert trino.listener is not None
        plain = trino.listener.accept
        context = server_side(certificate)

        class Listener:
            def accept(self):
                connection, address = plain()
                try:
                    return context.wrap_socket(connection, server_side=True), address
                except OSError:
                    return socket.socketpair()[0], address

        old, trino.listener = trino.listener, Listener()  # type: ignore[assignment]
        # The thread took the listener already for its first connection: that one is made and dropped.
        connected(trino.port).close()
        yield trino
        trino.listener = old


def test_trino_with_tls_is_called_by_its_own_name(certificate: Path, secure_trino) -> None:
    settings = {"upstream_tls": client_side(certificate)}
    with gateway(f"https://localhost:{secure_trino.port}", Upper(), **settings) as hosted:
        raw = exchange(hosted.port, post("select 1"))
    assert uris(raw)[1] == "http://gate:1/v1/statement/queued/q/s/1"
    assert secure_trino.requests[-1].one("host") == f"localhost:{secure_trino.port}"
    assert secure_trino.requests[-1].body == b"SELECT 1"


def test_trino_with_a_certificate_of_nobody_is_refused(secure_trino) -> None:
    with gateway(f"https://localhost:{secure_trino.port}") as hosted:
        raw = exchange(hosted.port, post("select 1"))
    assert raw.startswith(b"HTTP/1.1 502 ")
    assert b"certificate" in raw
    assert [request for request in secure_trino.requests if request.body] == []
