"""Damage to the archived timeline of layout 2: an error that says so, or what was archived."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from table_format.errors import HudiError
from table_format.storage import Storage
from table_format.timeline.history import completion_times
from tests.support.golden_tables import NEW_NAMES, facts, lay_out

ARCHIVED = [name for name in NEW_NAMES if facts(name).get("completion_times")]
PLACES = st.floats(0, 1, exclude_max=True)


@dataclass(frozen=True)
class Archive:
    folder: str
    known: dict[str, str]

    def read(self) -> dict[str, str]:
        return completion_times(Storage(self.folder), "")


@pytest.fixture(scope="module", params=ARCHIVED)
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    folder = f"{lay_out(request.param, tmp_path_factory.mktemp('history'))}/.hoodie/timeline/history"
    return Archive(folder, facts(request.param)["completion_times"])


def damaged(archive: Archive, name: str, data: bytes) -> dict[str, str] | None:
    """What is read when a file has other content; None when it is refused."""
    path = f"{archive.folder}/{name}"
    with open(path, "rb") as stream:
        whole = stream.read()
    try:
        with open(path, "wb") as stream:
            stream.write(data)
        return archive.read()
    except HudiError:
        return None
    finally:
        with open(path, "wb") as stream:
            stream.write(whole)


def content(archive: Archive, name: str) -> bytes:
    with open(f"{archive.folder}/{name}", "rb") as stream:
        return stream.read()


def files(archive: Archive) -> list[str]:
    return sorted(name for name in os.listdir(archive.folder) if not name.startswith(".") and name != "_version_")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 1000), st.lists(st.tuples(PLACES, st.integers(1, 255)), max_size=3), st.none() | PLACES)
def test_damaged_archives(archive: Archive, file: int, flips: list[tuple[float, int]], end: float | None) -> None:
    names = files(archive)
    name = names[file % len(names)]
    data = content(archive, name)
    changed = bytearray(data)
    for place, mask in flips:
        changed[int(place * len(data))] ^= mask
    outcome = damaged(archive, name, bytes(changed[: len(data) if end is None else int(end * len(data))]))
    assert outcome is None or outcome.items() >= archive.known.items()


def test_archives_cut_anywhere_are_refused(archive: Archive) -> None:
    for name in files(archive):
        data = content(archive, name)
        for size in range(0, len(data), max(1, len(data) // 40)):
            outcome = damaged(archive, name, data[:size])
            assert outcome in (None, archive.known), (name, size)
