"""Values that may be wanted again, as long as there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
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
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept now."""
        return len(self._values)

    def get(self, name: Hashable) -> T | None:
        """The value, if it is still kept."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
            return self._values.get(name)

    def put(self, name: Hashable, value: T, limit: int | None = None) -> None:
        """Keep a value.

        Args:
            name: of the value.
            value: to be kept; in place of another of that name.
            limit: how many are to be left now; None for as many as ever.
        """
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            self._shrink(limit)

    def put_first(self, name: Hashable, value: T) -> T:
        """Keep a value unless there is one of that name; the value that is kept then."""
        with self._lock:
            kept = self._values.setdefault(name, value)
            self._values.move_to_end(name)
            self._shrink(None)
            return kept

    def values(self) -> list[T]:
        """All values that are kept now."""
        with self._lock:
            return list(self._values.values())

    def drop(self, name: Hashable, value: T | None = None) -> None:
        """Keep a value no longer, if it was kept; when one is given, only if it is that very one."""
        with self._lock:
            if value is None or self._values.get(name) is value:
                self._values.pop(name, None)

    def _shrink(self, limit: int | None) -> None:
        most = self._limit if limit is None else limit
        while len(self._values) > most:
            self._values.popitem(last=False)
