"""Lists of files that are written and removed while others use them."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_catalog.metastore.entries import PINNED
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.manifests import ManifestFolder, Pins, manifest_of
from hudi_catalog.metastore.metastore import SYMLINK_FORMAT, HiveTable
from table_format.errors import UnsupportedTableError
from table_format.storage import Storage

RETENTION, GRACE, REMEMBERED = 1000.0, 50.0, 5000.0
CONTENT = b"file:///one\n"


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=8))
@settings(max_examples=50, deadline=None)
def test_a_list_has_one_path_a_line(paths: list[str]) -> None:
    made = manifest_of(pa.array(paths, pa.string()))
    assert made == "".join(f"{path}\n" for path in paths).encode()
    sliced = pa.array(["before", *paths, "after"], pa.string()).slice(1, len(paths))
    assert manifest_of(sliced) == made


@pytest.mark.parametrize("character", ["\n", "\r"])
def test_a_path_with_a_line_break_is_refused(character: str) -> None:
    with pytest.raises(UnsupportedTableError, match="line break"):
        manifest_of(pa.array(["fine", f"day=a{character}b/f.parquet"]))


class Process:
    """One of several that work on the same table; `later` ages all that lies there."""

    def __init__(self, folder: ManifestFolder, metastore: FileMetastore) -> None:
        self.folder = folder
        self.metastore = metastore
        self.pointed_at = ""
        self.pins = Pins(metastore, RETENTION, grace=GRACE, remembered=REMEMBERED)

    def entry(self, name: str) -> HiveTable:
        schema, table = self.pin_name(name)
        return HiveTable(schema, table, (), self.folder.location(name), SYMLINK_FORMAT, {PINNED: "true"})

    def pin_name(self, name: str) -> tuple[str, str]:
        return "s__snapshots", f"t__{name}"

    def keep(self, name: str = "a", *, entry: bool = True) -> str:
        return self.pins.keep(self.folder, name, lambda: CONTENT, self.entry if entry else None)

    def clean(self) -> int:
        return self.pins.clean(self.folder, lambda: self.pointed_at, self.pin_name)

    def read(self, name: str) -> bytes | None:
        """What Trino reads for the entry; None without one."""
        entry = self.metastore.table(*self.pin_name(name))
        if entry is None:
            return None
        path = entry.location.removeprefix("file://") + "/manifest"
        return Path(path).read_bytes()


@pytest.fixture
def process(tmp_path: Path, metastore: FileMetastore) -> Callable[[], Process]:
    storage = Storage(str(tmp_path / "table"))
    folder = ManifestFolder(storage, ".hoodie/.catalog/id", f"file://{tmp_path}/table/.hoodie/.catalog/id")
    return lambda: Process(folder, metastore)


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass."""
    monotonic, shift = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + shift[0])

    def move(seconds: float) -> None:
        shift[0] += seconds
        for path in (tmp_path / "table").rglob("*"):
            status = path.stat()
            os.utime(path, (status.st_atime - seconds, status.st_mtime - seconds))

    return move


def test_a_pin_is_there_until_it_was_not_used_for_long(process: Any, later: Any) -> None:
    one = process()
    assert one.keep() == "a"
    assert one.read("a") == CONTENT
    later(RETENTION - 1)
    assert one.clean() == 0
    assert one.folder.removal_announced("a") is None
    later(2)
    assert one.clean() == 0, "it is announced first"
    assert one.read("a") == CONTENT
    later(GRACE + 1)
    assert one.clean() == 1
    assert one.metastore.table(*one.pin_name("a")) is None
    assert one.clean() == 0


def test_late_readers_of_a_dropped_list_fail(process: Any, later: Any) -> None:
    one = process()
    one.keep()
    for seconds in (RETENTION + 1, GRACE + 1):
        later(seconds)
        one.clean()
    content = one.folder.storage.read(".hoodie/.catalog/id/a/manifest").decode()
    (line,) = content.splitlines()
    assert not os.path.exists(line.removeprefix("file://"))
    later(REMEMBERED + 1)
    one.clean()
    assert one.folder.names() == []


def test_use_keeps_a_pin(process: Any, later: Any) -> None:
    one = process()
    for _ in range(10):
        assert one.keep() == "a"
        later(RETENTION / 2)
        one.clean()
    assert one.read("a") == CONTENT


