"""A limit on bytes that tasks of an event loop hold together."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence


class Room:
    """Bytes that are held, and a way to wait until they are few enough.

    Args:
        limit: of bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._free = asyncio.Event()
        self._free.set()

    def take(self, size: int) -> None:
        """Hold some bytes more, whether they fit or not."""
        self._held += size
        if self._held >= self._limit:
            self._free.clear()

    def give_back(self, size: int) -> None:
        """Hold some bytes less."""
        self._held -= size
        if self._held < self._limit:
            self._free.set()

    def fits(self, size: int) -> bool:
        """Whether so many bytes more stay within the limit."""
        return self._held + size <= self._limit

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return not self._free.is_set()

    async def wait(self) -> None:
        """Wait until the limit is not reached."""
        await self._free.wait()


_MOST, _SECONDS = 20, 10.0


class FewWarnings:
    """Passes on a limited number of warnings in a period, and then how many more there were.

    Args:
        log: where they go.
        most: in a period.
        seconds: of a period.
    """

    def __init__(self, log: logging.Logger, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._log = log
        self._most, self._seconds = most, seconds
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._count = 0

    def warn(self, message: str, *values: object) -> None:
        """As `logging.Logger.warning`."""
        now = time.monotonic()
        with self._lock:
            left_out = 0
            if now - self._began >= self._seconds:
                left_out = max(0, self._count - self._most)
                self._began, self._count = now, 0
            self._count += 1
            passes = self._count <= self._most
        if left_out:
            self._log.warning("%d more warnings like those before were left out", left_out)
        if passes:
            self._log.warning(message, *values)


CHUNK = 1 << 20


def chunks(parts: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The parts' bytes in pieces of a good size: small ones joined, large ones divided without a copy."""
    small: list[bytes | memoryview] = []
    held = 0
    for part in parts:
        size = size_of(part)
        if held + size <= CHUNK:
            small.append(part)
            held += size
            continue
        if small:
            yield b"".join(small)
            small, held = [], 0
        view = memoryview(part).cast("B")
        for begin in range(0, size, CHUNK):
            yield view[begin : begin + CHUNK]
    if small:
        yield b"".join(small)


def size_of(part: bytes | memoryview) -> int:
    """Bytes of a part."""
    return len(part) if isinstance(part, bytes) else part.nbytes
