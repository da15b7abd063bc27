"""Applying a function to many items, wherever the caller has workers: here in threads, in `spark_writer` by Spark."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS = 8


class _Cores:
    """How many threads compute at a time in this process."""

    most = min(_MOST_THREADS, os.cpu_count() or 1)


def compute_threads() -> int:
    """Threads for work that keeps a core busy; reads that wait for the storage may have more."""
    return _Cores.most


def use_one_core() -> None:
    """Say that others have this machine's other cores, as in a task of Spark."""
    _Cores.most = 1


class Mapper(Protocol):
    """Runs a function on each item; the results come in the order of the items.

    The function and the items must pickle, since another process may run them. A worker may run an item twice, so that
    what it writes must have a name of its own for each attempt; only the results that come back count.
    """

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply the function to all items; the first error is raised."""


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The mapper of one process: a few threads, none for a single item."""
    if len(items) <= 1 or compute_threads() == 1:
        return [function(item) for item in items]
    with concurrent.futures.ThreadPoolExecutor(min(compute_threads(), len(items))) as pool:
        return list(pool.map(function, items))
