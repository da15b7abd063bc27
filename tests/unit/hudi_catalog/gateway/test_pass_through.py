"""What is not a statement, and what the rewriter leaves alone, passes byte for byte."""

import gzip
import http.client
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
)

LINES = [
    "X-Trino-User: alice",
    "X-Trino-Session: hive.a=1%2C2,b=c",
    "X-Trino-Session: second=line",
    "Authorization: Basic YWxpY2U6c2VjcmV0",
    "Cookie: a=1; b=2",
    "Accept-Encoding: gzip, zstd;q=0.5",
    "User-Agent: any/1 (thing)",
    "X-Presto-Something: \u00e9",
]


def split(raw: bytes) -> tuple[str, list[str], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    return status, lines, body


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"{}", "Content-Type: application/json"),
        answer(b"no type, no date"),
        answer(b"", "X-Trino-Set-Catalog: hive", "X-Trino-Added-Prepare: a=select+1", "X-Trino-Added-Prepare: b=x"),
        answer(gzip.compress(b"rows" * 1000), "Content-Encoding: gzip", "Vary: Accept-Encoding"),
        answer(b"moved", "Location: http://gate:1/ui/login.html", status="303 See Other"),
        answer(b"", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2; HttpOnly", "Server: Jetty", "Date: yesterday"),
        answer(b"who?", 'WWW-Authenticate: Basic realm="x"', "WWW-Authenticate: Bearer", status="401 Unauthorized"),
        answer(b"too much", "Retry-After: 3", status="429 Slow Down Please"),
        answer(b"oh", status="500 Internal Server Error"),
        answer(b"odd", status="599 Nobody Knows"),
        answer(b"\x00\xff" * 300_000, "Content-Type: application/octet-stream"),
    ],
)
def test_an_answer_reaches_the_client_as_it_is(reply: bytes) -> None:
    with recording(reply) as trino, gateway(trino.port) as hosted:
        got = split(exchange(hosted.port, get("/v1/anything", *LINES)))
    status, lines, body = split(reply)
    assert got == (status, [*lines, "Connection: close"], body)


def test_a_request_reaches_trino_as_it_is() -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port, Upper()) as hosted:
        exchange(hosted.port, get("/ui/%7Ea//b;c=d?x=%2F&y=a+b&z", *LINES, method="PUT"))
    (request,) = trino.requests
    assert request.line == "PUT /ui/%7Ea//b;c=d?x=%2F&y=a+b&z HTTP/1.1"
    sent = [(name.decode(), value.decode()) for name, value in request.headers]
    assert sent[0] == ("Host", "gate:1")
    assert [f"{name}: {value}" for name, value in sent[1 : 1 + len(LINES)]] == LINES
    # aiohttp frames the empty body of a PUT; nothing else is added.
    assert sent[1 + len(LINES) :] in ([], [("Content-Length", "0")])


def test_lines_of_one_name_in_several_spellings_all_pass() -> None:
    lines = ["x-trino-session: a=1", "X-Trino-Session: b=2", "X-TRINO-SESSION: c=3", "X-Trino-session: d=4"]
    with recording(answer(b"ok")) as trino, gateway(trino.port) as hosted:
        exchange(hosted.port, get("/x", *lines))
    assert trino.requests[0].all("x-trino-session") == ["a=1", "b=2", "c=3", "d=4"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "PATCH", "PUT", "POST"])
def test_every_method_passes(method: str) -> None:
    with recording(answer(b"" if method == "HEAD" else b"x")) as trino, gateway(trino.port) as hosted:
        exchange(hosted.port, get("/v1/query/1", method=method))
    assert [request.line for request in trino.requests] == [f"{method} /v1/query/1 HTTP/1.1"]


