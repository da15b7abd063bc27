"""What goes wrong on either side ends in a clear answer or a visibly broken one, never in a hang or fewer rows."""

import json
import logging
import os
import random
import socket
import struct
import threading
import time

import psutil
import pytest

from hudi_catalog.server.metrics import Metrics
from table_format.errors import ServiceError
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
from tests.support.waiting import until
from tools.engines.process import free_port


def body_of(raw: bytes) -> dict:
    return json.loads(raw.partition(b"\r\n\r\n")[2])


def hang(_connection: socket.socket, _: Request) -> None:
    time.sleep(30)


def test_trino_that_is_not_there_is_named() -> None:
    port = free_port()
    with gateway(port) as hosted:
        raw = exchange(hosted.port, post("select 1"))
    assert raw.startswith(b"HTTP/1.1 502 ")
    message = body_of(raw)["error"]["message"]
    assert f"http://127.0.0.1:{port}" in message
    assert "refused" in message.lower()


def test_trino_that_does_not_answer_in_time() -> None:
    with recording(lambda _: hang) as trino, gateway(trino.port, answer_timeout=0.3) as hosted:
        raw = exchange(hosted.port, get("/v1/statement/executing/q/slug/1"))
        assert raw.startswith(b"HTTP/1.1 504 ")
        assert "did not answer in time" in body_of(raw)["error"]["message"]
        until(lambda: trino.opened == 1)


def test_trino_that_closes_without_an_answer() -> None:
    def close(connection: socket.socket, _: Request) -> None:
        connection.shutdown(socket.SHUT_RDWR)

    with recording(lambda _: close) as trino, gateway(trino.port) as hosted:
        raw = exchange(hosted.port, get("/v1/query"))
        assert raw.startswith(b"HTTP/1.1 502 ")
        assert len(trino.requests) in {1, 2}  # newer releases of aiohttp ask once more what changes nothing


@pytest.mark.parametrize("garbage", [b"\x00\xff\xfe" * 50, b"HTTP/9.9 abc\r\n\r\n", b"SSH-2.0-OpenSSH\r\n"])
def test_trino_that_speaks_something_else(garbage: bytes) -> None:
    def speak(connection: socket.socket, _: Request) -> None:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_RDWR)

    with recording(lambda _: speak) as trino, gateway(trino.port) as hosted:
        assert exchange(hosted.port, get("/v1/query")).startswith(b"HTTP/1.1 502 ")


LATIN = b"GET /x HTTP/1.1\r\nHost: a\r\nX-Trino-User: \xeb\r\nConnection: close\r\n\r\n"
PLAIN = b"GET /x HTTP/1.1\r\nHost: a\r\nX-Trino-User: e\r\nConnection: close\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabcde"


def breaking(start: bytes, *, reset: bool):
    def reply(connection: socket.socket, _: Request) -> None:
        connection.sendall(start)
        time.sleep(0.1)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(connection.detach())  # whatever file still refers to it
        else:
            connection.shutdown(socket.SHUT_RDWR)

    return reply


def ending(port: int, request: bytes) -> tuple[bytes, bool]:
    """What a client gets, and whether it was reset."""
    received = b""
    with connected(port) as connection:
        connection.sendall(request)
        try:
            while chunk := connection.recv(65_536):
                received += chunk
        except ConnectionResetError:
            return received, True
    return received, False


@pytest.mark.parametrize("request_bytes", [PLAIN, LATIN])
@pytest.mark.parametrize("start", [CHUNKED, COUNTED, CHUNKED.replace(b"Transfer", b"X-A: \xeb\r\nTransfer")])
@pytest.mark.parametrize("reset", [True, False])
def test_an_answer_that_breaks_off_breaks_off_for_the_client(start: bytes, reset: bool, request_bytes: bytes) -> None:
    with recording(lambda _: breaking(start, reset=reset)) as trino, gateway(trino.port) as hosted:
        received, was_reset = ending(hosted.port, request_bytes)
    assert was_reset
    assert not received.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("request_bytes", [PLAIN, LATIN])
