"""How much work some code does, counted rather than timed: the same on an idle and on a busy machine."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest import mock

from table_format.storage import Storage

_CALLS = ("list", "read", "read_range", "create", "overwrite", "exists", "entry", "delete", "delete_dir")


def function_calls(action: Callable[..., Any], *arguments: Any) -> int:
    """How many functions an action calls, built-in ones included: shows work that grows faster than the input."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action(*arguments)
    finally:
        sys.setprofile(before)
    return calls


@contextmanager
def storage_work() -> Iterator[Counter[str]]:
    """Count the calls to storages within, and the bytes that they read and write."""
    counts: Counter[str] = Counter()

    def wrapped(name: str) -> Callable[..., Any]:
        method = getattr(Storage, name)

        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            counts["calls"] += 1
            if name.startswith("read"):
                counts["bytes"] += len(answer)
            elif name in ("create", "overwrite"):
                counts["bytes"] += len(arguments[2])
            return answer

        return call

    with mock.patch.multiple(Storage, **{name: wrapped(name) for name in _CALLS}):
        yield counts
