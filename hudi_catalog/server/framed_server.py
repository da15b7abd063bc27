"""A server for Thrift's framed transport: each message is preceded by its length in four bytes.

Requests of one connection run concurrently; replies are sent as they become ready. Limits on memory and time hold for
whatever a client sends or leaves unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from catalog.concurrency.workers import Workers
from hudi_catalog.server.endpoints import cannot_listen
from hudi_catalog.server.hosting import event_loop_thread
from hudi_catalog.server.limits import ByteBudget, RateLimitedLog, chunked, size_of
from hudi_catalog.server.options import ServiceOptions
from table_format.errors import HudiError, LateTableError

_LOG = logging.getLogger(__name__)
_WARNINGS = RateLimitedLog(_LOG)
_LENGTH = struct.Struct(">i")
_READ_BYTES, _WRITE_BUFFER_BYTES = 1 << 18, 1 << 16
# Bytes of a refused frame that are read, so that the refusal can name the call it replies to.
_HEAD_BYTES, _HEAD_SECONDS = 300, 1.0
_TLS_HANDSHAKE_SECONDS = 15
# Detects a vanished peer after about two minutes.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
# No more requests are read from a client whose unread replies exceed this fraction (1/n) of all buffered bytes.
_CONNECTION_FRACTION = 4
Dispatch = Callable[[bytes], Sequence[bytes | memoryview] | None]
Refuse = Callable[[bytes, str], bytes | None]
LateReply = Callable[[bytes, HudiError], Sequence[bytes | memoryview] | None]


@dataclass
class ServerCounts:
    """Counters of a server.

    Attributes:
        connections: open connections.
        in_work: requests in progress.
        accepted: connections accepted since the start.
        refused: connections beyond the limit, and requests refused.
        requests: requests dispatched, successful or not.
        failures: requests that failed with an internal error.
        bytes_in: bytes of requests read.
        bytes_out: bytes of replies written.
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
    """A frame that is refused; its connection is closed."""

    def __init__(self, message: str, head: bytes = b"") -> None:
        super().__init__(message)
        self.head = head


