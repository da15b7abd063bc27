"""A limit on bytes that tasks of an event loop hold together."""

from __future__ import annotations

import asyncio


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
