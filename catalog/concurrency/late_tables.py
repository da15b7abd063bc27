"""Tables whose storage hangs: they are refused at once and retried in the background, and others are served.

A table is late when one call to its storage has waited for longer than the limit, such as to open a file of a mount
whose server is gone. A slow table, which answers one call after the other, is not late.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from catalog.concurrency.workers import GiveUp, giving_up
from table_format.errors import HudiError, LateTableError, TableNotFoundError
from table_format.storage import StorageCall, unanswered_calls

_LOG = logging.getLogger(__name__)
DEFAULT_SECONDS = 10.0
_MIN_POLL, _MAX_POLL = 0.02, 1.0
_MAX_RETRY_PAUSE = 60.0


@dataclass(frozen=True)
class Late:
    """A table whose storage hangs.

    Attributes:
        name: of the table.
        folder: of the table, as its file system names it.
        place: path or URI whose call hangs.
        since: when the call began, in seconds of `time.monotonic`.
    """

    name: str
    folder: str
    place: str
    since: float

    def __str__(self) -> str:
        seconds = time.monotonic() - self.since
        return f"its storage does not answer: {self.place} has not answered for {seconds:.0f} s"


@dataclass(frozen=True, eq=False)
class _Job:
    name: str
    folder: str
    thread: int
    own_calls: bool
    probe: Callable[[], object] | None
    give_up: GiveUp | None

    def waits_for(self, call: StorageCall) -> bool:
        if self.own_calls:
            return call.thread == self.thread
        return call.place == self.folder or call.place.startswith(f"{self.folder.rstrip('/')}/")


class LateTables:
    """Watches work on tables for storage that hangs; threads may share it.

    Args:
        seconds: for which a single call to a storage may go unanswered.

    Attributes:
        refused: how often work was refused or given up since the start.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self.refused = 0
        self._lock = threading.Lock()
        self._jobs: set[_Job] = set()
        self._late: dict[str, Late] = {}
        self._watching = False

    def __len__(self) -> int:
        """How many tables are late."""
        return len(self._late)

    def late(self) -> list[Late]:
        """The tables that are late now, by name."""
        with self._lock:
            return sorted(self._late.values(), key=lambda late: late.name)

    @contextlib.contextmanager
    def working(
        self, name: str, folder: str, probe: Callable[[], object] | None = None, *, own_calls: bool = False
    ) -> Iterator[None]:
        """Work on a table in this thread. If the table becomes late, the job of `Workers` that runs here is given up.

        Args:
            name: of the table, for messages.
            folder: of the table, as its file system names it.
            probe: a call to the table that shows whether it answers again; None to take it as answering once no call
                hangs.
            own_calls: whether only this thread's calls count, rather than all calls to paths in the folder.

        Raises:
            LateTableError: the table is late.
        """
        job = _Job(name, folder, threading.get_ident(), own_calls, probe, giving_up())
        with self._lock:
            late = self._late.get(folder)
            if late is not None:
                self.refused += 1
                raise LateTableError(_message(late))
            self._jobs.add(job)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="late tables", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._jobs.discard(job)

    def _watch(self) -> None:
        while True:
            time.sleep(min(_MAX_POLL, max(_MIN_POLL, self.seconds / 4)))
            calls = unanswered_calls(self.seconds)
            with self._lock:
                if not self._jobs:
                    self._watching = False
                    return
                hung = [(job, call) for job in self._jobs for call in calls if job.waits_for(call)]
                for job, call in hung:
                    if job.folder not in self._late:
                        self._late[job.folder] = Late(job.name, job.folder, call.place, call.since)
                        threading.Thread(target=self._retry, args=(job,), name="retry", daemon=True).start()
                given_up = [job for job in self._jobs if job.folder in self._late]
                self._jobs.difference_update(given_up)
                self.refused += len(given_up)
                messages = {job.folder: _message(self._late[job.folder]) for job in given_up}
            for message in messages.values():
                _LOG.warning("%s", message)
            for job in given_up:
                if job.give_up is not None:
                    with contextlib.suppress(RuntimeError):  # no thread can start in place of the one that hangs
                        job.give_up(LateTableError(messages[job.folder]))

    def _retry(self, job: _Job) -> None:
        """Wait until no call to the table hangs and the probe succeeds."""
        pause = min(_MAX_POLL, self.seconds)
        while True:
            time.sleep(pause)
            pause = min(_MAX_RETRY_PAUSE, 2 * pause)
            while any(job.waits_for(call) for call in unanswered_calls(self.seconds)):
                time.sleep(min(_MAX_POLL, self.seconds))
            try:
                if job.probe is not None:
                    job.probe()
            except TableNotFoundError:
                pass  # the table was deleted
            except HudiError as error:
                _LOG.info("%s: still late: %s", job.name, error)
                continue
            except Exception:  # noqa: BLE001  # the next query reports it
                _LOG.exception("%s: its probe failed with another error; the table is no longer late", job.name)
            break
        with self._lock:
            late = self._late.pop(job.folder)
        _LOG.warning("%s: its storage answers again after %.0f s", job.name, time.monotonic() - late.since)


def _message(late: Late) -> str:
    return f"{late.name}: {late}; other tables are served, and this one as soon as it answers"
