"""Threads that run jobs."""

import threading
import time
from typing import Any

import pytest

from catalog.concurrency.workers import Workers, giving_up
from tests.support.waiting import until

LOCK = threading.Lock


class SlowLock:
    """A lock that threads other than the test's get late, as on a busy machine."""

    def __init__(self) -> None:
        self._lock = LOCK()

    def acquire(self, *arguments: Any) -> bool:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)
        return self._lock.acquire(*arguments)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_no_job_waits_behind_another_while_threads_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Lock", SlowLock)
        workers = Workers(2, "job")
    workers.submit(int).result(10)
    until(lambda: workers._idle == 1)
    opened = threading.Event()
    held = workers.submit(lambda: opened.wait(20))
    time.sleep(0.02)  # the idle thread has seen the job, and has not told yet that it is busy
    try:
        assert workers.submit(int).result(5) == 0
    finally:
        opened.set()
    assert held.result(10)
    workers.close(wait=True)


def test_jobs_that_have_not_begun_are_cancelled_or_done_at_the_end() -> None:
    for cancel in (True, False):
        workers, opened = Workers(1, "job"), threading.Event()
        entered = threading.Event()
        held = workers.submit(lambda entered=entered, opened=opened: (entered.set(), opened.wait(20)))
        assert entered.wait(10)
        later = workers.submit(int)
        closing = threading.Thread(target=workers.close, kwargs={"wait": True, "cancel": cancel})
        closing.start()
        opened.set()
        closing.join(10)
        assert held.done()
        assert later.cancelled() is cancel
        with pytest.raises(RuntimeError):
            workers.submit(int)


def test_closing_waits_no_longer_than_told() -> None:
    workers, opened, entered = Workers(1, "job"), threading.Event(), threading.Event()
    held = workers.submit(lambda: (entered.set(), opened.wait(20)))
    assert entered.wait(10)
    assert not workers.close()
    assert not workers.close(wait=True, seconds=0.05)
    opened.set()
    assert workers.close(wait=True, seconds=20)
    assert held.done()


def test_closing_does_not_wait_for_threads_that_hang_beyond_the_bound() -> None:
    workers, opened, callbacks = Workers(1, "job"), threading.Event(), []

    def work() -> None:
        callbacks.append(giving_up())
        opened.wait(20)

    for count in range(1, 6):
        workers.submit(work)
        until(lambda count=count: len(callbacks) == count)
        callbacks[-1](TimeoutError())
    assert workers.exhausted
    assert workers.close(wait=True, seconds=10)
    opened.set()
    until(lambda: workers.lost == workers._stuck == workers._running == 0)


def test_an_answer_that_comes_just_before_it_is_given_up() -> None:
    workers, callbacks = Workers(1, "job"), []
    may_end = threading.Event()

    def work() -> int:
        callbacks.append(giving_up())
        return int(may_end.wait(20))

    answer = workers.submit(work)
    until(lambda: bool(callbacks))

    def set_exception(error: BaseException) -> None:
        may_end.set()
        until(answer.done)
        type(answer).set_exception(answer, error)

    answer.set_exception = set_exception  # type: ignore[method-assign]
    callbacks[0](TimeoutError())
    assert answer.result(10) == 1
    workers.close(wait=True)
