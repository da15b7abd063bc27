"""Spooled results, as Trino documents its spooling protocol, fetched by Trino's Python client through the gateway."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trino

from hudi_catalog.gateway import client_protocol
from hudi_catalog.server.security import Secret
from tests.support.certificates import self_signed, server_side
from tests.support.gateway_hosting import Request, Upper, answer, gateway, recording

QUERY = "20261121_000000_00001_aaaaa"
SLUG = "y2e7b630227000d31f9495483f37c48acc8534c41"
KEY = "AbCdEf0123456789-_AbCdEf0123456789"
INLINE, SPOOLED = [[1, "one"], [2, "http://trino/v1/x"]], [[number, f"row {number}"] for number in range(3, 5000)]


@dataclass
class SpoolingTrino:
    """Trino's side of one query with spooled rows."""

    requests: list[Request] = field(default_factory=list)
    acknowledged: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Request) -> bytes:
        self.requests.append(request)
        path = request.line.split()[1]
        start = f"http://{request.one('host')}"
        if path.startswith("/v1/spooled/download/"):
            return answer(json.dumps(SPOOLED).encode(), "Content-Type: application/octet-stream")
        if path.startswith("/v1/spooled/ack/"):
            self.acknowledged.set()
            return answer(b"")
        turn = 0 if path == "/v1/statement" else int(path.rpartition("/")[2]) + 1
        members: dict = {"id": QUERY, "infoUri": f"{start}/ui/query.html?{QUERY}"}
        if turn < 2:
            members["nextUri"] = f"{start}/v1/statement/executing/{QUERY}/{SLUG}/{turn}"
        if turn == 1:
            types = [("number", "bigint"), ("text", "varchar")]
            members["columns"] = [
                {"name": name, "type": kind, "typeSignature": {"rawType": kind, "arguments": []}}
                for name, kind in types
            ]
            members["data"] = {"encoding": "json", "metadata": {}, "segments": segments(start)}
        stats = {"state": "RUNNING" if turn < 2 else "FINISHED", "queued": False}
        body = json.dumps({**members, "stats": stats, "warnings": []}, separators=(",", ":"))
        return answer(body.encode(), "Content-Type: application/json")


def segments(start: str) -> list[dict]:
    rows = json.dumps(INLINE).encode()
    spooled = json.dumps(SPOOLED).encode()
    return [
        {
            "type": "inline",
            "data": base64.b64encode(rows).decode(),
            "metadata": {"rowOffset": 0, "rowsCount": len(INLINE), "segmentSize": len(rows)},
        },
        {
            "type": "spooled",
            "uri": f"{start}/v1/spooled/download/{KEY}",
            "ackUri": f"{start}/v1/spooled/ack/{KEY}",
            "metadata": {"rowOffset": len(INLINE), "rowsCount": len(SPOOLED), "segmentSize": len(spooled)},
            "headers": {"X-Trino-Segment-Key": ["abc="]},
        },
    ]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("uris", ["auto", "rewrite"])
def test_spooled_rows(certificate: Path, monkeypatch: pytest.MonkeyPatch, secure: bool, uris: str) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)  # the client's library would take them before `verify`
    spooling = SpoolingTrino()
    more = {"tls": server_side(certificate)} if secure else {}
    secret = Secret(b"a secret of some length")
    with recording(spooling) as server, gateway(server.port, Upper(), uris=uris, secret=secret, **more) as hosted:
        session = {
            "host": "localhost" if secure else "127.0.0.1",
            "port": hosted.port,
            "user": "a",
            "http_scheme": "https" if secure else "http",
            "verify": str(certificate / "cert.pem") if secure else True,
            "encoding": "json",
            "extra_credential": [("hudi-catalog-secret", "a secret of some length")],
        }
        with closing(trino.dbapi.connect(**session)) as connection:
            cursor = connection.cursor()
            cursor.execute("select number, text from t")
            rows = cursor.fetchall()
        assert spooling.acknowledged.wait(10)
        assert hosted.proxy.busy()  # for a while: nobody says when the last segment has been fetched
    assert rows == INLINE + SPOOLED
    assert spooling.requests[0].body == b"SELECT NUMBER, TEXT FROM T"
    assert spooling.requests[0].one("x-trino-query-data-encoding") == "json"
    download = next(request for request in spooling.requests if "/download/" in request.line)
    assert download.one("x-trino-segment-key") == "abc="
    own = f":{server.port}" if uris == "rewrite" else f":{hosted.port}"
    assert all(request.one("host").endswith(own) for request in spooling.requests) or (secure and uris == "auto")


def test_a_shutdown_waits_for_spooled_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    spooling = SpoolingTrino()
    with recording(spooling) as server, gateway(server.port) as hosted:
        with closing(trino.dbapi.connect(host="127.0.0.1", port=hosted.port, user="a", encoding="json")) as connection:
            cursor = connection.cursor()
            cursor.execute("select 1")
            cursor.fetchone()
            hosted.proxy.begin_drain()
            assert cursor.fetchall() == (INLINE + SPOOLED)[1:]
        assert hosted.proxy.busy()
        monkeypatch.setattr(client_protocol, "_SPOOLED_SECONDS", 0.0)
        for _ in range(3000):  # a request may just be ending
            if not hosted.proxy.busy():
                break
            time.sleep(0.01)
        assert not hosted.proxy.busy(), "once the time for fetching spooled rows is over"
