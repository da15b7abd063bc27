"""The URIs in Trino's answers: found without reading the rows, and led back through the gateway where need be."""

from __future__ import annotations

import json
import re
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

# Members that a client follows. They stand before `columns` and `data` in Trino's answers.
_FOLLOWED = ("infoUri", "partialCancelUri", "nextUri")

_OPENING = re.compile(rb"\s*\{")

_MEMBER = re.compile(rb'\s*"([A-Za-z]+)"\s*:\s*"([^"\\]*)"\s*(,|\})')

_SEGMENT_URI = re.compile(r'("(?:uri|ackUri)"\s*:\s*")([^"\\]*)(?=")')

HEAD = 65_536

"""Bytes of an answer in which its URIs are looked for."""


@dataclass(frozen=True)
class Opening:
    """The texts with which an answer's object begins.

    Attributes:
        members: name to the value's place in the bytes, up to the first member that is no plain text.
        whole: whether that first other member, or the end, has been seen: none of the texts can come later.
    """

    members: dict[str, tuple[int, int]]
    whole: bool


def opening_of(body: bytes) -> Opening:
    """Read the first members of a JSON object as far as they are plain texts."""
    members: dict[str, tuple[int, int]] = {}
    start = _OPENING.match(body)
    if start is None:
        return Opening(members, whole=bool(body.strip()))
    position = start.end()
    while (found := _MEMBER.match(body, position)) is not None:
        members[found[1].decode()] = found.span(2)
        position = found.end()
        if found[3] == b"}":
            return Opening(members, whole=True)
    # Another kind of value begins right after its name: `"stats":{`, `"columns":[`, `"data":null`.
    other = re.compile(rb'\s*("[^"]*"\s*:\s*[^"\s]|\})').match(body, position)
    return Opening(members, whole=other is not None)


def readable_head(body: bytes, encoding: str) -> bytes | None:
    """The first bytes of an answer's text.

    Args:
        body: its first bytes as they arrived.
        encoding: of the content: empty, `identity` or `gzip`.

    Returns:
        None for an encoding that is not read here.
    """
    if encoding in {"", "identity"}:
        return body[:HEAD]
    if encoding not in {"gzip", "x-gzip"}:
        return None
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body, HEAD)
    except zlib.error:
        return None


def lead_back(body: bytes, own: str, theirs: str) -> bytes:
    """Exchange the beginning of the URIs with which an answer opens.

    Args:
        body: the answer's first bytes, with its whole `opening_of`.
        own: the beginning that leads to the gateway, `https://host:port`.
        theirs: the one that leads to Trino.
    """
    members = opening_of(body).members
    places = sorted((members[name] for name in _FOLLOWED if name in members), reverse=True)
    for start, end in places:
        uri = moved(body[start:end].decode(), own, theirs)
        body = body[:start] + uri.encode() + body[end:]
    return body


def lead_segments_back(body: bytes, own: str, theirs: str) -> bytes:
    """Exchange the beginning of the URIs of spooled segments, when an answer's `data` is a list of segments.

    Rows are left alone, whatever stands in them.
    """
    try:
        text = body.decode()
        span = _data_span(text)
    except ValueError:
        return body
    if span is None:
        return body
    start, end = span
    data = _SEGMENT_URI.sub(lambda found: found[1] + moved(found[2], own, theirs), text[start:end])
    return (text[:start] + data + text[end:]).encode()


def moved(uri: str, own: str, theirs: str) -> str:
    """A URI with another beginning, if it has that one."""
    rest = uri[len(theirs) :]
    return own + rest if uri.startswith(theirs) and (not rest or rest[0] in "/?#") else uri


def _data_span(text: str) -> tuple[int, int] | None:
    """Where the value of the object's member `data` stands, when it is an object."""
    decoder = json.JSONDecoder()
    spaces = re.compile(r"[\s,:{]*")
    position = spaces.match(text, 0).end()  # type: ignore[union-attr]  # it matches nothing too
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
    """The queries that clients still ask about. Bounded; one that nobody asks about any more is forgotten.

    Args:
        abandoned_after: seconds without a request until a query counts as given up.
        clock: seconds that only grow.
    """

    def __init__(self, abandoned_after: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._abandoned_after = abandoned_after
        self._clock = clock
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._spooled = -_SPOOLED_SECONDS

    def __len__(self) -> int:
        oldest = self._clock() - self._abandoned_after
        while self._seen and next(iter(self._seen.values())) < oldest:
            self._seen.popitem(last=False)
        return len(self._seen)

    @property
    def busy(self) -> bool:
        """Whether a query runs, or a client fetched spooled rows just now."""
        return len(self) > 0 or self._clock() - self._spooled < _SPOOLED_SECONDS

    def asked(self, path: str) -> None:
        """A request for a query or for spooled rows came in."""
        found = _QUERY_OF_PATH.match(path)
        if found is not None and found[1] in self._seen:
            self._touch(found[1])
        elif path.startswith("/v1/spooled/"):
            self._spooled = self._clock()

    def answered(self, method: str, path: str, status: int, head: bytes, encoding: str) -> str | None:
        """An answer to a statement, or to a request for its next rows, went by.

        Args:
            method: of the request.
            path: of the request.
            status: of the answer.
            head: the answer's first bytes.
            encoding: of its content.

        Returns:
            The query's id, None when the answer does not tell.
        """
        found = _QUERY_OF_PATH.match(path)
        if found is not None and (status in {204, 404, 410} or (method == "DELETE" and "/partialCancel/" not in path)):
            self._seen.pop(found[1], None)
            return found[1]
        text = readable_head(head, encoding) if status == 200 else None
        if text is None:
            return None
        opening = opening_of(text)
        identity = _member(text, opening.members, "id")
        if identity is None:
            return None
        if "nextUri" in opening.members or (not opening.whole and len(text) >= HEAD):
            self._touch(identity)
        else:
            self._seen.pop(identity, None)
            if b'"segments"' in text:
                self._spooled = self._clock()
        return identity

    def _touch(self, identity: str) -> None:
        self._seen[identity] = self._clock()
        self._seen.move_to_end(identity)
        while len(self._seen) > _MOST:
            self._seen.popitem(last=False)


def _member(text: bytes, members: dict[str, tuple[int, int]], name: str) -> str | None:
    if name not in members:
        return None
    start, end = members[name]
    return text[start:end].decode("ascii", "replace")