def test_an_answer_that_stops_in_the_middle_breaks_off_for_the_client(request_bytes: bytes) -> None:
    def stop(connection: socket.socket, _: Request) -> None:
        connection.sendall(CHUNKED)
        time.sleep(30)

    with recording(lambda _: stop) as trino, gateway(trino.port, answer_timeout=0.3) as hosted:
        received, was_reset = ending(hosted.port, request_bytes)
    assert was_reset
    assert not received.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(("reply", "status", "seconds"), [(hang, b"504", 0.3), (None, b"502", 20.0)])
def test_trino_that_fails_a_request_with_odd_headers(reply, status: bytes, seconds: float) -> None:
    def close(connection: socket.socket, _: Request) -> None:
        connection.shutdown(socket.SHUT_RDWR)

    with recording(lambda _: reply or close) as trino, gateway(trino.port, answer_timeout=seconds) as hosted:
        assert exchange(hosted.port, LATIN).startswith(b"HTTP/1.1 " + status)
    with gateway(free_port()) as hosted:
        assert exchange(hosted.port, LATIN).startswith(b"HTTP/1.1 502")


@pytest.mark.parametrize("request_bytes", [PLAIN, LATIN])
def test_a_client_that_leaves_releases_its_connection_to_trino(
    caplog: pytest.LogCaptureFixture, request_bytes: bytes
) -> None:
    def wait(connection: socket.socket, _: Request) -> None:
        connection.settimeout(10)
        connection.recv(1)  # ends when the gateway closes

    caplog.set_level(logging.INFO)
    metrics = Metrics()
    with recording(lambda _: wait) as trino, gateway(trino.port, metrics=metrics) as hosted:
        with connected(hosted.port) as connection:
            connection.sendall(request_bytes)
            until(lambda: len(trino.requests) == 1)
        until(lambda: trino.closed == 1)
        until(lambda: not hosted.proxy.busy())
    assert b'outcome="client gone"' in metrics.text()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_client_that_leaves_in_the_middle_of_rows_stops_them(caplog: pytest.LogCaptureFixture) -> None:
    def rows(connection: socket.socket, _: Request) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _chunk in range(100_000):
            connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")

    with recording(lambda _: rows) as trino, gateway(trino.port) as hosted:
        with connected(hosted.port) as connection:
            connection.sendall(get("/x"))
            connection.recv(1000)
        until(lambda: trino.closed == 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_client_that_does_not_read_does_not_fill_the_memory() -> None:
    sent = []

    def rows(connection: socket.socket, _: Request) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while len(sent) < 3000:
            connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            sent.append(1)

    with recording(lambda _: rows) as trino, gateway(trino.port) as hosted, connected(hosted.port) as connection:
        connection.sendall(get("/x"))
        until(lambda: len(sent) > 10)

        def stuck() -> bool:
            before = len(sent)
            time.sleep(0.5)
            return len(sent) == before

        until(stuck)
        assert len(sent) < 1000  # of 65 kB: what the sockets of both sides hold


def test_a_statement_whose_kept_connection_trino_closed_is_sent_again() -> None:
    seen: list[int] = []

    def close_after(connection: socket.socket, request: Request) -> None:
        seen.append(1)
        if len(seen) == 2:
            connection.shutdown(socket.SHUT_RDWR)  # just as the second statement arrives on the kept connection
        else:
            connection.sendall(answer(result()))

    with recording(lambda _: close_after) as trino, gateway(trino.port, Upper()) as hosted:
        assert b" 200 " in exchange(hosted.port, post("select 1"))
        assert b" 200 " in exchange(hosted.port, post("select 2"))
    assert [request.body for request in trino.requests] == [b"SELECT 1", b"SELECT 2", b"SELECT 2"]


def test_other_posts_are_not_sent_again() -> None:
    def close(connection: socket.socket, _: Request) -> None:
        connection.shutdown(socket.SHUT_RDWR)

    with recording(lambda _: close) as trino, gateway(trino.port) as hosted:
        assert b" 502 " in exchange(hosted.port, post("x", path="/v1/other"))
    assert len(trino.requests) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 100 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(100) + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\n: no name\r\n\r\n",
        b"POST /v1/statement HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ],
)
def test_garbage_is_refused(garbage: bytes) -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port, Upper()) as hosted:
        with connected(hosted.port) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection)[:12] in {b"HTTP/1.1 400", b"HTTP/1.0 400", b""}
        assert b" 200 " in exchange(hosted.port, get("/x"))
    assert [request.line for request in trino.requests] == ["GET /x HTTP/1.1"]


