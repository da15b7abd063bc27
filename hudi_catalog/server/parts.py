"""Replies in parts: many small ones, and some that are too large to copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
