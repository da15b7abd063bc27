"""What footers told, kept in bounds."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from table_format.base_file.footer import FooterStatistics

_MOST_ENTRIES = 200_000


class FooterCache:
    """Statistics by file and column; when there are too many, all are forgotten.

    Threads may share it: `get` answers None for what another thread has made it forget, which is unknown.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[int, str], FooterStatistics | None] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: tuple[int, str]) -> bool:
        return key in self._entries

    def put(self, row: int, statistics: Mapping[str, FooterStatistics | None]) -> None:
        """Keep what a file's footer told."""
        with self._lock:
            if len(self._entries) > _MOST_ENTRIES:
                self._entries.clear()
            self._entries.update({(row, column): found for column, found in statistics.items()})

    def get(self, rows: NDArray[np.int64], column: str) -> list[FooterStatistics | None]:
        """What is known of a column in some files."""
        return [self._entries.get((int(row), column)) for row in rows]
