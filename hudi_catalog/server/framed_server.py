"""A server of requests in frames: four bytes of length, then so many bytes, as Thrift's framed transport has them.

Requests of one connection are answered at once and in the order in which they are done. Nothing that a client sends, or
leaves unread, may take more than its share of memory or time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from catalog.workers import Workers
from hudi_catalog.server.endpoints import cannot_listen
from hudi_catalog.server.limits import FewWarnings, Room, chunks, size_of
from hudi_catalog.server.options import ServiceOptions
from table_format.errors import HudiError, LateTableError

_LOG = logging.getLogger(__name__)
_WARNINGS = FewWarnings(_LOG)
_LENGTH = struct.Struct(">i")
_READ, _UNSEEN = 1 << 18, 1 << 16
_BEGINNING = 300
_TLS_HANDSHAKE_SECONDS = 15
# A peer that is gone without a word is found out after about two minutes.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
# A connection whose client leaves so large a part of all bytes of replies unread is not read any further.
_SHARE = 4

Dispatch = Callable[[bytes], Sequence[bytes | memoryview] | None]
Refuse = Callable[[bytes, str], bytes | None]
GivenUp = Callable[[bytes, HudiError], Sequence[bytes | memoryview] | None]


@dataclass
class ServerCounts:
    """What a server did and does.

    Attributes:
        connections: open now.
        in_work: requests that are being answered.
        accepted: connections since the start.
        refused: connections that were too many, and requests that were not taken.
        requests: answered or not.
        failures: requests whose answer could not be made.
        bytes_in: of requests.
        bytes_out: of replies that were written.
    """

    connections: int = 0
    in_work: int = 0
    accepted: int = 0
    refused: int = 0
    requests: int = 0
    failures: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class _RefusedError(Exception):
    """A frame that is not taken; the connection ends with it."""

    def __init__(self, message: str, beginning: bytes = b"") -> None:
        super().__init__(message)
        self.beginning = beginning


@dataclass(eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    slots: asyncio.Semaphore
    replies: Room
    reading: asyncio.Task[None]
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def peer(self) -> str:
        name = self.writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a client"


class FramedServer:
    """Answers framed requests on a port.

    Args:
        dispatch: makes the reply to a request, both without their lengths; called in threads. The parts of a reply are
            written one after the other and must not be changed any more. None ends the connection. A `HudiError`
            refuses the request; anything else that it raises is its failure and goes into the log with a traceback.
        options: limits and times.
        host: address to listen at.
        port: 0 for any that is free.
        tls: when connections are to be encrypted.
        refuse: makes the reply to a request of which only the beginning is known, or that `dispatch` failed on, from
            these bytes and a message; None when there can be none.
        given_up: makes the reply to a request whose table's storage does not answer; `refuse` does where there is none.

    Attributes:
        workers: threads that answer the requests.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        options: ServiceOptions | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        refuse: Refuse | None = None,
        given_up: GivenUp | None = None,
    ) -> None:
        self._given_up = given_up
        self._dispatch = dispatch
        self._options = options or ServiceOptions()
        self._address = (host, port)
        self._tls = tls
        self._refuse = refuse
        self._counts = ServerCounts()
        self._connections: set[_Connection] = set()
        self._stopping = False
        self.workers = Workers(self._options.threads, "request")

    @property
    def counts(self) -> ServerCounts:
        """What the server did so far; may be asked from any thread."""
        return replace(self._counts)

    async def start(self) -> int:
        """Listen.

        Returns:
            The port.

        Raises:
            ServiceError: the address cannot be listened at.
        """
        options = self._options
        self._taken = asyncio.Semaphore(options.max_requests)
        self._threads = asyncio.Semaphore(options.threads)
        self._requests = Room(options.max_buffered_bytes)
        self._replies = Room(options.max_buffered_bytes)
        host, port = self._address
        handshake = None if self._tls is None else _TLS_HANDSHAKE_SECONDS
        try:
            self._server = await asyncio.start_server(
                self._serve, host, port, ssl=self._tls, ssl_handshake_timeout=handshake, backlog=1024
            )
        except (OSError, OverflowError) as error:
            raise cannot_listen("the service", host, port, "--port", error) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, drain_seconds: float = 0) -> None:
        """Accept nothing more, answer what was read, then close all connections.

        Args:
            drain_seconds: requests that take longer are given up.
        """
        self._stopping = True
        self._server.close()
        for connection in self._connections:
            connection.reading.cancel()
        ends = {connection.reading for connection in self._connections}
        if ends:
            _, late = await asyncio.wait(ends, timeout=drain_seconds)
            if late:
                _LOG.warning("%d connections are closed although their requests are not answered", len(late))
            for connection in self._connections:
                connection.writer.transport.abort()
                for answer in connection.answers:
                    answer.cancel()
            await asyncio.wait(ends, timeout=1)
        self.workers.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        reading = asyncio.current_task()
        if reading is None or self._stopping or len(self._connections) >= self._options.max_connections:
            self._counts.refused += 1
            _WARNINGS.warn("a connection was closed: there are %d already", len(self._connections))
            writer.transport.abort()
            return
        options = self._options
        slots = asyncio.Semaphore(options.max_connection_requests)
        share = Room(max(1, options.max_buffered_bytes // _SHARE))
        connection = _Connection(reader, writer, slots, share, reading)
        # What waits in the transport is seen by no time-out and no limit.
        writer.transport.set_write_buffer_limits(high=_UNSEEN)
        _keep_alive(writer)
        self._connections.add(connection)
        self._counts.accepted += 1
        self._counts.connections = len(self._connections)
        try:
            await self._read(connection)
            await self._finish(connection)
        finally:
            writer.transport.abort()
            self._connections.discard(connection)
            self._counts.connections = len(self._connections)

    async def _read(self, connection: _Connection) -> None:
        """Read requests until the client stops, breaks the rules, or the server stops."""
        try:
            while (frame := await self._frame(connection)) is not None:
                await connection.slots.acquire()
                await connection.replies.wait()
                await self._taken.acquire()
                answer = asyncio.create_task(self._answer(connection, frame))
                connection.answers.add(answer)
                answer.add_done_callback(connection.answers.discard)
        except _RefusedError as refusal:
            self._counts.refused += 1
            _WARNINGS.warn("%s: %s; the connection is closed", connection.peer, refusal)
            await self._send_refusal(connection, refusal)
        except (OSError, asyncio.IncompleteReadError) as error:
            _LOG.info("%s: the connection broke: %s", connection.peer, error)
        except asyncio.CancelledError:
            self._go_on(connection)

    async def _finish(self, connection: _Connection) -> None:
        """Wait until everything that was read is answered, and close the connection."""
        while connection.answers:
            try:
                await asyncio.wait(connection.answers)
            except asyncio.CancelledError:
                self._go_on(connection)
        connection.writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._options.write_timeout):
                await connection.writer.wait_closed()

    def _go_on(self, connection: _Connection) -> None:
        """After `stop` broke off the reading; anybody else who cancels means it."""
        if not self._stopping:
            raise asyncio.CancelledError
        connection.reading.uncancel()

    async def _frame(self, connection: _Connection) -> bytes | None:
        """The next request; None at the end of the connection."""
        options = self._options
        first = await self._first_byte(connection)
        if not first:
            return None
        try:
            async with asyncio.timeout(options.read_timeout):
                (size,) = _LENGTH.unpack(first + await connection.reader.readexactly(3))
                if not 0 <= size <= options.max_frame_bytes:
                    beginning = await self._beginning(connection, size)
                    limits = f"where 0 to {options.max_frame_bytes} are taken"
                    raise _RefusedError(f"a frame of {size} bytes, {limits}{_hint(size)}", beginning)
                return await self._body(connection, size)
        except TimeoutError:
            raise _RefusedError(f"a request that did not arrive within {options.read_timeout} s") from None

    async def _first_byte(self, connection: _Connection) -> bytes:
        """The first byte of the next request; none at the end, or after too long a time without any."""
        limit = self._options.idle_timeout or None
        while True:
            try:
                async with asyncio.timeout(limit):
                    return await connection.reader.read(1)
            except TimeoutError:
                if not connection.answers:
                    _LOG.info("%s: no request for %s s; the connection is closed", connection.peer, limit)
                    return b""

    async def _body(self, connection: _Connection, size: int) -> bytes:
        parts: list[bytes] = []
        try:
            while size:
                parts.append(await self._part(connection, min(size, _READ), parts))
                size -= len(parts[-1])
        except BaseException:
            self._requests.give_back(sum(map(len, parts)))
            raise
        body = b"".join(parts)
        self._counts.bytes_in += len(body)
        return body

    async def _part(self, connection: _Connection, most: int, before: list[bytes]) -> bytes:
        part = await connection.reader.read(most)
        if not part:
            raise asyncio.IncompleteReadError(b"", most)
        if not self._requests.fits(len(part)):
            raise _RefusedError("too many bytes of requests are under way; try again", (before or [part])[0])
        self._requests.take(len(part))
        return part

    async def _beginning(self, connection: _Connection, size: int) -> bytes:
        """Some bytes of a frame that is not taken, if they come soon."""
        got = b""
        wanted = min(size, _BEGINNING)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while len(got) < wanted and (part := await connection.reader.read(wanted - len(got))):
                    got += part
        return got

    async def _answer(self, connection: _Connection, frame: bytes) -> None:
        try:
            reply = await self._replied(connection, frame)
            if reply is None:
                connection.writer.transport.abort()
            else:
                await self._write(connection, reply)
        except Exception:  # noqa: BLE001  # whatever it is, other requests go on
            _LOG.exception("%s: a reply could not be written; the connection is closed", connection.peer)
            connection.writer.transport.abort()
        finally:
            connection.slots.release()

    async def _replied(self, connection: _Connection, frame: bytes) -> Sequence[bytes | memoryview] | None:
        """The reply to a request, as soon as there is a thread and room for it; None when nobody wants it."""
        try:
            while True:
                await connection.replies.wait()
                await self._replies.wait()
                async with self._threads:
                    if connection.writer.is_closing():
                        return None
                    # Others may have been faster, and taken the room.
                    if not connection.replies.is_full and not self._replies.is_full:
                        return await self._in_thread(frame)
        finally:
            self._requests.give_back(len(frame))
            self._taken.release()

    async def _in_thread(self, frame: bytes) -> Sequence[bytes | memoryview] | None:
        counts = self._counts
        counts.requests += 1
        counts.in_work += 1
        try:
            return await asyncio.wrap_future(self.workers.submit(lambda: self._reply(frame)))
        except LateTableError as error:
            counts.refused += 1
            if self._given_up is not None:
                return self._given_up(frame, error)
            refused = self._refuse and self._refuse(frame[:_BEGINNING], str(error))
            return [refused] if refused else None
        finally:
            counts.in_work -= 1

    def _reply(self, frame: bytes) -> Sequence[bytes | memoryview] | None:
        """The reply of `dispatch`, in one of the threads; None when nothing can be said."""
        try:
            return self._dispatch(frame)
        except HudiError as error:
            self._counts.refused += 1
            _WARNINGS.warn("a request of %d bytes was refused: %s", len(frame), error)
            refused = self._refuse and self._refuse(frame[:_BEGINNING], str(error))
            return [refused] if refused else None
        except Exception:  # noqa: BLE001  # whatever it is, other requests go on
            self._counts.failures += 1
            _LOG.exception("a request of %d bytes was not answered", len(frame))
            refused = self._refuse and self._refuse(frame[:_BEGINNING], "the service failed; its log says why")
            return [refused] if refused else None

    async def _write(self, connection: _Connection, reply: Sequence[bytes | memoryview]) -> None:
        """Write a reply whole, or end the connection."""
        size = sum(map(size_of, reply))
        self._replies.take(size)
        connection.replies.take(size)
        try:
            async with connection.writing:
                for chunk in chunks([_LENGTH.pack(size), *reply]):
                    if connection.writer.is_closing():
                        return
                    connection.writer.write(chunk)
                    async with asyncio.timeout(self._options.write_timeout):
                        await connection.writer.drain()
            self._counts.bytes_out += size
        except TimeoutError:
            _WARNINGS.warn("%s: reads nothing; the connection is closed", connection.peer)
            connection.writer.transport.abort()
        except OSError as error:
            _LOG.info("%s: a reply could not be written: %s", connection.peer, error)
            connection.writer.transport.abort()
        finally:
            self._replies.give_back(size)
            connection.replies.give_back(size)

    async def _send_refusal(self, connection: _Connection, refusal: _RefusedError) -> None:
        reply = self._refuse(refusal.beginning, str(refusal)) if self._refuse and refusal.beginning else None
        if reply is not None:
            await self._write(connection, [reply])


def _hint(size: int) -> str:
    """What a length most likely is, when it is none."""
    beginning = _LENGTH.pack(size)
    hints = {
        b"\x16\x03": "the client speaks TLS, which is not switched on here",
        b"\x80\x01": "the client sends Thrift messages without frames; set its transport to FRAMED",
    }
    hint = "the client speaks HTTP" if beginning.isalpha() or beginning == b"GET " else hints.get(beginning[:2])
    return f": {hint}" if hint else ""


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    peer: socket.socket = writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextlib.contextmanager
def running(server: FramedServer, drain_seconds: float = 5) -> Iterator[int]:
    """Run a server in a thread of its own for as long as a `with` block lasts; gives its port.

    Raises:
        ServiceError: the address cannot be listened at.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="framed server", daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        try:
            yield port
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(drain_seconds), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