def test_the_length_of_a_body_that_is_not_sent_passes() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"
    with recording(head) as trino, gateway(trino.port) as hosted:
        status, lines, body = split(exchange(hosted.port, get("/v1/spooled/x", method="HEAD")))
    assert (status, body) == ("HTTP/1.1 200 OK", b"")
    assert "Content-Length: 12345" in lines


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_an_answer_without_a_body_passes(status: str) -> None:
    with recording(f"HTTP/1.1 {status}\r\nETag: a\r\n\r\n".encode()) as trino, gateway(trino.port) as hosted:
        got, lines, body = split(exchange(hosted.port, get("/x")))
    assert (got, lines, body) == (f"HTTP/1.1 {status}", ["ETag: a", "Connection: close"], b"")


def test_a_chunked_answer_passes_while_it_comes() -> None:
    def slowly(connection: socket.socket, _: Request) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        more.recv(1)
        connection.sendall(b"2\r\nde\r\n0\r\n\r\n")

    go, more = socket.socketpair()
    with go, more, recording(lambda _: slowly) as trino, gateway(trino.port) as hosted:
        connection = http.client.HTTPConnection("127.0.0.1", hosted.port, timeout=10)
        connection.request("GET", "/v1/statement/executing/q/slugslugslugslug/1")
        response = connection.getresponse()
        assert response.read(3) == b"abc"  # although the rest has not been sent
        go.send(b"x")
        assert response.read() == b"de"
        connection.close()


def test_lines_of_one_connection_stay_there() -> None:
    own = ["Connection: keep-alive, X-Mine", "Keep-Alive: timeout=5", "X-Mine: 1", "TE: trailers", "Upgrade: h2c"]
    reply = answer(b"ok", "Connection: close, X-Theirs", "X-Theirs: 2", "X-All: 3")
    raw = b"GET /x HTTP/1.1\r\nHost: a\r\n" + "\r\n".join([*own, "X-Kept: 1", "", ""]).encode()
    with recording(reply) as trino, gateway(trino.port) as hosted, connected(hosted.port) as connection:
        connection.sendall(raw)
        got = connection.recv(65_536)
    assert [name for name, _ in trino.requests[0].headers] == [b"Host", b"X-Kept"]
    assert b"X-All: 3" in got
    assert b"X-Theirs" not in got


def test_bodies_of_requests_pass_with_their_framing() -> None:
    chunked = b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with recording(answer(b"ok")) as trino, gateway(trino.port) as hosted:
        exchange(hosted.port, chunked + b"5\r\nhello\r\n0\r\n\r\n")
        exchange(hosted.port, post(b"\x00\xff" * 1000, "Content-Encoding: gzip", path="/v1/other"))
    first, second = trino.requests
    assert (first.body, first.one("transfer-encoding")) == (b"hello", "chunked")
    assert (second.body, second.one("content-length")) == (b"\x00\xff" * 1000, "2000")
    assert second.one("content-encoding") == "gzip"


