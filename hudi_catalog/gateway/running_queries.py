"""Which queries still run, known from the answers that pass: one without a next URI is a query's last."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable

from hudi_catalog.gateway.uris import HEAD, opening_of, readable_head

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
