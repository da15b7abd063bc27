"""Worker threads for calls that may hang: a job can be given up, and the others go on."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
S = TypeVar("S")
GiveUp = Callable[[Exception], None]
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"
_CURRENT = threading.local()
# Hung threads that are replaced, for each worker thread.
_REPLACEMENTS = 4
_LEAVE_SECONDS = 0.5


class Workers:
    """Threads that run jobs in the order of submission; they are daemons, so the process can end without them.

    No thread can be stopped from outside. When a job is given up, its future raises the reason;
    the thread stays with the job until that ends, and another thread takes its place, up to a bound.

    Args:
        threads: how many jobs run at once.
        name: prefix of the threads' names.

    Attributes:
        lost: threads still busy with jobs that were given up.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.lost = 0
        self._most = threads
        self._name = name
        self._numbers = itertools.count()
        self._jobs: deque[_Job] = deque()
        self._running = 0
        # Of those, the ones at jobs that were given up when too many hung already.
        self._stuck = 0
        self._idle = 0
        self._closed = False
        # Threads take a job and cease to be idle at once: a job must not count on a thread that has just got another.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)

    @property
    def exhausted(self) -> bool:
        """Whether too many threads hang for another one to be replaced."""
        return self.lost >= _REPLACEMENTS * self._most

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Queue a job.

        Raises:
            RuntimeError: the workers are closed, or the system gives no more threads.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("no more jobs are taken")
            self._jobs.append((future, work))
            self._changed.notify()
            if self._running < self._most and self._idle < len(self._jobs):
                self._start()
        return future

    def close(self, *, wait: bool = False, cancel: bool = True, seconds: float | None = None) -> bool:
        """Take no more jobs.

        Args:
            wait: return only when the remaining jobs are done or given up.
            cancel: cancel the jobs that have not begun.
            seconds: how long to wait at most; None for no limit.

        Returns:
            Whether no job is left.
        """
        with self._lock:
            self._closed = True
            cancelled = [*self._jobs] if cancel else []
            if cancel:
                self._jobs.clear()
            self._changed.notify_all()
        for future, _ in cancelled:
            future.cancel()
        with self._lock:
            return self._ended.wait_for(lambda: self._running <= self._stuck, seconds if wait else 0)

    def _start(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=f"{self._name}_{next(self._numbers)}", daemon=True).start()
        except RuntimeError:
            self._running -= 1
            raise

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            future, work = job
            if future.set_running_or_notify_cancel() and self._do(future, work):
                return

    def _next_job(self) -> _Job | None:
        """The oldest waiting job, once there is one; None if the thread is to end."""
        with self._lock:
            self._idle += 1
            while not self._jobs and not self._closed:
                self._changed.wait()
            self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._running -= 1
            self._ended.notify_all()
            return None

    def _do(self, future: Future[T], work: Callable[[], T]) -> bool:
        """Run a job; returns whether it was given up and another thread took this one's place."""
        replaced = stuck = False

        def give_up(error: Exception) -> None:
            nonlocal replaced, stuck
            with self._lock:
                try:
                    future.set_exception(error)
                except InvalidStateError:
                    return  # it has been answered meanwhile
                if self.exhausted:
                    stuck = True
                    self._stuck += 1
                    self._ended.notify_all()
                    return
                replaced = True
                self.lost += 1
                self._running -= 1
                if self._jobs:
                    self._start()
                self._ended.notify_all()

        try:
            with may_be_given_up(give_up):
                result = work()
        except BaseException as error:  # noqa: BLE001  # raised by the future
            end = functools.partial(future.set_exception, error)
        else:
            end = functools.partial(future.set_result, result)
        try:
            end()
        except InvalidStateError:
            with self._lock:
                self.lost -= replaced
                self._stuck -= stuck
        return replaced


class may_be_given_up:  # noqa: N801  # reads as what it is in a with statement
    """Within the `with` block, how the work of this thread can be given up."""

    __slots__ = ("_before", "_give_up")

    def __init__(self, give_up: GiveUp) -> None:
        self._give_up = give_up

    def __enter__(self) -> None:
        self._before = giving_up()
        _CURRENT.give_up = self._give_up

    def __exit__(self, *_: object) -> None:
        _CURRENT.give_up = self._before


def giving_up() -> GiveUp | None:
    """The callback that gives up the job of this thread; None if it cannot be given up."""
    return getattr(_CURRENT, "give_up", None)


def each(items: Iterable[S], work: Callable[[S], T], threads: int, name: str) -> Iterator[T | Exception]:
    """The results of some work on each item, in order; an exception stands in place of a result."""
    workers = Workers(threads, name)
    try:
        futures = [workers.submit(lambda item=item: work(item)) for item in items]  # type: ignore[misc]
        for future in futures:
            failure = future.exception()
            if isinstance(failure, Exception):
                yield failure
            else:
                yield future.result()
    finally:
        workers.close()


def leave_if_hung(code: int) -> None:
    """End the process if a non-daemon thread hangs: Python would wait for it for ever."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(_LEAVE_SECONDS)
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
