"""A metadata table that lacks a completed commit is not used, whatever was built in it later."""

import json
import logging
import tarfile
from pathlib import Path

import pytest

from hudi_catalog import open_table
from table_format.metadata_table.slices import missing_instants
from table_format.storage import Storage
from table_format.timeline.timeline import load_timeline
from tests.support.paths import GOLDEN


def test_rows_of_a_commit_that_failed_in_the_metadata_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Apache 0.15.0 lost the instant there by the rollback of a compaction, and then built its column statistics."""
    with tarfile.open(GOLDEN / "unlisted_commit.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    folder = tmp_path / "v6_0150"
    with caplog.at_level(logging.WARNING):
        table = open_table(folder)
        keys = {str(key) for key in table.scan().to_arrow()["id"].to_pylist()}
    assert sorted(keys) == json.loads((folder / "keys.json").read_text())
    assert "the metadata table is not used: the completed deltacommit" in caplog.text
    assert table.scan("id = 'k20'").count() == 1


@pytest.mark.parametrize(
    ("layout", "built", "reason"),
    [
        (1, ["20260101000000002010"], None),
        (1, ["20260101000000001010"], "the completed commit 20260101000000002 is not in it"),
        (1, ["00000000000000010", "20260101000000009010"], "the completed commit 20260101000000001 is not in it"),
        (2, ["20260101000000002010_20260101000000005"], None),
        (2, ["20260101000000001010_20260101000000002"], "the completed commit 20260101000000002 is not in it"),
        (
            2,
            ["20260101000000001010_20260101000000002", "20260101000000009010_20260101000000010"],
            "the completed commit 20260101000000002 is not in it",
        ),
    ],
)
def test_only_the_first_build_lists_the_tables_files(
    tmp_path: Path, layout: int, built: list[str], reason: str | None
) -> None:
    data, metadata = tmp_path / "data", tmp_path / "metadata"
    for folder, names in (
        (data, [f"2026010100000000{n}" + (f"_2026010100000000{n + 1}" if layout == 2 else "") for n in (1, 2)]),
        (metadata, built),
    ):
        folder.mkdir()
        for name in names:
            time = name.split("_")[0]
            action = "commit" if folder == data else "deltacommit"
            for file in (f"{time}.{action}.requested", f"{time}.{action}.inflight", f"{name}.{action}"):
                (folder / file).touch()
    storage = Storage(str(tmp_path))
    timelines = [load_timeline(storage, folder.name, layout, timezone="UTC") for folder in (data, metadata)]
    assert missing_instants(*timelines) == reason
