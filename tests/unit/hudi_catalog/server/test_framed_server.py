"""The framed server, with clients that behave and clients that do not."""

import asyncio
import gc
import random
import re
import socket
import struct
import threading
import time
from contextlib import ExitStack

import psutil
import pytest

from hudi_catalog.server import framed_server
from hudi_catalog.server.framed_server import FramedServer, running
from hudi_catalog.server.hosting import raise_open_file_limit
from hudi_catalog.server.options import ServiceOptions
from table_format.errors import ServiceError, SplitError
from tests.support.framed_client import FramedClient, Gate, echo
from tests.support.waiting import until


def test_requests_are_answered() -> None:
    server = FramedServer(echo)
    with running(server) as port, FramedClient(port) as client:
        assert client.ask(b"hello") == b"re: hello"
        assert client.ask(b"") == b"re: "
        assert server.counts.connections == 1
    counts = server.counts
    assert (counts.requests, counts.connections, counts.accepted, counts.failures) == (2, 0, 1, 0)
    assert (counts.bytes_in, counts.bytes_out) == (5, 13)


def test_parts_of_any_size_are_joined_in_order() -> None:
    source = random.Random(5)
    parts = [source.randbytes(size) for size in (0, 1, 3_000_000, 7, 1 << 20, (1 << 20) + 1, 0, 64, 200_000)]
    wide = memoryview(struct.pack(">3i", 1, 2, 3)).cast("i")
    with running(FramedServer(lambda _: [*parts, wide])) as port, FramedClient(port) as client:
        assert client.ask(b"x") == b"".join(parts) + wide.tobytes()


def test_many_small_parts_go_out_together() -> None:
    with running(FramedServer(lambda _: [b"ab"] * 200_000)) as port, FramedClient(port) as client:
        assert client.ask(b"x") == b"ab" * 200_000


def test_a_large_request_arrives_whole() -> None:
    frame = random.Random(6).randbytes(5_000_000)
    with running(FramedServer(echo)) as port, FramedClient(port) as client:
        assert client.ask(frame) == b"re: " + frame


def test_requests_of_one_connection_are_answered_at_once_and_out_of_order(gate: Gate) -> None:
    with running(FramedServer(gate)) as port, FramedClient(port) as client:
        client.send(b"wait")
        assert client.ask(b"quick") == b"quick"
        gate.opened.set()
        assert client.receive() == b"wait"


def test_replies_of_one_connection_do_not_mix() -> None:
    def answer(frame: bytes) -> list[bytes]:
        return [frame * 50_000, frame]

    with running(FramedServer(answer)) as port, FramedClient(port) as client:
        sent = [struct.pack(">q", number) for number in range(100)]
        for frame in sent:
            client.send(frame)
        got = [client.receive() for _ in sent]
    assert sorted(reply[:8] for reply in got) == sent
    assert all(reply == reply[:8] * 50_001 for reply in got)


