"""What stages found out about a snapshot, kept as long as the snapshot is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from catalog.snapshot.snapshot import Snapshot

T = TypeVar("T")

_KEPT: WeakKeyDictionary[Snapshot, dict[Hashable, Any]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def kept(snapshot: Snapshot, key: Hashable, make: Callable[[], T]) -> T:
    """What `make` returned the first time for this snapshot and key; at worst two threads make it at once."""
    with _LOCK:
        of_snapshot = _KEPT.setdefault(snapshot, {})
    if key not in of_snapshot:
        of_snapshot[key] = make()
    found: T = of_snapshot[key]
    return found
