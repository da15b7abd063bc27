"""Trino's client protocol as it passes by: URIs in responses, and which queries are still running.

URIs stand before the rows, so they are read and rewritten without parsing the rows. A response without a next URI is a
query's last.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from catalog.concurrency.caches import LruCache

# Members that a client follows; they precede `columns` and `data` in Trino's responses.
_FOLLOWED = ("infoUri", "partialCancelUri", "nextUri")

_OPENING = re.compile(rb"\s*\{")

_MEMBER = re.compile(rb'\s*"([A-Za-z]+)"\s*:\s*"([^"\\]*)"\s*(,|\})')

_SEGMENT_URI = re.compile(r'("(?:uri|ackUri)"\s*:\s*")([^"\\]*)(?=")')
HEAD = 65_536
"""Bytes at the start of a response that are searched for URIs."""


@dataclass(frozen=True)
class LeadingMembers:
    """The string members at the start of a JSON object.

    Attributes:
        members: name to the span of its value, up to the first member that is not a plain string.
        complete: whether that member or the object's end was seen, so that no further string member can follow.
    """

    members: dict[str, tuple[int, int]]
    complete: bool


def leading_members(body: bytes) -> LeadingMembers:
    """Read the first members of a JSON object, up to the first whose value is not a plain string."""
    members: dict[str, tuple[int, int]] = {}
    start = _OPENING.match(body)
    if start is None:
        return LeadingMembers(members, complete=bool(body.strip()))
    position = start.end()
    while (member := _MEMBER.match(body, position)) is not None:
        members[member[1].decode()] = member.span(2)
        position = member.end()
        if member[3] == b"}":
            return LeadingMembers(members, complete=True)
    # A value of another kind: `"stats":{`, `"columns":[`, `"data":null`.
    other = re.compile(rb'\s*("[^"]*"\s*:\s*[^"\s]|\})').match(body, position)
    return LeadingMembers(members, complete=other is not None)


def readable_head(body: bytes, encoding: str) -> bytes | None:
    """The first bytes of a response body, decompressed.

    Args:
        body: first bytes of the body as received.
        encoding: content encoding: empty, `identity` or `gzip`.

    Returns:
        None for an unsupported encoding.
    """
    if encoding in {"", "identity"}:
        return body[:HEAD]
    if encoding not in {"gzip", "x-gzip"}:
        return None
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body, HEAD)
    except zlib.error:
        return None


def rewrite_uris(body: bytes, gateway: str, trino: str) -> bytes:
    """Replace the prefix of the URIs at the start of a response.

    Args:
        body: the response's first bytes, with all its leading members.
        gateway: prefix that leads to the gateway, `https://host:port`.
        trino: prefix that Trino writes.
    """
    members = leading_members(body).members
    places = sorted((members[name] for name in _FOLLOWED if name in members), reverse=True)
    for start, end in places:
        uri = rebased(body[start:end].decode(), gateway, trino)
        body = body[:start] + uri.encode() + body[end:]
    return body


def rewrite_segment_uris(body: bytes, gateway: str, trino: str) -> bytes:
    """Replace the prefix of spooled segments' URIs where a response's `data` is a list of segments.

    Rows are never changed.
    """
    try:
        text = body.decode()
        span = _data_span(text)
    except ValueError:
        return body
    if span is None:
        return body
    start, end = span
    data = _SEGMENT_URI.sub(lambda match: match[1] + rebased(match[2], gateway, trino), text[start:end])
    return (text[:start] + data + text[end:]).encode()


def rebased(uri: str, gateway: str, trino: str) -> str:
    """A URI with its prefix replaced, if it has that prefix."""
    rest = uri[len(trino) :]
    return gateway + rest if uri.startswith(trino) and (not rest or rest[0] in "/?#") else uri


def _data_span(text: str) -> tuple[int, int] | None:
    """Start and end of the member `data` of a JSON object, if it is an object itself."""
    decoder = json.JSONDecoder()
    spaces = re.compile(r"[\s,:{]*")
    position = spaces.match(text, 0).end()  # type: ignore[union-attr]  # also matches empty text
    while position < len(text) and text[position] == '"':
        name, position = decoder.raw_decode(text, position)
        position = re.compile(r"[\s:]*").match(text, position).end()  # type: ignore[union-attr]
        if name == "data":
            if text[position : position + 1] != "{":
                return None
            return position, decoder.raw_decode(text, position)[1]
        _, position = decoder.raw_decode(text, position)
        position = re.compile(r"[\s,]*").match(text, position).end()  # type: ignore[union-attr]
    return None


_MOST = 100_000
_SPOOLED_SECONDS = 5.0
_QUERY_OF_PATH = re.compile(r"/v1/statement/(?:queued/|executing/)?(?:partialCancel/)?([A-Za-z0-9_]+)(?:/|$)")


class RunningQueries:
    """Queries that clients are still polling. Bounded; queries that nobody polls are forgotten.

    Args:
        abandoned_after: seconds without a request after which a query counts as abandoned.
        clock: monotonic seconds.
    """

    def __init__(self, abandoned_after: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queries: LruCache[str, bool] = LruCache(_MOST, idle_seconds=abandoned_after, clock=clock)
        self._spooled = -_SPOOLED_SECONDS

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def busy(self) -> bool:
        """Whether a query is running, or a client fetched spooled rows a moment ago."""
        return len(self) > 0 or self._clock() - self._spooled < _SPOOLED_SECONDS

    def saw_request(self, path: str) -> None:
        """Record a client's request for a query's next rows, or for spooled rows."""
        match = _QUERY_OF_PATH.match(path)
        if match is not None:
            self._queries.get(match[1])  # counts as a use
        elif path.startswith("/v1/spooled/"):
            self._spooled = self._clock()

    def saw_response(self, method: str, path: str, status: int, head: bytes, encoding: str) -> str | None:
        """Record the response to a statement or to a request for its next rows.

        Args:
            method: of the request.
            path: of the request.
            status: of the response.
            head: the response's first bytes.
            encoding: its content encoding.

        Returns:
            The query's id, None if the response does not contain one.
        """
        match = _QUERY_OF_PATH.match(path)
        if match is not None and (status in {204, 404, 410} or (method == "DELETE" and "/partialCancel/" not in path)):
            self._queries.pop(match[1])
            return match[1]
        text = readable_head(head, encoding) if status == 200 else None
        if text is None:
            return None
        opening = leading_members(text)
        identity = _member(text, opening.members, "id")
        if identity is None:
            return None
        if "nextUri" in opening.members or (not opening.complete and len(text) >= HEAD):
            self._queries.put(identity, True)  # a set of ids
        else:
            self._queries.pop(identity)
            if b'"segments"' in text:
                self._spooled = self._clock()
        return identity


def _member(text: bytes, members: dict[str, tuple[int, int]], name: str) -> str | None:
    if name not in members:
        return None
    start, end = members[name]
    return text[start:end].decode("ascii", "replace")
