"""Tables that Apache Hudi wrote, unpacked once a session."""

import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from catalog import Table

ARCHIVE = os.path.join(os.path.dirname(__file__), "../../golden/tables/tables.tar.xz")


@dataclass(frozen=True)
class GoldenTable:
    path: str
    rows: list[dict[str, Any]]
    write_options: dict[str, str]
    file_slices: list[dict[str, Any]]

    def open(self) -> Table:
        return Table.open(self.path)

    @property
    def scan_options(self) -> dict[str, str]:
        """What the writer knew of the buckets, under Apache's keys."""
        if self.write_options.get("hoodie.index.type") != "BUCKET":
            return {}
        wanted = ("hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field")
        return {key: value for key, value in self.write_options.items() if key in wanted}


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return str(folder)


@pytest.fixture(scope="session")
def golden(golden_folder: str) -> Callable[[str], GoldenTable]:
    def load(name: str) -> GoldenTable:
        with open(f"{golden_folder}/{name}/expected.json", encoding="utf-8") as stream:
            expected = json.load(stream)
        return GoldenTable(
            f"{golden_folder}/{name}/table", expected["rows"], expected["write_options"], expected["file_slices"]
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
