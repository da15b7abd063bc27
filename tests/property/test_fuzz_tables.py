"""Damage to any file of a table's `.hoodie` folder or to its log files: an error that says so, or no row fewer.

A table is read whole after a few bytes of one file are changed or cut off. What the formats do not protect, such as a
digit inside a value, cannot be noticed; the number of rows must still be right, and no other error may come.
"""

from __future__ import annotations

import os
import tarfile
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog import Table
from pushdown import col
from table_format.errors import HudiError
from tests.property.profile import examples

GOLDEN = os.path.join(os.path.dirname(__file__), "../golden")
#: Archive, table, and what the table is there for.
TABLES = {
    "log files in layout 1": ("tables/newer.tar.xz", "v6_0150__mor_pending/table"),
    "log files in layout 2": ("tables/newer.tar.xz", "v9_1200__mor_log/table"),
    "replaced file groups": ("tables/newer.tar.xz", "v8_1020__cluster/table"),
    "hashing metadata": ("tables/indexes.tar.xz", "v9_ring"),
    "schema history": ("schema_on_read.tar.xz", "v9_1200"),
}


@dataclass(frozen=True)
class Victim:
    """A table, the files that are damaged by turns, how many rows there are, and some keys."""

    path: str
    files: list[str] = field(repr=False)
    rows: list[int]
    keys: tuple[Any, ...]

    def check(self, damage: Damage) -> None:
        path = self.files[damage.file % len(self.files)]
        with open(path, "rb") as stream:
            data = stream.read()
        try:
            with open(path, "wb") as stream:
                stream.write(damage.of(data))
            self._check_rows(os.path.relpath(path, self.path), damage)
        finally:
            with open(path, "wb") as stream:
                stream.write(data)

    def _check_rows(self, name: str, damage: Damage) -> None:
        try:
            rows = counts(self.path, self.keys)
        except HudiError:
            return
        # Keys in log files, and what says that file groups are replaced, have no checksum.
        if damage.flips and (not name.startswith(".hoodie/") or name.endswith(".replacecommit")):
            return
        assert rows == self.rows, name


@dataclass(frozen=True)
class Damage:
    """Bytes that change, and where the file ends; places are fractions of the file, for files differ in size."""

    file: int
    flips: tuple[tuple[float, int], ...]
    end: float | None

    def of(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for place, mask in self.flips:
            changed[int(place * len(data))] ^= mask
        return bytes(changed[: len(data) if self.end is None else int(self.end * len(data))])


PLACES = st.floats(0, 1, exclude_max=True)
DAMAGES = st.builds(
    Damage,
    st.integers(0, 10_000),
    st.lists(st.tuples(PLACES, st.integers(1, 255)), max_size=3).map(tuple),
    st.none() | st.none() | st.just(0.0) | PLACES,
)


def counts(path: str, keys: tuple[Any, ...]) -> list[int]:
    """Rows of the table, and rows with some keys, which partitions, buckets and statistics help to find."""
    table = Table.open(path)
    names = table.config.record_key_fields
    if len(names) != 1:
        raise HudiError("the damaged properties name no key")
    conditions = [None, *(col(names[0]) == key for key in keys)]
    return [table.scan(condition).to_arrow().num_rows for condition in conditions]


def keys_of(path: str) -> tuple[Any, ...]:
    """Keys of two rows."""
    table = Table.open(path)
    (name,) = table.config.record_key_fields
    keys = table.scan(columns=[name]).to_arrow().column(name).to_pylist()
    return keys[0], keys[len(keys) // 2]


def is_damaged(path: str) -> bool:
    """Whether this is a file to damage: all but data files, and base files of the metadata table."""
    name = os.path.basename(path)
    return (
        not name.endswith((".crc", ".hfile")) and ("/.hoodie/" in path or ".log." in name) and os.path.getsize(path) > 0
    )


@pytest.fixture(scope="module", params=TABLES)
def victim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Victim:
    archive, name = TABLES[request.param]
    folder = str(tmp_path_factory.mktemp("fuzz"))
    with tarfile.open(f"{GOLDEN}/{archive}") as tar:
        tar.extractall(folder, [one for one in tar.getmembers() if one.name.startswith(f"{name}/")], filter="data")
    path = f"{folder}/{name}"
    paths = [f"{root}/{file}" for root, _, files in os.walk(path) for file in files]
    keys = keys_of(path)
    return Victim(path, sorted(filter(is_damaged, paths)), counts(path, keys), keys)


@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=5_000)
@given(damage=DAMAGES)
def test_damage_is_an_error_or_does_no_harm(victim: Victim, damage: Damage) -> None:
    victim.check(damage)


def test_every_file_cut_in_the_middle_or_empty(victim: Victim) -> None:
    for number in range(len(victim.files)):
        victim.check(Damage(number, (), 0.0))
        victim.check(Damage(number, (), 0.5))


def test_what_is_damaged_is_what_is_read(victim: Victim) -> None:
    """Else the tests above would show nothing."""
    needed: list[Any] = []
    for path in victim.files:
        with open(path, "rb") as stream:
            data = stream.read()
        with open(path, "wb") as stream:
            stream.write(b"\xff" * len(data))
        try:
            counts(victim.path, victim.keys)
        except HudiError:
            needed.append(path)
        finally:
            with open(path, "wb") as stream:
                stream.write(data)
    assert len(needed) >= 5
