"""Limits on the length of names and paths."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from table_format.errors import RecordError, StorageError
from table_format.storage import Storage
from table_writer.plan.path_limits import PathLimits
from table_writer.timeline.markers import create_marker

TEXT = pa.string()
NAME = f"{'0' * 36}-0_123456-12345-1234567_20261122055913084.parquet"


def limits_of(folder: Path) -> PathLimits:
    limits = PathLimits.of(Storage(str(folder)))
    assert limits is not None
    return limits


def place(kind: str, base: str) -> Any:
    return SimpleNamespace(base=base, is_local=False, filesystem=SimpleNamespace(type_name=kind))


def test_local_limits_are_those_of_the_file_system(tmp_path: Path) -> None:
    limits = limits_of(tmp_path)
    assert limits.name == os.pathconf(tmp_path, "PC_NAME_MAX")
    longest = "a" * limits.name
    limits.refuse_long(pa.array(["", "b/c", longest, f"x/{longest}", None], TEXT))
    with pytest.raises(RecordError, match=rf"'x/a+…' has a folder name of {limits.name + 1} bytes, 'a+….* prefix or"):
        limits.refuse_long(pa.array(["fine", f"x/{longest}a"], TEXT))
    # bytes count, not characters
    with pytest.raises(RecordError, match="folder name"):
        limits.refuse_long(pa.array(["é" * (limits.name // 2 + 1)], TEXT))


def test_files_can_be_written_to_the_longest_path(tmp_path: Path) -> None:
    limits = limits_of(tmp_path)
    longest = ("/".join(["p" * 200] * (limits.path // 200 + 1)))[: limits.path].rstrip("/")
    limits.refuse_long(pa.array([longest], TEXT))
    create_marker(Storage(str(tmp_path)), "20261122055913084", longest, NAME, "CREATE")
    with pytest.raises(RecordError, match=f"has {limits.path + 1} bytes, and the table.s storage takes at most"):
        limits.refuse_long(pa.array([longest + "p" * (limits.path + 1 - len(longest))], TEXT))


def test_object_stores_limit_whole_keys() -> None:
    limits = PathLimits.of(place("s3", "bucket/warehouse/t"))
    # the bucket is not part of the key
    assert limits == PathLimits(None, 1024 - 160 - len("warehouse/t"))
    limits.refuse_long(pa.array(["p" * 800], TEXT))
    with pytest.raises(RecordError, match="has 900 bytes"):
        limits.refuse_long(pa.array(["p" * 900], TEXT))
    limits.refuse_long_families(["record-index-" + "p" * 800 + "-"])
    assert PathLimits.of(place("hdfs", "/t")) is None


def test_what_is_not_told_is_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pathconf")
    assert PathLimits.of(Storage(str(tmp_path))) is None


def test_temporary_files_have_names_no_longer_than_others(tmp_path: Path) -> None:
    name = "n" * 255
    Storage(str(tmp_path)).create(name, b"1")
    Storage(str(tmp_path)).overwrite(name, b"2")
    assert os.listdir(tmp_path) == [name]


def test_names_that_nobody_checked_are_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="n: the file system takes no name or path of this length"):
        Storage(str(tmp_path)).create("n" * 300, b"1")
    with pytest.raises(StorageError, match="no name or path of this length"):
        Storage(str(tmp_path)).open_input("n" * 300)
