"""A gateway in a thread, in front of an HTTP server on plain sockets that records its requests byte for byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.proxy import GatewayProxy
from hudi_catalog.gateway.statement import SessionNames


@dataclass
class Request:
    line: str
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self.headers if key.decode().lower() == name.lower()]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value


Answer = bytes | Callable[[socket.socket, Request], None]


def answer(body: bytes = b"", *lines: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", *lines, f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def result(identity: str = "20261121_000000_00001_aaaaa", following: str | None = None, **more: Any) -> bytes:
    members = {"id": identity, "infoUri": f"http://trino/ui/query.html?{identity}"}
    if following is not None:
        members["nextUri"] = following
    return json.dumps({**members, "stats": {"state": "RUNNING"}, **more}, separators=(",", ":")).encode()


@dataclass
class RecordingServer:
    """Answers each request by `reply`; `requests` are those that came, `closed` counts connections that ended."""

    reply: Callable[[Request], Answer]
    requests: list[Request] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    port: int = 0
    listener: socket.socket | None = None

    def serve(self) -> None:
        assert self.listener is not None
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.opened += 1
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while (request := read_request(stream)) is not None:
                self.requests.append(request)
                reply = self.reply(request)
                if isinstance(reply, bytes):
                    connection.sendall(reply)
                else:
                    reply(connection, request)
        except (OSError, ValueError):
            pass
        finally:
            self.closed += 1
            stream.close()
            connection.close()


def read_request(stream: Any) -> Request | None:
    line = stream.readline()
    if not line:
        return None
    headers = []
    while (row := stream.readline().rstrip(b"\r\n")) != b"":
        name, _, value = row.partition(b":")
        headers.append((name, value.strip()))
    request = Request(line.decode().strip(), headers, b"")
    if request.all("transfer-encoding"):
        while size := int(stream.readline(), 16):
            request.body += stream.read(size)
            stream.readline()
        stream.readline()
    elif request.all("content-length"):
        request.body = stream.read(int(request.one("content-length")))
    return request


@contextmanager
def recording(reply: Callable[[Request], Answer] | bytes) -> Iterator[RecordingServer]:
    server = RecordingServer((lambda _: reply) if isinstance(reply, bytes) else reply)
    server.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    server.port = server.listener.getsockname()[1]
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join(5)


@dataclass
class Hosted:
    proxy: GatewayProxy
    port: int
    loop: asyncio.AbstractEventLoop

    def call(self, work: Any, timeout: float = 20) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)


@contextmanager
def gateway(upstream: int | str, rewriter: Any = None, **more: Any) -> Iterator[Hosted]:
    """`more` are settings by name, or arguments of the proxy."""
    where = upstream if isinstance(upstream, str) else f"http://127.0.0.1:{upstream}"
    parts = {name: more.pop(name) for name in ("log", "metrics", "secret", "tls", "upstream_tls") if name in more}
    proxy = GatewayProxy(ProxySettings(upstream=where, **more), rewriter, **parts)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(10)
        try:
            yield Hosted(proxy, port, loop)
        finally:
            asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def connected(port: int, *, timeout: float = 20) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


def exchange(port: int, request: bytes, *, timeout: float = 20) -> bytes:
    """Send bytes, and read all that comes until the other side closes."""
    with connected(port, timeout=timeout) as connection:
        connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


def post(sql: str | bytes, *lines: str, path: str = "/v1/statement") -> bytes:
    body = sql.encode() if isinstance(sql, str) else sql
    head = [f"POST {path} HTTP/1.1", "Host: gate:1", *lines, f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*head, "", ""]).encode() + body


def get(path: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: gate:1", *lines, "Connection: close", "", ""]).encode()


@dataclass
class Rewritten:
    sql: str
    changed: bool
    not_understood: tuple[str, ...] = ()
    refusal: str = ""


@dataclass
class Upper:
    """A rewriter that changes every statement to upper case, and keeps what it was asked."""

    asked: list[tuple[str, SessionNames, Sequence[str] | None, int | None]] = field(default_factory=list)
    work: Callable[[str], str] = str.upper

    def rewrite(
        self,
        sql: str,
        session: SessionNames,
        *,
        parameters: Sequence[str] | None = None,
        length_limit: int | None = None,
    ) -> Rewritten:
        self.asked.append((sql, session, parameters, length_limit))
        changed = self.work(sql)
        return Rewritten(changed, changed != sql)
