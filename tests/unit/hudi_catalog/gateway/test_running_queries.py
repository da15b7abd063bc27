"""Shutdown: running queries are known from the forwarded responses, and are finished."""

import asyncio
import gzip
import json
import threading
import time

import pytest

from hudi_catalog.gateway.client_protocol import RunningQueries
from tests.support.gateway_hosting import Request, Upper, answer, exchange, gateway, get, post, recording, result

ID = "20261121_000000_00001_aaaaa"
NEXT = f"http://gate:1/v1/statement/executing/{ID}/yslugslugslugslug/1"
PATH = f"/v1/statement/executing/{ID}/yslugslugslugslug/0"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def queries() -> tuple[RunningQueries, Clock]:
    clock = Clock()
    return RunningQueries(300, clock), clock


def started() -> tuple[RunningQueries, Clock]:
    running, clock = queries()
    assert running.saw_response("POST", "/v1/statement", 200, result(ID, NEXT), "") == ID
    assert running.busy
    return running, clock


def test_a_query_ends_with_an_answer_that_has_no_next_uri() -> None:
    running, _ = started()
    running.saw_response("GET", PATH, 200, result(ID, NEXT, columns=[], data=[[1]]), "")
    assert running.busy
    running.saw_response("GET", PATH, 200, result(ID), "")
    assert not running.busy


@pytest.mark.parametrize(
    ("method", "path", "status", "ends"),
    [
        ("DELETE", PATH, 204, True),
        ("DELETE", PATH, 200, True),
        ("DELETE", f"/v1/statement/executing/partialCancel/{ID}/1/yslug/1", 204, True),
        ("DELETE", f"/v1/statement/executing/partialCancel/{ID}/1/yslug/1", 200, False),
        ("GET", PATH, 404, True),
        ("GET", PATH, 410, True),
        ("GET", PATH, 503, False),
        ("GET", PATH, 502, False),
        ("GET", f"/v1/statement/queued/{ID}/yslug/2", 404, True),
        ("GET", "/v1/statement/executing/another/yslug/2", 404, False),
    ],
)
def test_other_ends_of_a_query(method: str, path: str, status: int, ends: bool) -> None:
    running, _ = started()
    running.saw_response(method, path, status, b"", "")
    assert running.busy is not ends


def test_a_query_that_nobody_asks_about_is_given_up() -> None:
    running, clock = started()
    clock.now += 299
    running.saw_request(PATH)
    clock.now += 299
    assert running.busy
    clock.now += 2
    assert not running.busy


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"id": ID, "infoUri": "x", "nextUri": NEXT, "stats": {}}).encode(),
        json.dumps({"id": ID, "infoUri": "x", "nextUri": NEXT, "stats": {}}, indent=2).encode(),
        result(ID, NEXT, data=[["x" * 500_000]])[:65_536],
        b'{"id":"' + ID.encode() + b'","infoUri":"' + b"x" * 65_000 + b'","more":"' + b"y" * 65_000,  # in doubt
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_answers_are_read_as_they_come(body: bytes, packed: bool) -> None:
    running, _ = queries()
    content = gzip.compress(body)[:65_536] if packed else body
    running.saw_response("POST", "/v1/statement", 200, content, "gzip" if packed else "")
    assert running.busy


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", ""),
        (b"no json", ""),
        (b"[1]", ""),
        (b'{"error":{}}', ""),
        (b'{"stats":{"nextUri":"x"},"id":"a"}', ""),
        (b"\x1f\x8bno gzip", "gzip"),
        (result(ID, NEXT), "zstd"),
        (b'{"id":"' + ID.encode() + b'","data":[["nextUri","x"]]}', ""),
    ],
)
def test_answers_that_tell_of_no_running_query(body: bytes, encoding: str) -> None:
    running, _ = queries()
    running.saw_response("GET", PATH, 200, body, encoding)
    assert not running.busy


def test_spooled_rows_are_still_fetched_after_the_last_answer() -> None:
    running, clock = started()
    running.saw_response("GET", PATH, 200, result(ID, data={"encoding": "json", "segments": [{"uri": "x"}]}), "")
    assert running.busy
    clock.now += 4
    running.saw_request("/v1/spooled/download/abc")
    clock.now += 4
    assert running.busy
    clock.now += 2
    assert not running.busy


def test_the_number_of_queries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_catalog.gateway.client_protocol._MOST", 10)
    running, _ = queries()
    for number in range(100):
        running.saw_response("POST", "/v1/statement", 200, result(f"q{number}", NEXT), "")
    assert len(running) == 10


def replies(request: Request) -> bytes:
    last = request.line.split()[1].endswith("/9")
    return answer(result(ID, None if last else NEXT), "Content-Type: application/json")


def test_a_stop_waits_for_running_queries_and_refuses_new_ones() -> None:
    with recording(replies) as trino, gateway(trino.port, Upper()) as hosted:
        exchange(hosted.port, post("select 1"))
        assert hosted.proxy.busy()
        stopping = asyncio.run_coroutine_threadsafe(hosted.proxy.stop(20), hosted.loop)
        time.sleep(0.2)
        refused = exchange(hosted.port, post("select 2"))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"shutting down" in refused
        assert b" 200 " in exchange(hosted.port, get(PATH))
        assert not stopping.done()
        assert b" 200 " in exchange(hosted.port, get(PATH[:-1] + "9"))
        stopping.result(15)  # it would wait for 20 seconds
        assert not hosted.proxy.busy()
        with pytest.raises(ConnectionRefusedError):
            exchange(hosted.port, get("/x"))
    assert [request.body for request in trino.requests if request.body] == [b"SELECT 1"]


def test_a_stop_does_not_wait_for_ever() -> None:
    with recording(replies) as trino, gateway(trino.port) as hosted:
        exchange(hosted.port, post("select 1"))
        hosted.call(hosted.proxy.stop(0.5))
        with pytest.raises(ConnectionRefusedError):
            exchange(hosted.port, get("/x"))


def test_a_stop_lets_an_open_request_end() -> None:
    go = threading.Event()

    def slowly(connection, _: Request) -> None:
        go.wait(10)
        connection.sendall(answer(b"rows"))

    responses: list[bytes] = []
    with recording(lambda _: slowly) as trino, gateway(trino.port) as hosted:
        client = threading.Thread(target=lambda: responses.append(exchange(hosted.port, get("/x"))))
        client.start()
        while not trino.requests:
            time.sleep(0.01)
        stopping = asyncio.run_coroutine_threadsafe(hosted.proxy.stop(10), hosted.loop)
        time.sleep(0.2)
        go.set()
        stopping.result(10)
        client.join(5)
    assert responses[0].endswith(b"rows")
