"""Worker threads for calls that may hang: a job can be given up, and the others go on."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
S = TypeVar("S")
GiveUp = Callable[[Exception], None]
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"
_CURRENT = threading.local()
# So many threads that hang are replaced, for each one that there is.
_REPLACED = 4
_LEAVE_SECONDS = 0.5


class Workers:
    """Threads that run jobs in the order of submission; they are daemons, so the process can end without them.

    No thread can be stopped from outside. When a job is given up, its future raises the reason;
    the thread stays with the job until that ends, and another thread takes its place, up to a bound.

    Args:
        threads: jobs that are run at once.
        name: of the threads.

    Attributes:
        lost: threads still busy with jobs that were given up.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.lost = 0
        self._most = threads
        self._name = name
        self._numbers = itertools.count()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None ends a thread
        self._running = 0
        self._idle = 0
        self._closed = False
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)

    @property
    def exhausted(self) -> bool:
        """Whether so many threads hang that they are no longer replaced."""
        return self.lost >= _REPLACED * self._most

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Queue a job.

        Raises:
            RuntimeError: the workers are closed, or the system gives no more threads.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("no more jobs are taken")
            self._jobs.put((future, work))
            if self._running < self._most and self._idle < self._jobs.qsize():
                self._start()
        return future

    def close(self, *, wait: bool = False, cancel: bool = True) -> None:
        """Take no more jobs.

        Args:
            wait: until those that are left are done or given up.
            cancel: whether jobs that have not begun are cancelled.
        """
        with self._lock:
            self._closed = True
            while cancel and (job := self._left()) is not None:
                job[0].cancel()
            for _ in range(self._running):
                self._jobs.put(None)
            while wait and self._running > 0:
                self._ended.wait()

    def _left(self) -> _Job | None:
        try:
            return self._jobs.get_nowait()
        except Empty:
            return None

    def _start(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=f"{self._name}_{next(self._numbers)}", daemon=True).start()
        except RuntimeError:
            self._running -= 1
            raise

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
                if job is None:
                    self._running -= 1
                    self._ended.notify_all()
                    return
            future, work = job
            if future.set_running_or_notify_cancel() and self._do(future, work):
                return

    def _do(self, future: Future[T], work: Callable[[], T]) -> bool:
        """Run a job; returns whether it was given up and another thread took this one's place."""
        replaced = False

        def give_up(error: Exception) -> None:
            nonlocal replaced
            with self._lock:
                if future.done():
                    return
                future.set_exception(error)
                if self.exhausted:
                    return
                replaced = True
                self.lost += 1
                self._running -= 1
                if not self._jobs.empty():
                    self._start()
                self._ended.notify_all()

        try:
            with may_be_given_up(give_up):
                result = work()
        except BaseException as error:  # noqa: BLE001  # whoever waits gets it
            end = functools.partial(future.set_exception, error)
        else:
            end = functools.partial(future.set_result, result)
        try:
            end()
        except InvalidStateError:
            with self._lock:
                self.lost -= replaced
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
