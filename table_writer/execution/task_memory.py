"""How a writing task divides the memory that it may take, and when free memory is given back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

T = TypeVar("T")

_LEAST: Final = 1 << 20
_LARGEST_BLOCK: Final = 16 << 20
_LARGEST_BATCH: Final = 64 << 20

# Divisors of the limit. Rows are held twice, as they came and in the order of the file, beside the file's buffers.
_ROWS: Final = 6
_COLLECTED: Final = 2
_WAITING: Final = 8
_BATCH: Final = 16

_KEPT_MILLISECONDS: Final = 10_000


@dataclass(frozen=True)
class TaskMemory:
    """The parts of a task's memory limit; whatever a task holds at a time is one of them or a copy of one.

    Attributes:
        limit: bytes that the task may take, at least 1 MiB.
    """

    limit: int

    @classmethod
    def of(cls, limit: int | None) -> TaskMemory | None:
        """The parts of a limit; None without one."""
        return None if limit is None else cls(max(_LEAST, limit))

    @property
    def rows(self) -> int:
        """Bytes of rows that are keyed together, or sorted and encoded together."""
        return self.limit // _ROWS

    @property
    def collected(self) -> int:
        """Bytes of rows that are collected before they are spilled by ranges of their keys."""
        return self.limit // _COLLECTED

    @property
    def waiting(self) -> int:
        """Compressed bytes of the slots whose turn has not come."""
        return self.limit // _WAITING

    @property
    def batch(self) -> int:
        """Bytes of a batch that is read."""
        return min(_LARGEST_BATCH, self.limit // _BATCH)

    @property
    def block(self) -> int:
        """Bytes of rows that are compressed, and decompressed, at once."""
        return min(_LARGEST_BLOCK, self.limit // _BATCH)


def again_from(first: list[T], rest: Iterator[T]) -> Iterator[T]:
    """A first item, taken out of its list, and the rest; unlike `itertools.chain`, this holds no item meanwhile."""
    yield first.pop()
    yield from rest


class _Writes:
    """Counts the writes that have Arrow keep freed pages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._replaced: pa.MemoryPool | None = None

    def begin(self) -> None:
        with self._lock:
            self._running += 1
            pool = pa.default_memory_pool()
            keeping = keeping_pool()
            if self._running == 1 and keeping is not None and _is_usual(pool):
                pa.set_memory_pool(keeping)
                self._replaced = pool

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and self._replaced is not None:
                pa.set_memory_pool(self._replaced)
                self._replaced = None


_WRITES: Final = _Writes()


@contextlib.contextmanager
def pages_kept() -> Iterator[None]:
    """Have Arrow keep the pages of freed buffers for ten seconds, for the buffers to come.

    Arrow's usual allocator, mimalloc, gives them back within milliseconds, and the system clears each page that it
    hands out again: up to a fifth of a write's time. Until the last write ends, buffers of this process come from
    jemalloc instead, which gives pages back by a thread of its own. A pool that the program has set stays.
    """
    _WRITES.begin()
    try:
        yield
    finally:
        _WRITES.end()


def _is_usual(pool: pa.MemoryPool) -> bool:
    """Whether a pool is mimalloc itself; a proxy has its name, but counts for itself."""
    if pool.backend_name != "mimalloc":
        return False
    return pool.total_bytes_allocated() == pa.mimalloc_memory_pool().total_bytes_allocated()


@functools.cache
def keeping_pool() -> pa.MemoryPool | None:
    """Arrow's jemalloc pool, told to keep the pages of freed buffers; None where Arrow has none.

    It gives pages back by a thread of its own, so that a forked process calls this for itself.
    """
    if "jemalloc" not in pa.supported_memory_backends():
        return None  # not on Windows
    pa.jemalloc_set_decay_ms(_KEPT_MILLISECONDS)
    return pa.jemalloc_memory_pool()


def release_free_memory() -> None:
    """Give the pages of freed memory back to the system.

    The C library keeps them between blocks that are in use: a process otherwise grows to several times what it holds.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], Any] | None:
    """`malloc_trim` of the GNU C library; None with another one."""
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
