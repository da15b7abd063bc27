"""Tables that Apache Hudi wrote, unpacked once per session."""

import json
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from catalog import Table
from tests.support.catalog_tables import NEWER_NAMES
from tests.support.command import Command
from tests.support.paths import GOLDEN

FOLDER = str(GOLDEN / "tables")


@dataclass(frozen=True)
class GoldenTable:
    path: str
    rows: list[dict[str, Any]]
    write_options: dict[str, str]
    file_slices: list[dict[str, Any]]
    rows_of_base_files: int | None = None

    def open(self) -> Table:
        return Table.open(self.path)

    @property
    def scan_options(self) -> dict[str, str]:
        """What the writer knew of the buckets, under Apache's keys."""
        if self.write_options.get("hoodie.index.type") != "BUCKET":
            return {}
        wanted = ("hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field")
        return {key: value for key, value in self.write_options.items() if key in wanted}


def unpacked(name: str, factory: pytest.TempPathFactory) -> str:
    folder = factory.mktemp("golden")
    with tarfile.open(f"{FOLDER}/{name}") as archive:
        archive.extractall(folder, filter="data")
    return str(folder)


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpacked("tables.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def newer_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return unpacked("newer.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def golden(golden_folder: str, newer_folder: str) -> Callable[[str], GoldenTable]:
    def load(name: str) -> GoldenTable:
        folder = newer_folder if name in NEWER_NAMES else golden_folder
        with open(f"{folder}/{name}/expected.json", encoding="utf-8") as stream:
            expected = json.load(stream)
        return GoldenTable(
            f"{folder}/{name}/table",
            expected["rows"],
            expected["write_options"],
            expected["file_slices"],
            expected.get("nrows_read_optimized"),
        )

    return load


@pytest.fixture
def copied(golden: Callable[[str], GoldenTable], tmp_path: Any) -> Callable[..., str]:
    """Copies of golden tables that a test may change: properties by keyword, without the metadata table."""

    def copy(name: str, properties: dict[str, str] | None = None, *, metadata_table: bool = True) -> str:
        target = str(tmp_path / name)
        shutil.copytree(golden(name).path, target)
        changes = dict(properties or {})
        if not metadata_table:
            shutil.rmtree(f"{target}/.hoodie/metadata")
            changes["hoodie.table.metadata.partitions"] = ""
        path = f"{target}/.hoodie/hoodie.properties"
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        for key, value in changes.items():
            text = re.sub(rf"(?m)^{re.escape(key)}=.*\n", "", text) + f"{key}={value}\n"
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return target

    return copy


@pytest.fixture
def start() -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def begin(*arguments: str, **variables: str) -> Command:
        started.append(Command(*arguments, **variables))
        return started[-1]

    yield begin
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.end()
