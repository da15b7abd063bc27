"""Limits of the framed server: connections, requests, bytes, time."""

import logging
import struct
import time

import psutil
import pytest

from hudi_catalog.server.framed_server import FramedServer, running
from hudi_catalog.server.limits import RateLimitedLog
from hudi_catalog.server.options import ServiceOptions
from tests.support.framed_client import FramedClient, Gate, echo
from tests.support.waiting import until


def test_connections_beyond_the_limit_are_closed() -> None:
    server = FramedServer(echo, ServiceOptions(max_connections=2))
    with running(server) as port:
        with FramedClient(port) as first, FramedClient(port) as second:
            assert first.ask(b"1") == second.ask(b"1") == b"re: 1"
            with FramedClient(port) as third:
                assert third.ended()
            assert first.ask(b"2") == b"re: 2"
        until(lambda: server.counts.connections == 0)
        with FramedClient(port) as client:
            assert client.ask(b"3") == b"re: 3"
    assert server.counts.refused == 1


def test_idle_connections_are_closed_after_a_while(gate: Gate) -> None:
    server = FramedServer(gate, ServiceOptions(idle_timeout=0.2))
    with running(server) as port, FramedClient(port) as waiting:
        waiting.send(b"wait")
        assert gate.entered.acquire(timeout=10)
        for _ in range(2):
            with FramedClient(port) as idle:
                assert idle.ended()
        gate.opened.set()
        assert waiting.receive() == b"wait"


def test_a_request_must_arrive_in_time() -> None:
    server = FramedServer(echo, ServiceOptions(read_timeout=0.2))
    with running(server) as port, FramedClient(port) as client:
        client.send_raw(struct.pack(">i", 10) + b"slow")
        assert client.ended()
        until(lambda: server.counts.connections == 0)


@pytest.mark.parametrize("half", [b"\0\0", struct.pack(">i", 10), struct.pack(">i", 10) + b"slow"])
def test_so_must_one_behind_others(half: bytes) -> None:
    with running(FramedServer(echo, ServiceOptions(read_timeout=0.2))) as port, FramedClient(port) as client:
        assert client.ask(b"whole") == b"re: whole"
        client.send_raw(struct.pack(">i", 5) + b"whole" + half)
        assert client.receive() == b"re: whole"
        assert client.ended()


def test_a_client_that_reads_nothing_is_closed_and_its_replies_are_forgotten() -> None:
    server = FramedServer(
        lambda _: [bytes(8 << 20)], ServiceOptions(write_timeout=0.3, max_buffered_bytes=64 << 20, threads=2)
    )
    with running(server) as port, FramedClient(port) as client:
        before = psutil.Process().memory_info().rss
        for _ in range(100):
            client.send(b"x")
        with FramedClient(port) as other:
            assert len(other.ask(b"y")) == 8 << 20
        until(lambda: server.counts.connections == 0)
        # A quarter of the limit, and what two threads had in hand.
        assert psutil.Process().memory_info().rss - before < 100 << 20
        assert server.counts.requests < 20


def test_a_slow_reader_gets_everything() -> None:
    server = FramedServer(lambda _: [bytes(6 << 20)], ServiceOptions(write_timeout=2))
    with running(server) as port, FramedClient(port) as client:
        client.send(b"x")
        got, end = 0, (6 << 20) + 4
        while got < end:
            got += len(client.socket.recv(256 << 10))
            time.sleep(0.02)
        assert got == end


def test_requests_beyond_a_connections_limit_stay_unread(gate: Gate) -> None:
    server = FramedServer(gate, ServiceOptions(max_connection_requests=3))
    with running(server) as port, FramedClient(port) as client, FramedClient(port) as other:
        for number in range(10):
            client.send(b"wait%d" % number)
        assert all(gate.entered.acquire(timeout=10) for _ in range(3))
        time.sleep(0.1)
        assert server.counts.in_work == 3
        assert server.counts.bytes_in <= 4 * 5
        assert other.ask(b"x") == b"x"
        gate.opened.set()
        assert {client.receive() for _ in range(10)} == {b"wait%d" % number for number in range(10)}


def test_requests_beyond_the_limit_of_all_stay_unread(gate: Gate) -> None:
    server = FramedServer(gate, ServiceOptions(max_requests=2))
    with running(server) as port, FramedClient(port) as client, FramedClient(port) as other:
        client.send(b"wait1")
        client.send(b"wait2")
        assert all(gate.entered.acquire(timeout=10) for _ in range(2))
        for _ in range(5):
            other.send(b"late")
        time.sleep(0.1)
        assert (server.counts.in_work, server.counts.bytes_in) == (2, 14)
        gate.opened.set()
        assert [other.receive() for _ in range(5)] == [b"late"] * 5


def test_each_thread_has_one_request(gate: Gate) -> None:
    server = FramedServer(gate, ServiceOptions(threads=2))
    with running(server) as port, FramedClient(port) as client:
        for _ in range(6):
            client.send(b"wait")
        assert all(gate.entered.acquire(timeout=10) for _ in range(2))
        time.sleep(0.1)
        assert (server.counts.in_work, server.counts.requests, server.counts.bytes_in) == (2, 2, 24)
        gate.opened.set()
        assert [client.receive() for _ in range(6)] == [b"wait"] * 6


def test_too_many_bytes_of_requests_are_refused_and_given_back(gate: Gate) -> None:
    options = ServiceOptions(max_buffered_bytes=1 << 20, max_frame_bytes=1 << 20)
    server = FramedServer(gate, options, refuse=lambda begin, message: begin[:4] + message.encode())
    with running(server) as port:
        with FramedClient(port) as client:
            client.send(b"wait" + bytes(700_000))
            assert gate.entered.acquire(timeout=10)
            with FramedClient(port) as other:
                other.send_raw(struct.pack(">i", 700_000) + b"call" + bytes(690_000))
                assert other.receive() == b"calltoo many bytes of requests are buffered; try again"
            gate.opened.set()
            assert len(client.receive()) == 700_004
        with FramedClient(port) as client:
            assert len(client.ask(bytes(700_000))) == 700_000


def test_warnings_are_few(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = RateLimitedLog(logging.getLogger("few"), limit=2, seconds=10, clock=lambda: now[0])
    for number in range(5):
        log.warning("number %d", number)
    assert [record.getMessage() for record in caplog.records] == ["number 0", "number 1"]
    now[0] = 11.0
    log.warning("number %d", 5)
    assert [record.getMessage() for record in caplog.records][2:] == [
        "3 more warnings like those before were left out",
        "number 5",
    ]
