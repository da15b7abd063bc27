"""Heartbeats: a file that a live writer touches regularly, so that others do not roll its write back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from table_format.errors import HudiError, MissingFileError
from table_format.storage import Storage
from table_writer.timeline.liveness import Owner, Pulse, age_ms

FOLDER: Final = ".hoodie/.heartbeat"


class Heartbeat:
    """Shows that the writer of an instant is alive, from `start` to `stop`.

    The file names its owner, so that writers on the same machine need not wait for its expiry. Apache's writers only
    check the time of its last modification.

    Args:
        storage: rooted at the table's base folder.
        instant: the write's.
        interval_ms: milliseconds between two beats, at most.
        misses: missed beats after which the writer counts as dead.
    """

    def __init__(self, storage: Storage, instant: str, interval_ms: int, misses: int = 2) -> None:
        self._storage = storage
        self._path = _path(instant)
        self._owner = Owner.new(interval_ms * misses)
        self._pulse = Pulse(storage, self._path, interval_ms)

    def start(self) -> None:
        """Write the file and touch it regularly."""
        try:
            # not synced: after a crash of the machine it expires like any other
            self._storage.overwrite(self._path, self._owner.to_json(), synced=False)
            self._pulse.start()
        except BaseException:
            self._owner.forget()
            raise

    def silence(self) -> None:
        """Stop touching the file and leave it as a dead writer's, so that others roll the instant back."""
        if not self._owner.is_own:
            return  # a forked child of the writer ends, not the writer
        self._owner.forget()
        self._pulse.stop()
        with contextlib.suppress(HudiError):
            self._storage.touch(self._path, 0)  # expired at once for those who check its age

    def stop(self) -> None:
        """Stop touching the file and delete it."""
        self._owner.forget()
        self._pulse.stop()
        self._storage.delete(self._path)


@contextlib.contextmanager
def silenced_if_it_fails(beat: Heartbeat) -> Iterator[None]:
    """Leave a write as a dead writer's if it cannot begin."""
    try:
        yield
    except BaseException:
        beat.silence()
        raise


def is_expired(storage: Storage, instant: str, interval_ms: int, misses: int) -> bool | None:
    """Whether the writer of an instant counts as dead; None when it has no heartbeat.

    A writer of this machine is dead when its process has ended. Others are when they missed too many beats, by the
    options here or by their own, whichever wait is longer.
    """
    entry = storage.entry(_path(instant))
    if entry is None:
        return None
    owner = _owner(storage, instant)
    if owner is not None and owner.is_alive_here:
        return False
    if owner is not None and owner.is_known_dead:
        return True
    patience = max(interval_ms * misses, 0 if owner is None else owner.expires_ms)
    if abs(time.time() * 1000 - entry.mtime_ms) <= patience:
        return False
    return age_ms(storage, entry) > patience


def is_known_dead(storage: Storage, instant: str) -> bool:
    """Whether the writer of an instant was a process of this machine that has certainly ended."""
    owner = _owner(storage, instant)
    return owner is not None and owner.is_known_dead


def is_own(storage: Storage, instant: str) -> bool:
    """Whether the writer of an instant is one of this project's, by its heartbeat."""
    return _owner(storage, instant) is not None


def heartbeats(storage: Storage) -> list[str]:
    """Instants that have a heartbeat file."""
    return [entry.name for entry in storage.list(FOLDER) if not entry.is_dir and entry.name.isdigit()]


def delete_heartbeat(storage: Storage, instant: str) -> None:
    """Delete the heartbeat of a writer that has ended."""
    storage.delete(_path(instant))


def _path(instant: str) -> str:
    return f"{FOLDER}/{instant}"


def _owner(storage: Storage, instant: str) -> Owner | None:
    try:
        return Owner.parse(storage.read(_path(instant)))
    except MissingFileError:
        return None