def test_who_uses_a_doomed_list_takes_another_name(process: Any, later: Any) -> None:
    one, other = process(), process()
    one.keep()
    later(RETENTION + 1)
    other.clean()
    name = one.keep()
    assert name.startswith("a_")
    later(GRACE + 1)
    other.clean()
    assert one.read(name) == CONTENT
    assert one.keep() == name, "the same one again"
    assert process().keep() != "a"


def test_the_list_of_the_registered_table_stays(process: Any, later: Any) -> None:
    one = process()
    one.keep(entry=False)
    one.pointed_at = one.folder.location("a")
    for _ in range(5):
        later(RETENTION + GRACE)
        assert one.clean() == 0
    assert one.folder.storage.read(".hoodie/.catalog/id/a/manifest") == CONTENT


def test_an_entry_that_points_elsewhere_is_not_dropped(process: Any, later: Any) -> None:
    one = process()
    one.keep()
    schema, table = one.pin_name("a")
    one.metastore.put_table(HiveTable(schema, table, (), "file:///elsewhere", SYMLINK_FORMAT, {PINNED: "true"}))
    for seconds in (RETENTION + 1, GRACE + 1):
        later(seconds)
        one.clean()
    assert one.metastore.table(schema, table).location == "file:///elsewhere"


def test_a_clean_asks_the_storage_about_few_lists(process: Any, later: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = process()
    for number in range(10):
        one.keep(f"gone{number}")
    for seconds in (RETENTION + 1, GRACE + 1):
        later(seconds)
        one.clean()
    for number in range(10):
        one.keep(f"used{number}")
    one.clean()
    calls: list[str] = []
    for name in ("entry", "exists", "list", "read_range"):
        original = getattr(Storage, name)
        monkeypatch.setattr(
            Storage, name, lambda *given, name=name, original=original: (calls.append(name), original(*given))[1]
        )
    assert len(one.folder.names()) == 20
    calls.clear()
    assert one.clean() == 0
    assert calls == ["list"]


def test_what_somebody_deleted_is_made_again(process: Any, later: Any) -> None:
    one = process()
    one.keep()
    one.metastore.drop_table(*one.pin_name("a"))
    one.folder.storage.delete_dir(".hoodie/.catalog/id/a")
    later(61)
    one.keep()
    assert one.read("a") == CONTENT


class KilledError(Exception):
    """Stops a process between two steps."""


STEPS = ("idle", "removal_announced", "exists", "touch", "announce_removal", "expire", "delete", "write", "expired")


@pytest.mark.parametrize("seconds", [RETENTION + 1, RETENTION + GRACE + 2, REMEMBERED + RETENTION])
@pytest.mark.parametrize("at", range(1, 14))
def test_whatever_happens_in_between_a_kept_list_is_whole(
    process: Any, later: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, at: int
) -> None:
    """Somebody cleans up between any two steps of one who pins."""
    one, other = process(), process()
    one.keep()
    for passed in (RETENTION + 1, GRACE + 1, seconds):
        later(passed)
        other.clean()
        counter = itertools.count(1)

        with monkeypatch.context() as patched:
            for step in STEPS:
                patched.setattr(ManifestFolder, step, interfered(step, counter, at, other, one))
            name = process().keep()
        other.clean()
        assert one.read(name) == CONTENT


def interfered(step: str, counter: Iterator[int], at: int, cleaner: Process, owner: Process) -> Any:
    original = getattr(ManifestFolder, step)

    def call(self: ManifestFolder, *arguments: Any) -> Any:
        if next(counter) == at:
            cleaner.clean()
        return original(self, *arguments)

    return call


def test_a_cleaner_killed_anywhere_is_followed_by_another(
    process: Any, later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, 40):
        one = process()
        name = one.keep(f"n{at}")
        for passed in (RETENTION + 1, GRACE + 1, REMEMBERED + 1):
            later(passed)
            counter = itertools.count(1)

            def stop(original: Any, counter: Iterator[int] = counter, at: int = at) -> Any:
                def call(*arguments: Any) -> Any:
                    if next(counter) == at:
                        raise KilledError
                    return original(*arguments)

                return call

            with monkeypatch.context() as patched:
                for step in STEPS:
                    patched.setattr(ManifestFolder, step, stop(getattr(ManifestFolder, step)))
                with contextlib.suppress(KilledError):
                    one.clean()
            if one.read(name) is not None:
                assert one.read(name) == CONTENT
        for passed in (RETENTION + 1, GRACE + 1, REMEMBERED + 1):
            later(passed)
            one.clean()
        assert one.folder.names() == []
        assert one.metastore.tables("s__snapshots") == []
