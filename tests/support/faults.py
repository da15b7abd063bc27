"""Writers in trouble: storage that fails at the n-th change of a file, and another writer that is faster.

A change fails before it or after it is done, by an error or by the process's death.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from table_format.errors import StorageError
from table_format.storage import Storage
from table_writer.write_job import WriteJob

CHANGES = ("create", "overwrite", "move", "delete", "delete_dir", "make_dir", "open_output")


class InjectedError(StorageError):
    """The storage was not reachable for a moment."""


class Frozen(BaseException):
    """Stands for the end of the process: nothing catches it, and nothing can be changed after it."""


@dataclass
class Faults:
    """Which change fails, and how.

    Attributes:
        at: number of the change, from 1 on; 0 for none.
        when: `before` or `after` it is done.
        how: `error` (once), `freeze` (that change and all later ones), or `kill` (SIGKILL to this process).
    """

    at: int = 0
    when: str = "before"
    how: str = "error"
    count: int = 0
    log: list[str] = field(default_factory=list)

    def fail(self) -> None:
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise Frozen if self.how == "freeze" else InjectedError("injected: the storage is away for a moment")


class FaultyStorage(Storage):
    """All instances share one schedule of faults."""

    faults = Faults()


@contextlib.contextmanager
def dying(at: int, when: str = "before") -> Iterator[None]:
    """What is done within is cut off at the n-th change, if there are so many."""
    FaultyStorage.faults = Faults(at, when, "freeze")
    try:
        with contextlib.suppress(Frozen):
            yield
    finally:
        FaultyStorage.faults = Faults()


def overtaken(monkeypatch: pytest.MonkeyPatch, other: Callable[[], Any]) -> None:
    """Before the next commit of a write job another writer does something, once."""
    plain = WriteJob._commit

    def commit(self: WriteJob, *args: Any) -> None:
        monkeypatch.setattr(WriteJob, "_commit", plain)
        other()
        plain(self, *args)

    monkeypatch.setattr(WriteJob, "_commit", commit)


def _wrapped(name: str):
    plain = getattr(Storage, name)

    @functools.wraps(plain)
    def change(self, path, *args, **kwargs):
        faults = FaultyStorage.faults
        if "/.heartbeat/" in path and name == "overwrite" and faults.how != "kill":
            return plain(self, path, *args, **kwargs)  # beats come from a thread, at any time
        faults.count += 1
        faults.log.append(f"{name} {path}")
        hit = faults.count == faults.at or (faults.how == "freeze" and 0 < faults.at < faults.count)
        if hit and (faults.when == "before" or faults.count > faults.at):
            faults.fail()
        result = plain(self, path, *args, **kwargs)
        if hit:
            faults.fail()
        return result

    return change


for _name in CHANGES:
    setattr(FaultyStorage, _name, _wrapped(_name))