@dataclass(eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    slots: asyncio.Semaphore
    replies: ByteBudget
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
        dispatch: makes the reply to a request, both without their lengths; called in worker threads. The buffers of a
            reply are written in order and must not change afterwards. None closes the connection. A `HudiError`
            refuses the request; any other exception is an internal error, logged with its traceback.
        options: limits and time-outs.
        host: address to listen at.
        port: 0 for any free one.
        tls: for encrypted connections; None for plain ones.
        refuse: makes the reply to a request that is refused or failed, from the first bytes of the request and a
            message; None if no reply is possible.
        late_reply: makes the reply to a request whose table's storage does not respond; `refuse` when None.

    Attributes:
        workers: threads that process the requests.
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
        late_reply: LateReply | None = None,
    ) -> None:
        self._late_reply = late_reply
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
        """A copy of the counters; callable from any thread."""
        return replace(self._counts)

    async def start(self) -> int:
        """Start to listen; returns the port.

        Raises:
            ServiceError: the address is taken or does not belong to this machine.
        """
        options = self._options
        self._request_slots = asyncio.Semaphore(options.max_requests)
        self._thread_slots = asyncio.Semaphore(options.threads)
        self._request_bytes = ByteBudget(options.max_buffered_bytes)
        self._reply_bytes = ByteBudget(options.max_buffered_bytes)
        host, port = self._address
        handshake = None if self._tls is None else _TLS_HANDSHAKE_SECONDS
        try:
            self._server = await asyncio.start_server(
                self._serve, host, port, ssl=self._tls, ssl_handshake_timeout=handshake, backlog=1024
            )
        except (OSError, OverflowError, UnicodeError) as error:
            raise cannot_listen("the service", host, port, "--port", error) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, drain_seconds: float = 0) -> None:
        """Stop reading, answer the requests already read, then close all connections.

        Args:
            drain_seconds: requests that take longer are abandoned.
        """
        self._stopping = True
        self._server.close()
        for connection in self._connections:
            connection.reading.cancel()
        ends = {connection.reading for connection in self._connections}
        if ends:
            _, late = await asyncio.wait(ends, timeout=drain_seconds)
            if late:
                _LOG.warning("closing %d connections whose requests are still running", len(late))
            for connection in self._connections:
                connection.writer.transport.abort()
                for answer in connection.answers:
                    answer.cancel()
            await asyncio.wait(ends, timeout=1)
        self.workers.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        reading = asyncio.current_task()
        if reading is None or self._stopping or len(self._connections) >= self._options.max_connections:
            self._counts.refused += 1
            _WARNINGS.warning("connection refused: %d are open, the limit", len(self._connections))
            writer.transport.abort()
            return
        options = self._options
        slots = asyncio.Semaphore(options.max_connection_requests)
        replies = ByteBudget(max(1, options.max_buffered_bytes // _CONNECTION_FRACTION))
        connection = _Connection(reader, writer, slots, replies, reading)
        # Small, because neither time-outs nor limits cover bytes in the transport's own buffer.
        writer.transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
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
        """Read requests until the client or the server stops, or a request is refused."""
        try:
            while (frame := await self._frame(connection)) is not None:
                await connection.slots.acquire()
                await connection.replies.wait()
                await self._request_slots.acquire()
                answer = asyncio.create_task(self._answer(connection, frame))
                connection.answers.add(answer)
                answer.add_done_callback(connection.answers.discard)
        except _RefusedError as refusal:
            self._counts.refused += 1
            _WARNINGS.warning("%s: %s; the connection is closed", connection.peer, refusal)
            await self._send_refusal(connection, refusal)
        except (OSError, asyncio.IncompleteReadError) as error:
            _LOG.info("%s: connection lost: %s", connection.peer, error)
        except asyncio.CancelledError:
            self._resume_if_stopping(connection)

    async def _finish(self, connection: _Connection) -> None:
        """Wait until all requests read are answered, then close the connection."""
        while connection.answers:
            try:
                await asyncio.wait(connection.answers)
            except asyncio.CancelledError:
                self._resume_if_stopping(connection)
        connection.writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._options.write_timeout):
                await connection.writer.wait_closed()

    def _resume_if_stopping(self, connection: _Connection) -> None:
        """Swallow a cancellation that came from `stop`; raise any other."""
        if not self._stopping:
            raise asyncio.CancelledError
        connection.reading.uncancel()

    async def _frame(self, connection: _Connection) -> bytes | None:
        """The next request; None at the end of the stream."""
        options = self._options
        first = await self._first_byte(connection)
        if not first:
            return None
        try:
            async with asyncio.timeout(options.read_timeout):
                (size,) = _LENGTH.unpack(first + await connection.reader.readexactly(3))
                if not 0 <= size <= options.max_frame_bytes:
                    head = await self._frame_head(connection, size)
                    limits = f"where 0 to {options.max_frame_bytes} are taken"
                    raise _RefusedError(f"a frame of {size} bytes, {limits}{_hint(size)}", head)
                return await self._body(connection, size)
        except TimeoutError:
            raise _RefusedError(f"a request that did not arrive within {options.read_timeout} s") from None

    async def _first_byte(self, connection: _Connection) -> bytes:
        """The first byte of the next request; empty at the end of the stream or after the idle time-out."""
        limit = self._options.idle_timeout or None
        while True:
            try:
                async with asyncio.timeout(limit):
                    return await connection.reader.read(1)
            except TimeoutError:
                if not connection.answers:
                    _LOG.info("%s: no request for %s s; closing the connection", connection.peer, limit)
                    return b""

    async def _body(self, connection: _Connection, size: int) -> bytes:
        chunks: list[bytes] = []
        try:
            while size:
                chunks.append(await self._chunk(connection, min(size, _READ_BYTES), chunks))
                size -= len(chunks[-1])
        except BaseException:
            self._request_bytes.release(sum(map(len, chunks)))
            raise
        body = b"".join(chunks)
        self._counts.bytes_in += len(body)
        return body

    async def _chunk(self, connection: _Connection, limit: int, previous: list[bytes]) -> bytes:
        chunk = await connection.reader.read(limit)
        if not chunk:
            raise asyncio.IncompleteReadError(b"", limit)
        if not self._request_bytes.fits(len(chunk)):
            raise _RefusedError("too many bytes of requests are buffered; try again", (previous or [chunk])[0])
        self._request_bytes.reserve(len(chunk))
        return chunk

    async def _frame_head(self, connection: _Connection, size: int) -> bytes:
        """The first bytes of a refused frame, as far as they arrive soon."""
        head = b""
        wanted = min(size, _HEAD_BYTES)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEAD_SECONDS):
                while len(head) < wanted and (chunk := await connection.reader.read(wanted - len(head))):
                    head += chunk
        return head

    async def _answer(self, connection: _Connection, frame: bytes) -> None:
        try:
            reply = await self._replied(connection, frame)
            if reply is None:
                connection.writer.transport.abort()
            else:
                await self._write(connection, reply)
        except Exception:  # noqa: BLE001  # other requests must go on
            _LOG.exception("%s: failed to write a reply; closing the connection", connection.peer)
            connection.writer.transport.abort()
        finally:
            connection.slots.release()

    async def _replied(self, connection: _Connection, frame: bytes) -> Sequence[bytes | memoryview] | None:
        """The reply to a request, computed once a thread and reply bytes are free; None for a closed connection."""
        try:
            while True:
                await connection.replies.wait()
                await self._reply_bytes.wait()
                async with self._thread_slots:
                    if connection.writer.is_closing():
                        return None
                    # Other tasks may have used up the bytes meanwhile.
                    if not connection.replies.is_full and not self._reply_bytes.is_full:
                        return await self._in_thread(frame)
        finally:
            self._request_bytes.release(len(frame))
            self._request_slots.release()

    async def _in_thread(self, frame: bytes) -> Sequence[bytes | memoryview] | None:
        counts = self._counts
        counts.requests += 1
        counts.in_work += 1
        try:
            return await asyncio.wrap_future(self.workers.submit(lambda: self._reply(frame)))
        except LateTableError as error:
            counts.refused += 1
            if self._late_reply is not None:
                return self._late_reply(frame, error)
            refused = self._refuse and self._refuse(frame[:_HEAD_BYTES], str(error))
            return [refused] if refused else None
        finally:
            counts.in_work -= 1

    def _reply(self, frame: bytes) -> Sequence[bytes | memoryview] | None:
        """The reply of `dispatch`, called in a worker thread; None when no reply is possible."""
        try:
            return self._dispatch(frame)
        except HudiError as error:
            self._counts.refused += 1
            _WARNINGS.warning("a request of %d bytes was refused: %s", len(frame), error)
            refused = self._refuse and self._refuse(frame[:_HEAD_BYTES], str(error))
            return [refused] if refused else None
        except Exception:  # noqa: BLE001  # other requests must go on
            self._counts.failures += 1
            _LOG.exception("a request of %d bytes failed", len(frame))
            refused = self._refuse and self._refuse(frame[:_HEAD_BYTES], "the service failed; its log says why")
            return [refused] if refused else None

    async def _write(self, connection: _Connection, reply: Sequence[bytes | memoryview]) -> None:
        """Write a reply completely, or close the connection."""
        size = sum(map(size_of, reply))
        self._reply_bytes.reserve(size)
        connection.replies.reserve(size)
        try:
            async with connection.writing:
                for chunk in chunked([_LENGTH.pack(size), *reply]):
                    if connection.writer.is_closing():
                        return
                    connection.writer.write(chunk)
                    async with asyncio.timeout(self._options.write_timeout):
                        await connection.writer.drain()
            self._counts.bytes_out += size
        except TimeoutError:
            _WARNINGS.warning("%s: the client does not read its reply; closing the connection", connection.peer)
            connection.writer.transport.abort()
        except OSError as error:
            _LOG.info("%s: failed to write a reply: %s", connection.peer, error)
            connection.writer.transport.abort()
        finally:
            self._reply_bytes.release(size)
            connection.replies.release(size)

    async def _send_refusal(self, connection: _Connection, refusal: _RefusedError) -> None:
        reply = self._refuse(refusal.head, str(refusal)) if self._refuse and refusal.head else None
        if reply is not None:
            await self._write(connection, [reply])


def _hint(size: int) -> str:
    """The likely cause of an invalid length: a client that speaks another protocol."""
    head = _LENGTH.pack(size)
    hints = {
        b"\x16\x03": "the client speaks TLS, which is not enabled here",
        b"\x80\x01": "the client sends Thrift messages without frames; set its transport to FRAMED",
    }
    hint = "the client speaks HTTP" if head.isalpha() or head == b"GET " else hints.get(head[:2])
    return f": {hint}" if hint else ""


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    peer: socket.socket = writer.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextlib.contextmanager
def running(server: FramedServer, drain_seconds: float = 5) -> Iterator[int]:
    """Run a server in a background thread for the duration of a `with` block; yields its port.

    Raises:
        ServiceError: the address is taken or does not belong to this machine.
    """
    with event_loop_thread("framed server") as loop:
        port = asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        try:
            yield port
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(drain_seconds), loop).result()
