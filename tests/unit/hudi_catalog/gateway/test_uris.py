"""URIs in answers are found and moved without touching anything else, rows least of all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.gateway.client_protocol import leading_members, rebased, rewrite_segment_uris, rewrite_uris
from tests.support.gateway_hosting import Request, answer, exchange, gateway, get, post, recording

THEIRS = "http://trino:8080"
OWN = "https://gate"
TEXTS = st.text(max_size=20) | st.sampled_from([THEIRS, f"{THEIRS}/x", '"nextUri":"', '"data":{', '"uri":"' + THEIRS])
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["uri", "data"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def body(data: object, **more: object) -> bytes:
    members = {
        "id": "q1",
        "infoUri": f"{THEIRS}/ui/query.html?q1",
        "partialCancelUri": f"{THEIRS}/v1/statement/executing/partialCancel/q1/0/s/1",
        "nextUri": f"{THEIRS}/v1/statement/executing/q1/s/1",
        "columns": [{"name": '"data":{', "type": "varchar"}],
        "data": data,
        "stats": {"state": "RUNNING", "uri": THEIRS},
        **more,
    }
    return json.dumps(members, separators=(",", ":")).encode()


@given(VALUES)
def test_rows_stay_as_they_are(data: object) -> None:
    rows = [[data]]
    changed = json.loads(rewrite_segment_uris(rewrite_uris(body(rows), OWN, THEIRS), OWN, THEIRS))
    assert changed == {
        **json.loads(body(rows)),
        "infoUri": f"{OWN}/ui/query.html?q1",
        "partialCancelUri": f"{OWN}/v1/statement/executing/partialCancel/q1/0/s/1",
        "nextUri": f"{OWN}/v1/statement/executing/q1/s/1",
    }


@given(VALUES)
def test_segments_are_moved_and_nothing_else_of_them(value: object) -> None:
    def data(start: str) -> dict:
        spooled = {"type": "spooled", "uri": f"{start}/v1/spooled/download/a", "ackUri": f"{start}/v1/spooled/ack/a"}
        inline = {"type": "inline", "data": "aHR0cDovLw==", "metadata": {"rowOffset": 0}}
        stored = {"type": "spooled", "uri": "https://bucket.s3/x?sign=1", "headers": {"key": ["value"]}}
        return {"encoding": "json+zstd", "metadata": {}, "segments": [spooled, inline, stored]}

    changed = json.loads(rewrite_segment_uris(body(data(THEIRS), more=value), OWN, THEIRS))
    assert changed == json.loads(body(data(OWN), more=value))


@pytest.mark.parametrize(
    ("uri", "moved"),
    [
        (f"{THEIRS}/v1/x", f"{OWN}/v1/x"),
        (THEIRS, OWN),
        (f"{THEIRS}?a", f"{OWN}?a"),
        (f"{THEIRS}1/v1/x", f"{THEIRS}1/v1/x"),
        (f"{THEIRS}.evil/x", f"{THEIRS}.evil/x"),
        (f"x{THEIRS}/y", f"x{THEIRS}/y"),
        ("", ""),
    ],
)
def test_only_the_whole_beginning_is_moved(uri: str, moved: str) -> None:
    assert rebased(uri, OWN, THEIRS) == moved


@given(st.binary(max_size=200) | st.integers(0, 400).map(lambda size: body([[1]])[:size]))
def test_any_bytes_are_read_without_fault(text: bytes) -> None:
    leading_members(text)
    rewrite_uris(text, OWN, THEIRS)
    rewrite_segment_uris(text, OWN, THEIRS)


def test_a_truncated_response_is_never_taken_for_complete() -> None:
    text = body([[1]])
    members = set(leading_members(text).members)
    for size in range(len(text)):
        leading = leading_members(text[:size])
        assert set(leading.members) <= members
        assert not leading.complete or set(leading.members) == members


def sent_and_received(reply: bytes, path: str = "/v1/statement/executing/q/s/1", **more) -> tuple[Request, bytes]:
    with recording(reply) as trino, gateway(trino.port, **more) as hosted:
        raw = exchange(hosted.port, get(path, "Accept-Encoding: gzip"))
    return trino.requests[0], raw.partition(b"\r\n\r\n")[2]


def with_host(port: int, text: bytes) -> bytes:
    return text.replace(THEIRS.encode(), f"http://127.0.0.1:{port}".encode())


@pytest.mark.parametrize("size", [1, 100_000, 12_000_000])
@pytest.mark.parametrize("chunked", [True, False])
def test_answers_of_any_size_are_led_back(size: int, chunked: bool) -> None:
    text = b""

    def reply(request: Request) -> bytes:
        nonlocal text
        text = with_host(trino.port, body([["x" * size, THEIRS]]))
        if chunked:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            pieces = [text[at : at + 7777] for at in range(0, min(len(text), 200_000), 7777)]
            rest = text[len(pieces) * 7777 :]
            pieces += [rest] if rest else []
            return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        return answer(text, "Content-Type: application/json")

    with recording(reply) as trino, gateway(trino.port, uris="rewrite") as hosted:
        raw = exchange(hosted.port, get("/v1/statement/executing/q/s/1", "Connection: close"))
    head, _, received = raw.partition(b"\r\n\r\n")
    if b"chunked" in head:
        assert received.endswith(b"\r\n0\r\n\r\n")
        received = unchunked(received)
    assert json.loads(received)["nextUri"] == "http://gate:1/v1/statement/executing/q1/s/1"
    assert json.loads(received)["data"] == json.loads(text)["data"]
    (request,) = trino.requests
    assert request.one("host") == f"127.0.0.1:{trino.port}"


def unchunked(text: bytes) -> bytes:
    joined = b""
    while text:
        size, _, text = text.partition(b"\r\n")
        joined += text[: int(size, 16)]
        text = text[int(size, 16) + 2 :]
    return joined


def test_an_answer_that_needs_no_change_is_asked_for_as_the_client_did() -> None:
    request, _ = sent_and_received(answer(body([]), "Content-Type: application/json"))
    assert request.one("accept-encoding") == "gzip"
    assert request.one("host") == "gate:1"
    request, _ = sent_and_received(answer(body([]), "Content-Type: application/json"), uris="rewrite")
    assert request.one("accept-encoding") == "identity"


def test_forwarded_headers_tell_trino_of_the_client() -> None:
    with recording(answer(b"{}")) as trino, gateway(trino.port, uris="forwarded") as hosted:
        exchange(hosted.port, post("select 1"))
        exchange(hosted.port, post("select 1", "X-Forwarded-For: 10.0.0.9", "X-Forwarded-Proto: https"))
    first, second = trino.requests
    assert first.one("host") == "gate:1"
    assert first.one("x-forwarded-for") == "127.0.0.1"
    assert first.one("x-forwarded-proto") == "http"
    assert first.one("x-forwarded-host") == "gate:1"
    assert second.one("x-forwarded-for") == "10.0.0.9, 127.0.0.1"
    assert second.one("x-forwarded-proto") == "https"