def test_a_request_that_comes_byte_by_byte() -> None:
    with running(FramedServer(echo)) as port, FramedClient(port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in struct.pack(">i", 3) + b"abc":
            client.send_raw(bytes([byte]))
            time.sleep(0.002)
        assert client.receive() == b"re: abc"


def test_a_client_that_closed_its_side_still_gets_its_answers(gate: Gate) -> None:
    server = FramedServer(gate)
    with running(server) as port, FramedClient(port) as client:
        client.send(b"wait 1")
        client.send(b"wait 2")
        client.socket.shutdown(socket.SHUT_WR)
        for _ in range(2):
            assert gate.entered.acquire(timeout=10)
        gate.opened.set()
        assert sorted([client.receive(), client.receive()]) == [b"wait 1", b"wait 2"]
        assert client.ended()


@pytest.mark.parametrize("length", [-1, -(2**31), 1025, 2**31 - 1, struct.unpack(">i", b"GET ")[0]])
def test_a_length_that_is_not_taken_ends_the_connection(length: int, caplog: pytest.LogCaptureFixture) -> None:
    server = FramedServer(echo, ServiceOptions(max_frame_bytes=1024))
    with running(server) as port:
        with FramedClient(port) as client:
            client.send_raw(struct.pack(">i", length))
            client.socket.shutdown(socket.SHUT_WR)
            assert client.ended()
        with FramedClient(port) as client:
            assert client.ask(bytes(1024)) == b"re: " + bytes(1024)
    assert f"a frame of {length} bytes, where 0 to 1024 are taken" in caplog.text
    assert server.counts.refused == 1


@pytest.mark.parametrize(
    ("sent", "hint"),
    [
        (bytes.fromhex("1603010200010001fc"), "speaks TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "speaks HTTP"),
        (b"POST /v1/statement HTTP/1.1\r\n", "speaks HTTP"),
        (bytes.fromhex("8001000100000004"), "without frames; set its transport to FRAMED"),
        (bytes.fromhex("7fffffff"), "taken; the connection"),
    ],
)
def test_other_protocols_are_told_apart_in_the_log(sent: bytes, hint: str, caplog: pytest.LogCaptureFixture) -> None:
    with running(FramedServer(echo)) as port, FramedClient(port) as client:
        client.send_raw(sent)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.ended()
    (record,) = caplog.records
    assert hint in record.getMessage()


def test_a_refused_call_is_told_why() -> None:
    def refuse(beginning: bytes, message: str) -> bytes:
        return beginning + b"|" + message.encode()

    server = FramedServer(echo, ServiceOptions(max_frame_bytes=1024), refuse=refuse)
    with running(server) as port, FramedClient(port) as client:
        client.send_raw(struct.pack(">i", 100_000) + b"call 7" + bytes(500))
        reply = client.receive()
        assert reply.startswith(b"call 7" + bytes(294))
        assert reply.endswith(b"|a frame of 100000 bytes, where 0 to 1024 are taken")
        assert client.ended()


def test_a_failing_request_is_logged_and_refused(caplog: pytest.LogCaptureFixture) -> None:
    def fail(frame: bytes) -> list[bytes]:
        raise KeyError(frame)

    server = FramedServer(fail, refuse=lambda begin, message: begin + message.encode())
    with running(server) as port, FramedClient(port) as client:
        assert client.ask(b"x: ") == b"x: the service failed; its log says why"
        assert client.ask(b"y: ") == b"y: the service failed; its log says why"
    assert server.counts.failures == 2
    assert "KeyError: b'x: '" in caplog.text


def test_a_request_that_dispatch_refuses_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    def refuse_all(frame: bytes) -> list[bytes]:
        raise SplitError(f"{frame!r} is forged")

    with running(FramedServer(refuse_all)) as port, FramedClient(port) as client:
        client.send(b"x")
        assert client.ended()
    server = FramedServer(refuse_all, refuse=lambda begin, message: begin + message.encode())
    with running(server) as port, FramedClient(port) as client:
        assert client.ask(b"x") == b"xb'x' is forged"
    assert (server.counts.refused, server.counts.failures) == (1, 0)
    assert "a request of 1 bytes was refused: b'x' is forged" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("reply", [None, ["text"], [b"x", 5]])
def test_a_request_without_an_answer_ends_the_connection(reply: object) -> None:
    with running(FramedServer(lambda _: reply)) as port:  # type: ignore[arg-type, return-value]
        with FramedClient(port) as client:
            client.send(b"x")
            assert client.ended()
        with FramedClient(port) as client:
            client.send(b"x")
            assert client.ended()


def test_clients_that_break_off_do_no_harm(gate: Gate) -> None:
    server = FramedServer(gate, ServiceOptions(threads=4))
    with running(server) as port:
        for begin in (b"", b"\0", struct.pack(">i", 9), struct.pack(">i", 9) + b"half", struct.pack(">i", 4) + b"wait"):
            for _ in range(3):
                client = FramedClient(port)
                client.send_raw(begin)
                client.reset()
        until(lambda: server.counts.accepted == 15)
        gate.opened.set()
        until(lambda: server.counts.connections == 0)
        with FramedClient(port) as client:
            assert client.ask(b"fine") == b"fine"
        until(lambda: server.counts.in_work == 0)


def test_requests_of_a_client_that_is_gone_are_not_begun(gate: Gate) -> None:
    server = FramedServer(gate, ServiceOptions(threads=1))
    with running(server) as port, FramedClient(port) as other:
        other.send(b"wait for it")
        assert gate.entered.acquire(timeout=10)
        gone = FramedClient(port)
        for _ in range(20):
            gone.send(b"wait")
        until(lambda: server.counts.bytes_in == 11 + 80)
        gone.reset()
        time.sleep(0.2)
        gate.opened.set()
        assert other.receive() == b"wait for it"
        until(lambda: server.counts.connections == 1)
    assert server.counts.requests == 1


def test_garbage_of_all_kinds_does_no_harm() -> None:
    source = random.Random(11)
    server = FramedServer(echo, ServiceOptions(max_frame_bytes=1 << 16))
    with running(server) as port:
        for _ in range(100):
            with FramedClient(port) as client:
                client.send_raw(source.randbytes(source.randint(0, 300)))
        until(lambda: server.counts.connections == 0)
        with FramedClient(port) as client:
            assert client.ask(b"x") == b"re: x"


def test_a_thousand_idle_connections_leave_room_for_one_that_asks() -> None:
    server = FramedServer(echo)
    many = min(1_000, raise_open_file_limit() // 2 - 100)  # each takes two of this process's files
    with running(server) as port, ExitStack() as stack:
        before = psutil.Process().memory_info().rss
        for _ in range(many):
            stack.enter_context(FramedClient(port))
        until(lambda: server.counts.connections == many)
        with FramedClient(port) as client:
            for _ in range(20):
                assert client.ask(b"x") == b"re: x"
        assert psutil.Process().memory_info().rss - before < 40_000_000


def test_stop_finishes_what_is_in_work(gate: Gate) -> None:
    server = FramedServer(gate)
    with ExitStack() as clients, ExitStack() as hosted:
        port = hosted.enter_context(running(server, drain_seconds=20))
        waiting = [clients.enter_context(FramedClient(port)) for _ in range(4)]
        for client in waiting:
            client.send(b"wait")
            assert gate.entered.acquire(timeout=10)
        waiting[0].socket.shutdown(socket.SHUT_WR)
        idle = clients.enter_context(FramedClient(port))
        assert idle.ask(b"x") == b"x"
        threading.Timer(0.3, gate.opened.set).start()
        hosted.close()
        assert idle.ended()
        for client in waiting:
            assert client.receive() == b"wait"
            assert client.ended()
        with pytest.raises(OSError, match="refused"):
            FramedClient(port)


def test_stop_gives_up_what_takes_too_long(gate: Gate) -> None:
    server = FramedServer(gate)
    with running(server, drain_seconds=0.3) as port:
        client = FramedClient(port)
        client.send(b"wait")
        assert gate.entered.acquire(timeout=10)
    # the server has stopped though its request never ends
    assert client.ended()
    client.socket.close()


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", None), ("127.0.0.1", 99_999), ("127.0.0.1", -1), ("no.such.host.invalid", 0)]
)
def test_an_address_that_cannot_be_listened_at_is_a_clear_error(host: str, port: int | None) -> None:
    with running(FramedServer(echo)) as taken:
        server = FramedServer(echo, host=host, port=taken if port is None else port)
        address = re.escape(f"{host}:{taken if port is None else port}: the service cannot listen there (")
        with pytest.raises(ServiceError, match=address), running(server):
            pass


def _connections_in_memory() -> int:
    """Connections that are still referred to; a closed one is, until the loop has run its last callback."""
    gc.collect()
    return sum(type(one) is framed_server._Connection for one in gc.get_objects())


@pytest.mark.slow
def test_many_clients_at_once_leave_nothing_behind() -> None:
    server = FramedServer(echo, ServiceOptions(threads=4))
    of_other_servers = _connections_in_memory()

    def ask(number: int, port: int) -> None:
        source = random.Random(number)
        with FramedClient(port) as client:
            for _ in range(30):
                frame = source.randbytes(source.choice([0, 10, 1_000, 100_000]))
                assert client.ask(frame) == b"re: " + frame

    with running(server) as port:
        failures: list[BaseException] = []

        def guarded(number: int) -> None:
            try:
                ask(number, port)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        until(lambda: server.counts.connections == 0 and _connections_in_memory() <= of_other_servers)
    assert server.counts.requests == 480


def test_the_server_may_live_in_a_loop_of_the_callers() -> None:
    async def main() -> bytes:
        server = FramedServer(echo)
        port = await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack(">i", 1) + b"x")
        reply = await reader.readexactly(9)
        await server.stop(5)
        assert await reader.read() == b""
        writer.close()
        return reply

    assert asyncio.run(main()) == b"\0\0\0\5re: x"
