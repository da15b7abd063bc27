"""Clients that leave a request unfinished are dropped after a timeout; others are not. Over raw sockets."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from hudi_catalog.server.hosting import event_loop_thread
from hudi_catalog.server.http_listener import HttpListener

GET = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nse\r\n\r\n"
CHUNKED = b"POST /quick HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nse\r\n0\r\n\r\n"
HALF = b"GET /quick HTTP/1.1\r\nHost:"
READ, SLOWLY, IDLE = 0.8, 1.0, 30.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening(IDLE) as service:
        yield service


@contextmanager
def listening(idle: float, connections: int = 100) -> Iterator[int]:
    async def answer(request: web.Request) -> web.Response:
        listener.request_started(request)
        try:
            await request.read()
            if request.path == "/slow":
                await asyncio.sleep(SLOWLY)
            return web.Response(text="fine")
        finally:
            listener.request_finished(request)

    async def start() -> tuple[web.AppRunner, HttpListener, int]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=idle, shutdown_timeout=1)
        await runner.setup()
        made = HttpListener(runner, what="a test", flag="--port", read_seconds=READ, connections=connections)
        return runner, made, await made.start("127.0.0.1", 0)

    async def stop() -> None:
        listener.close()
        await runner.cleanup()

    with event_loop_thread("listener") as loop:
        runner, listener, port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        try:
            yield port
        finally:
            asyncio.run_coroutine_threadsafe(stop(), loop).result(10)


def answers(connection: socket.socket, count: int) -> bytes:
    """So many answers."""
    received = b""
    while received.count(b"fine") < count:
        chunk = connection.recv(65_536)
        assert chunk, received
        received += chunk
    return received


def send_slowly(connection: socket.socket, data: bytes) -> None:
    for start in range(0, len(data), 5):
        connection.sendall(data[start : start + 5])
        time.sleep(0.002)


def is_dropped(connection: socket.socket) -> bool:
    connection.settimeout(IDLE / 2)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "together"),
    [((), False), ((CHUNKED,), False), ((GET, POST), False), ((GET,), True), ((POST,), True), ((POST, GET), True)],
)
def test_half_a_request_is_dropped_wherever_it_comes(port: int, before: tuple[bytes, ...], together: bool) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        if together:
            connection.sendall(b"".join([*before, HALF]))
            answers(connection, len(before))
        else:
            for number in range(len(before)):
                connection.sendall(before[number])
                answers(connection, 1)
            connection.sendall(HALF)
        assert is_dropped(connection)


def test_half_a_request_in_one_piece_with_a_chunked_one_is_dropped_as_idle() -> None:
    with listening(idle=0.5) as port, socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(CHUNKED + HALF)
        answers(connection, 1)
        assert is_dropped(connection)


@pytest.mark.slow
@pytest.mark.parametrize(
    "send",
    [
        lambda connection: connection.sendall(GET + POST + CHUNKED + GET),
        lambda connection: connection.sendall(SLOW + GET + POST + GET),
        lambda connection: send_slowly(connection, b"\r\n" + POST + 3 * GET),
    ],
    ids=["at once", "behind a slow one", "in pieces"],
)
def test_whole_requests_are_answered_and_the_connection_stays(port: int, send: Callable[[socket.socket], None]) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        send(connection)
        answers(connection, 4)
        time.sleep(1.6 * READ)  # a sweep drops connections after 1.5 times this
        connection.sendall(GET)
        answers(connection, 1)


@pytest.mark.slow
def test_what_arrives_behind_a_request_that_is_answered_gets_its_time_afterwards(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(SLOW + HALF)
        answers(connection, 1)
        connection.sendall(b" a\r\n\r\n")
        answers(connection, 1)


def test_connections_beyond_the_limit_are_closed() -> None:
    with listening(IDLE, connections=1) as port, socket.create_connection(("127.0.0.1", port), 10) as first:
        first.sendall(GET)
        answers(first, 1)
        with socket.create_connection(("127.0.0.1", port), 10) as second:
            assert is_dropped(second)


def test_connections_that_come_together_are_counted() -> None:
    with listening(IDLE, connections=3) as port, contextlib.ExitStack() as opened:
        together = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(30)]
        assert all(map(is_dropped, together[3:]))
        for one in together[:3]:
            one.sendall(GET)
            answers(one, 1)
