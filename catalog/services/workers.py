"""Threads for work that a storage may keep waiting for ever: a job can be given up, and others go on."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")
GiveUp = Callable[[Exception], None]

_CURRENT = threading.local()
# So many threads that hang are replaced, for each one that there is.
_REPLACED = 4


class Workers:
    """Threads that run jobs in their order; they do not hold up the end of the process.

    No thread can be stopped from outside. When a job is given up, whoever waits for it gets the reason as an exception;
    the thread stays with the job until that ends, and another thread takes its place, up to a bound.

    Args:
        threads: jobs that are run at once.
        name: of the threads.

    Attributes:
        lost: threads that are with jobs that were given up.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.lost = 0
        self._most = threads
        self._name = name
        self._numbers = itertools.count()
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._idle = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def exhausted(self) -> bool:
        """Whether so many threads hang that no more are replaced."""
        return self.lost >= _REPLACED * self._most

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run a job as soon as a thread is free.

        Raises:
            RuntimeError: the workers are closed, or the system gives no more threads.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("no more jobs are taken")
            self._jobs.append((future, work))
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif self._running < self._most:
                self._start()
        return future

    def close(self, *, wait: bool = False, cancel: bool = True) -> None:
        """Take no more jobs.

        Args:
            wait: until those that are left are done or given up.
            cancel: whether jobs that have not begun are cancelled.
        """
        with self._changed:
            self._closed = True
            while cancel and self._jobs:
                self._jobs.popleft()[0].cancel()
            self._changed.notify_all()
            while wait and self._running > 0:
                self._changed.wait()

    def _start(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=f"{self._name}_{next(self._numbers)}", daemon=True).start()
        except RuntimeError:
            self._running -= 1
            raise

    def _run(self) -> None:
        while (job := self._next()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            if self._do(future, work):
                return

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            self._idle += 1
            while not self._jobs and not self._closed:
                self._changed.wait()
            self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._running -= 1
            self._changed.notify_all()
            return None

    def _do(self, future: Future[T], work: Callable[[], T]) -> bool:
        """Run a job; whether it was given up meanwhile, and another thread has this one's place."""
        replaced = False

        def give_up(error: Exception) -> None:
            nonlocal replaced
            with self._changed:
                if future.done():
                    return
                future.set_exception(error)
                if self.exhausted:
                    return
                replaced = True
                self.lost += 1
                self._running -= 1
                if self._jobs and not self._closed:
                    self._start()
                self._changed.notify_all()

        result, failure = None, None
        with may_be_given_up(give_up):
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  # whoever waits gets it
                failure = error
        with self._changed:
            if future.done():
                self.lost -= replaced
            elif failure is None:
                future.set_result(result)  # type: ignore[arg-type]  # it is what the work gave
            else:
                future.set_exception(failure)
        return replaced


@contextlib.contextmanager
def may_be_given_up(give_up: GiveUp) -> Iterator[None]:
    """Note for the work that this thread does how it is given up."""
    before = giving_up()
    _CURRENT.give_up = give_up
    try:
        yield
    finally:
        _CURRENT.give_up = before


def giving_up() -> GiveUp | None:
    """What gives up the job that this thread runs; None where nothing can."""
    return getattr(_CURRENT, "give_up", None)


def each(items: Iterable[S], work: Callable[[S], T], threads: int, name: str) -> Iterator[T | Exception]:
    """The result of some work on each item, in their order; what it raised, or why it was given up, in its place."""
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
    """End the process here if a thread hangs that Python would wait for: what hangs in a storage never ends."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(_LEAVE_SECONDS)
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)


_LEAVE_SECONDS = 0.5
