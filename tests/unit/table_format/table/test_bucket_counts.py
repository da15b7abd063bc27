"""The number of buckets in a state of a table, by its properties and its timeline, in whatever order they were read."""

import json
from pathlib import Path

import pytest

from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError
from table_format.storage import Storage
from table_format.table.bucket_counts import (
    COUNT,
    RECORD_KEY,
    RESCALE_KEY,
    RESIZES,
    Resize,
    bucket_count_as_of,
    format_resizes,
    recorded_resizes,
    settled_counts,
    with_resize,
)
from table_format.timeline.timeline import Timeline, load_timeline

T1, T2, T3 = "20260101000000000", "20260202000000000", "20260303000000000"


def timeline(folder: Path, **writes: dict[str, str] | None) -> Timeline:
    """One with completed commits, replacecommits where there is extra metadata, or pending ones where there is None."""
    (folder / ".hoodie").mkdir(exist_ok=True)
    for name, extra in writes.items():
        time, state = name[1:], "replacecommit"
        (folder / f".hoodie/{time}.replacecommit.requested").touch()
        (folder / f".hoodie/{time}.replacecommit.inflight").touch()
        if extra is not None:
            content = {"partitionToWriteStats": {}, "extraMetadata": extra, "operationType": "CLUSTER"}
            (folder / f".hoodie/{time}.{state}").write_text(json.dumps(content))
    return load_timeline(Storage(folder))


def config(count: int | None, resizes: str = "") -> TableConfig:
    values = {"hoodie.table.name": "t", **({} if count is None else {COUNT: str(count)})}
    return TableConfig({**values, **({RESIZES: resizes} if resizes else {})})


RESCALED = {RESCALE_KEY: "8 16"}


@pytest.mark.parametrize(
    "properties",
    [config(8), config(8, f"{T2}/8/16?"), config(16, f"{T2}/8/16"), config(None), config(8, f"{T1}/4/8")],
)
def test_a_completed_resize_counts_whatever_the_properties_are(properties: TableConfig, tmp_path: Path) -> None:
    loaded = timeline(tmp_path, **{f"t{T1}": {}, f"t{T2}": RESCALED})
    assert bucket_count_as_of(properties, loaded) == 16
    assert bucket_count_as_of(properties, loaded, T2) == 16
    assert bucket_count_as_of(properties, loaded, T1) == 8
    settled = TableConfig({**properties.raw, **settled_counts(properties, loaded)})
    assert settled.bucket_count == 16
    assert recorded_resizes(settled)[-1] == Resize(T2, 8, 16)
    assert not settled_counts(settled, loaded)


@pytest.mark.parametrize("properties", [config(8), config(8, f"{T2}/8/16?")])
def test_a_pending_resize_does_not_count(properties: TableConfig, tmp_path: Path) -> None:
    loaded = timeline(tmp_path, **{f"t{T1}": {}, f"t{T2}": None})
    assert bucket_count_as_of(properties, loaded) == 8
    assert not settled_counts(properties, loaded)


@pytest.mark.parametrize("properties", [config(16, f"{T2}/8/16"), config(8, f"{T2}/8/16?")])
def test_one_that_is_gone_does_not_count(properties: TableConfig, tmp_path: Path) -> None:
    loaded = timeline(tmp_path, **{f"t{T1}": {}, f"t{T3}": {}})
    assert bucket_count_as_of(properties, loaded) == 8
    assert TableConfig({**properties.raw, **settled_counts(properties, loaded)}).raw[RESIZES] == ""


def test_archived_ones_count_by_the_properties(tmp_path: Path) -> None:
    loaded = timeline(tmp_path, **{f"t{T3}": {}})
    assert bucket_count_as_of(config(16, f"{T1}/4/8,{T2}/8/16"), loaded) == 16
    assert bucket_count_as_of(config(16, f"{T1}/4/8,{T2}/8/16"), loaded, T1) == 8
    assert not settled_counts(config(16, f"{T1}/4/8,{T2}/8/16"), loaded)
    unconfirmed = config(8, f"{T1}/4/8,{T2}/8/16?")
    assert "is archived" in str(bucket_count_as_of(unconfirmed, loaded))
    assert settled_counts(unconfirmed, loaded) == {RESIZES: f"{T1}/4/8"}  # the archive does not have it


def test_the_newest_commit_must_agree(tmp_path: Path) -> None:
    loaded = timeline(tmp_path, **{f"t{T1}": {RECORD_KEY: json.dumps({COUNT: "8"})}})
    assert bucket_count_as_of(config(8), loaded) == 8
    assert "was written with 8 buckets" in str(bucket_count_as_of(config(16), loaded))
    (tmp_path / "empty").mkdir()
    assert bucket_count_as_of(config(None), timeline(tmp_path / "empty")) is None


def test_texts() -> None:
    entries = [Resize(T1, 4, 8), Resize(T2, 8, 16, confirmed=False)]
    assert recorded_resizes(config(8, format_resizes(entries))) == entries
    assert with_resize(config(8, format_resizes(entries)), Resize(T2, 8, 16)) == f"{T1}/4/8,{T2}/8/16"
    for text in ("x", f"{T1}/4", f"{T1}/0/8", f"{T1}/4/8!"):
        with pytest.raises(CorruptFileError, match="no resize"):
            recorded_resizes(config(8, text))
