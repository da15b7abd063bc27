"""Warnings that a client can cause as often as it likes, and that fill no disk."""

from __future__ import annotations

import logging
import threading
import time

_MOST, _SECONDS = 20, 10.0


class FewWarnings:
    """Passes on a limited number of warnings in a period, and then how many more there were.

    Args:
        log: where they go.
        most: in a period.
        seconds: of a period.
    """

    def __init__(self, log: logging.Logger, most: int = _MOST, seconds: float = _SECONDS) -> None:
        self._log = log
        self._most, self._seconds = most, seconds
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._count = 0

    def warn(self, message: str, *values: object) -> None:
        """As `logging.Logger.warning`."""
        now = time.monotonic()
        with self._lock:
            left_out = 0
            if now - self._began >= self._seconds:
                left_out = max(0, self._count - self._most)
                self._began, self._count = now, 0
            self._count += 1
            passes = self._count <= self._most
        if left_out:
            self._log.warning("%d more warnings like those before were left out", left_out)
        if passes:
            self._log.warning(message, *values)