@pytest.mark.parametrize("line", [b"CONNECT elsewhere:443", b"GET http://elsewhere/", b"OPTIONS *"])
def test_the_gateway_is_no_forward_proxy(line: bytes) -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port, Upper()) as hosted:
        raw = exchange(hosted.port, line + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert "not a forward proxy" in body_of(raw)["error"]["message"]
    assert trino.requests == []


def test_random_bytes_do_no_harm() -> None:
    chance = random.Random(5)
    with recording(answer(b"ok")) as trino, gateway(trino.port, Upper()) as hosted:
        for _ in range(60):
            with connected(hosted.port) as connection:
                good = post("select 1")
                cut = chance.randrange(len(good))
                connection.sendall(good[:cut] + chance.randbytes(chance.randrange(200)))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert b" 200 " in exchange(hosted.port, get("/x"))


def test_a_header_of_any_size_is_answered() -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port) as hosted:
        assert b" 200 " in exchange(hosted.port, get("/x", "X-Trino-Prepared-Statement: a=" + "x" * 900_000))
        # only just too large: the kernel drops an answer that is sent while more of the request waits to be read
        raw = exchange(hosted.port, get("/x", "X-Trino-Prepared-Statement: a=" + "x" * ((1 << 20) + 1)))
        assert raw.startswith(b"HTTP/1.0 400 ")
    assert len(trino.requests) == 1


def test_large_header_lines_of_trino_pass() -> None:
    reply = answer(b"{}", "X-Trino-Added-Prepare: p=" + "y" * 500_000)
    with recording(reply) as trino, gateway(trino.port) as hosted:
        assert b"y" * 500_000 in exchange(hosted.port, get("/x"))


def test_a_query_is_over_for_a_client_that_leaves_before_the_end_of_its_last_answer_is_written() -> None:
    left = threading.Event()
    last = result()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

    def reply(request: Request):
        if request.line.startswith("POST"):
            return answer(result(following="http://trino/v1/statement/executing/20261121_000000_00001_aaaaa/y/1"))

        def rows(connection: socket.socket, _: Request) -> None:
            connection.sendall(head + b"%x\r\n%s\r\n" % (len(last), last))
            left.wait(10)
            connection.sendall(b"0\r\n\r\n")

        return rows

    with recording(reply) as trino, gateway(trino.port) as hosted:
        exchange(hosted.port, post("select 1"))
        assert hosted.proxy.busy()
        with connected(hosted.port) as connection:
            connection.sendall(get("/v1/statement/executing/20261121_000000_00001_aaaaa/y/1"))
            received = b""
            while last not in received:
                received += connection.recv(65_536)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.2)  # until the gateway has seen that the client has disconnected
        left.set()
        until(lambda: not hosted.proxy.busy())


def test_a_half_closed_client_still_gets_its_answer() -> None:
    def later(connection: socket.socket, _: Request) -> None:
        time.sleep(0.2)
        connection.sendall(answer(b"rows"))

    with recording(lambda _: later) as trino, gateway(trino.port) as hosted, connected(hosted.port) as connection:
        connection.sendall(get("/x"))
        connection.shutdown(socket.SHUT_WR)
        read_all(connection)  # the answer, or its end: the protocol has no use for half a connection
        until(lambda: not hosted.proxy.busy())
        assert len(trino.requests) <= 1