def test_expect_continue_is_answered_by_the_gateway() -> None:
    head = b"POST /v1/statement HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 8\r\n"
    with recording(answer(b"ok")) as trino, gateway(trino.port) as hosted, connected(hosted.port) as connection:
        connection.sendall(head + b"Connection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"select 1")
        assert read_all(connection).endswith(b"ok")
    assert trino.requests[0].body == b"select 1"
    assert trino.requests[0].all("expect") == []


LATIN = b"X-Trino-User: zo\xeb\r\nX-Trino-User: \xc3\xab\r\n"


def latin(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: gate:1\r\n".encode() + LATIN + b"Accept-Encoding: gzip\r\n"
    return head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


def test_header_bytes_that_are_no_utf_8_pass() -> None:
    with recording(answer(b"rows" * 100_000, "X-A: 1", "X-A: 2")) as trino, gateway(trino.port, Upper()) as hosted:
        raw = exchange(hosted.port, latin("POST", "/v1/statement?a=b", "select 'é'".encode()))
        exchange(hosted.port, latin("PUT", "/x", b"abc"))
    assert split(raw) == (
        "HTTP/1.1 200 OK",
        ["X-A: 1", "X-A: 2", "Content-Length: 400000", "Connection: close"],
        b"rows" * 100_000,
    )
    first, second = trino.requests
    assert first.line == "POST /v1/statement?a=b HTTP/1.1"
    assert first.body.decode() == "SELECT 'É'"
    assert second.body == b"abc"
    for request, size in ((first, b"11"), (second, b"3")):
        assert request.headers == [
            (b"Host", b"gate:1"),
            (b"X-Trino-User", b"zo\xeb"),
            (b"X-Trino-User", b"\xc3\xab"),
            (b"Accept-Encoding", b"gzip"),
            (b"Content-Length", size),
        ]


@pytest.mark.parametrize(
    "reply",
    [
        "HTTP/1.1 200 OK\r\nX-Trino-Set-Schema: zo\xeb\r\nX-A: 1\r\nContent-Length: 4\r\n\r\nrows",
        "HTTP/1.1 204 No Content\r\nX-Trino-Set-Schema: zo\xeb\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nX-Trino-Set-Schema: zo\xeb\r\nContent-Length: 5000000\r\n\r\n{'x' * 5_000_000}",
    ],
)
def test_header_bytes_of_an_answer_that_are_no_utf_8_pass(caplog: pytest.LogCaptureFixture, reply: str) -> None:
    raw = reply.encode("latin-1")
    with recording(raw) as trino, gateway(trino.port) as hosted:
        response = exchange(hosted.port, get("/v1/statement/executing/q/slug/1"))
        assert b" 200 " in exchange(hosted.port, get("/x")) or b" 204 " in response
    head, _, body = raw.partition(b"\r\n\r\n")
    assert response == head + b"\r\nConnection: close\r\n\r\n" + body
    assert not [record for record in caplog.records if record.levelno >= 30]


def test_a_chunked_answer_with_odd_header_bytes_passes() -> None:
    raw = b"HTTP/1.1 200 OK\r\nX-A: \xeb\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nrows\r\n0\r\n\r\n"
    with recording(raw) as trino, gateway(trino.port) as hosted:
        response = exchange(hosted.port, get("/x"))
    assert response == b"HTTP/1.1 200 OK\r\nX-A: \xeb\r\nConnection: close\r\n\r\nrows"


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True).map(lambda name: f"X-{name}")
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x2FFF, blacklist_characters="\x7f"), max_size=40)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(st.tuples(NAMES, VALUES), max_size=12), body=st.binary(max_size=3000), kept=st.booleans())
def test_any_header_and_body_passes_both_ways(lines: list[tuple[str, str]], body: bytes, kept: bool) -> None:
    # White space around a value is not part of it, and other control letters are in no header line.
    first = {name.lower(): name for name, _ in reversed(lines)}
    clean = [(first[name.lower()], "".join(c for c in value if c.isprintable()).strip()) for name, value in lines]
    trino, hosted = SERVERS[0], SERVERS[1]
    head = "".join(f"{name}: {value}\r\n" for name, value in clean).encode()
    trino.requests.clear()
    trino.reply = lambda _: b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    ending = b"" if kept else b"Connection: close\r\n"
    sent = b"POST /v1/a HTTP/1.1\r\nHost: h\r\n" + head + b"Content-Length: %d\r\n" % len(body) + ending
    with connected(hosted.port) as connection:
        connection.sendall(sent + b"\r\n" + body)
        received = b""
        while not received.endswith(b"\r\n\r\n" + body) or len(received) < len(body) + len(head):
            received += connection.recv(65_536)
    expected = b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: %d\r\n" % len(body)
    assert received.removesuffix(b"\r\n" + body).removesuffix(b"Connection: close\r\n") == expected
    (request,) = trino.requests
    assert request.body == body
    assert request.headers == [
        (b"Host", b"h"),
        *((name.encode(), value.encode()) for name, value in clean),
        (b"Content-Length", str(len(body)).encode()),
    ]


SERVERS: list = []


@pytest.fixture(scope="module", autouse=True)
def servers():
    with recording(answer(b"")) as trino, gateway(trino.port) as hosted:
        SERVERS[:] = [trino, hosted]
        yield
        SERVERS.clear()
