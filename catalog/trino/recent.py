"""Values that may be wanted again, as long as there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """A few values by name, the least recently used ones dropped; threads may share it.

    Args:
        limit: how many are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, name: str) -> T | None:
        """The value, if it is still kept."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
            return self._values.get(name)

    def put(self, name: str, value: T) -> None:
        """Keep a value."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self._limit:
                self._values.popitem(last=False)

    def drop(self, name: str) -> None:
        """Keep a value no longer, if it was kept."""
        with self._lock:
            self._values.pop(name, None)