@pytest.mark.slow
def test_a_body_that_never_comes_ends_the_request() -> None:
    head = b"POST /v1/statement HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nselect"
    with recording(answer(b"ok")) as trino, gateway(trino.port, answer_timeout=0.3) as hosted:
        assert exchange(hosted.port, head).startswith(b"HTTP/1.1 408 ")
    assert trino.requests == []


@pytest.mark.parametrize("half", [b"GET /v1/in", b"POST /v1/statement HTTP/1.1\r\nHost: a\r\n", b"G"])
def test_half_a_request_behind_a_whole_one_ends_the_connection(half: bytes) -> None:
    with (
        recording(answer(b"fine")) as trino,
        gateway(trino.port, read_timeout=0.3) as hosted,
        connected(hosted.port) as connection,
    ):
        connection.sendall(b"GET /v1/info HTTP/1.1\r\nHost: a\r\n\r\n" + half)
        assert read_all(connection).endswith(b"fine")
    assert len(trino.requests) == 1


@pytest.mark.slow
def test_half_a_body_that_is_passed_on_ends_the_connection() -> None:
    with (
        recording(answer(b"fine")) as trino,
        gateway(trino.port, answer_timeout=1.5) as hosted,
        connected(hosted.port) as connection,
    ):
        connection.sendall(b"GET /v1/info HTTP/1.1\r\nHost: a\r\n\r\n")
        answered = b""
        while not answered.endswith(b"fine"):
            answered += connection.recv(65_536)
        connection.sendall(b"PUT /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        assert b"fine" not in read_all(connection)


def test_connections_beyond_the_limit_are_closed() -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port, connections=5) as hosted:
        held = [connected(hosted.port) for _ in range(5)]
        with connected(hosted.port) as more:  # accepted after them
            assert more.recv(10) == b""
        held.pop().close()

        def answered() -> bool:
            try:
                return b" 200 " in exchange(hosted.port, get("/x"))
            except OSError:
                return False

        until(answered)  # once the gateway has seen that one has left
        for connection in held:
            connection.close()


@pytest.mark.slow
def test_many_idle_connections_do_not_disturb_queries() -> None:
    with recording(answer(b"ok")) as trino, gateway(trino.port) as hosted:
        before = psutil.Process().memory_info().rss
        idle = [connected(hosted.port) for _ in range(1000)]
        for _ in range(20):
            assert b" 200 " in exchange(hosted.port, get("/x"))
        assert psutil.Process().memory_info().rss - before < 100_000_000
        for connection in idle:
            connection.close()
    assert len(trino.requests) == 20


def test_requests_at_once_are_all_answered() -> None:
    def echo(connection: socket.socket, request: Request) -> None:
        time.sleep(0.01)
        connection.sendall(answer(request.body))

    bad: list[bytes] = []
    with recording(lambda _: echo) as trino, gateway(trino.port, Upper()) as hosted:

        def client(number: int) -> None:
            for turn in range(10):
                raw = exchange(hosted.port, post(f"select {number}, {turn}"))
                if not raw.endswith(f"SELECT {number}, {turn}".encode()):
                    bad.append(raw)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(trino.requests) == 320
    assert bad == []


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=rf"127.0.0.1:{port}: .*in use.*--port"), gateway(1, port=port):
            pass


def test_readiness_asks_trino() -> None:
    info = [b'{"nodeVersion":{"version":"476"},"starting":true}']
    with recording(lambda _: answer(info[0])) as trino, gateway(trino.port) as hosted:
        with pytest.raises(ServiceError, match="still starting"):
            hosted.proxy.check_upstream()
        info[0] = b'{"nodeVersion":{"version":"476"},"starting":false}'
        hosted.proxy.check_upstream()
    with gateway(free_port()) as hosted, pytest.raises(ServiceError, match="refused"):
        hosted.proxy.check_upstream()
