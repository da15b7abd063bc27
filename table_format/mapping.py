"""Mapping a function over many items: here in threads, in `spark_writer` by Spark tasks."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS = 8


class _Cores:
    """Number of computing threads of this process."""

    most = min(_MOST_THREADS, os.cpu_count() or 1)


def compute_threads() -> int:
    """Number of threads for CPU-bound work; reads that wait for the storage may use more."""
    return _Cores.most


def use_one_core() -> None:
    """Compute in one thread, as in a Spark task, since other tasks use the machine's other cores."""
    _Cores.most = 1


class Mapper(Protocol):
    """Runs a function on each item; the results come in the order of the items.

    The function and the items must pickle, since another process may run them. A worker may run an item twice, so
    files that it writes need a name of their own for each attempt; only the returned results count.
    """

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply the function to all items; the first error is raised."""


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Map in a few threads of this process; a single item runs in the caller's thread."""
    if len(items) <= 1 or compute_threads() == 1:
        return [function(item) for item in items]
    with concurrent.futures.ThreadPoolExecutor(min(compute_threads(), len(items))) as pool:
        return list(pool.map(function, items))
