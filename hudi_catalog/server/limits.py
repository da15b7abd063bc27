"""Limits of a server: bytes in memory, warnings in the log, bytes of one write."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

CHUNK_BYTES = 1 << 20
_WARNINGS, _SECONDS = 20, 10.0


class ByteBudget:
    """A limit on the bytes that the tasks of one event loop hold together. Tasks can wait for room.

    Args:
        limit: in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reserved = 0
        self._available = asyncio.Event()
        self._available.set()

    def reserve(self, size: int) -> None:
        """Count further bytes, even beyond the limit."""
        self._reserved += size
        if self._reserved >= self._limit:
            self._available.clear()

    def release(self, size: int) -> None:
        """Give bytes back."""
        self._reserved -= size
        if self._reserved < self._limit:
            self._available.set()

    def fits(self, size: int) -> bool:
        """Whether this many further bytes stay within the limit."""
        return self._reserved + size <= self._limit

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return not self._available.is_set()

    async def wait(self) -> None:
        """Wait until fewer bytes than the limit are reserved."""
        await self._available.wait()


class RateLimitedLog:
    """Logs a limited number of warnings per period, then the count of suppressed ones, so that no client fills a disk.

    Args:
        log: receives the warnings.
        limit: warnings per period.
        seconds: length of a period.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        log: logging.Logger,
        limit: int = _WARNINGS,
        seconds: float = _SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._clock = clock
        self._limit, self._seconds = limit, seconds
        self._lock = threading.Lock()
        self._period_start = float("-inf")
        self._count = 0

    def warning(self, message: str, *values: object) -> None:
        """As `logging.Logger.warning`."""
        now = self._clock()
        with self._lock:
            suppressed = 0
            if now - self._period_start >= self._seconds:
                suppressed = max(0, self._count - self._limit)
                self._period_start, self._count = now, 0
            self._count += 1
            passes = self._count <= self._limit
        if suppressed:
            self._log.warning("%d more warnings like those before were left out", suppressed)
        if passes:
            self._log.warning(message, *values)


def chunked(buffers: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Chunks of about a megabyte: small buffers are joined, large ones are split without copying."""
    small: list[bytes | memoryview] = []
    joined = 0
    for buffer in buffers:
        size = size_of(buffer)
        if joined + size <= CHUNK_BYTES:
            small.append(buffer)
            joined += size
            continue
        if small:
            yield b"".join(small)
            small, joined = [], 0
        view = memoryview(buffer).cast("B")
        for begin in range(0, size, CHUNK_BYTES):
            yield view[begin : begin + CHUNK_BYTES]
    if small:
        yield b"".join(small)


def size_of(buffer: bytes | memoryview) -> int:
    """Bytes in a buffer."""
    return len(buffer) if isinstance(buffer, bytes) else buffer.nbytes
