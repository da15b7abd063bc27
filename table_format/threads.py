"""Number of threads in which this process computes, and work shared among them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS = 8


class _Cores:
    """Number of computing threads of this process."""

    most = min(_MOST_THREADS, os.cpu_count() or 1)


class _OfThread(threading.local):
    """Number of computing threads that work of the current thread may use; None for the process's."""

    most: int | None = None


_of_thread = _OfThread()


def compute_threads() -> int:
    """Number of threads for CPU-bound work; reads that wait for the storage may use more."""
    return _Cores.most if _of_thread.most is None else min(_of_thread.most, _Cores.most)


@contextlib.contextmanager
def within_threads(most: int) -> Iterator[None]:
    """Let the current thread's work use some threads only, since other tasks of the same job use the other cores."""
    before = _of_thread.most
    _of_thread.most = most
    try:
        yield
    finally:
        _of_thread.most = before


def use_one_core() -> None:
    """Compute in one thread, as in a Spark task, since other tasks use the machine's other cores."""
    _Cores.most = 1


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply a function that releases the interpreter's lock for most of its time; results in order."""
    count = min(compute_threads(), len(items))
    if count <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, items))
