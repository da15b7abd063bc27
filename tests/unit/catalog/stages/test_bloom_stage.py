"""The bloom filter stage, with filters in a fake metadata table."""

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from catalog import Plan, StageResult, Table
from catalog.stages import record_key
from pushdown import col
from table_format.base_file.bloom import dynamic_bloom, filter_size, simple_bloom
from table_format.errors import CorruptFileError
from table_format.metadata_table.reader import MetadataTable
from tests.unit.conftest import GoldenTable

NAME = "v6_0150__bkt_hive"


def stage_of(plan: Plan) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == "bloom filter")


class Filters:
    """Bloom filters of the keys that a golden table's files hold."""

    def __init__(self, golden_table: GoldenTable) -> None:
        self.keys: dict[str, list[str]] = {}
        for row in golden_table.rows:
            self.keys.setdefault(row["_hoodie_file_name"], []).append(row["_hoodie_record_key"])
        self.asked: list[str] = []
        self.text: Callable[[str, list[str]], tuple[str, bytes] | None] = self.simple

    @staticmethod
    def simple(_: str, keys: list[str]) -> tuple[str, bytes]:
        bits, hashes = filter_size(1000, 1e-9)
        return "SIMPLE", simple_bloom(pa.array(keys), bits, hashes).to_text().encode()

    @staticmethod
    def dynamic(_: str, keys: list[str]) -> tuple[str, bytes]:
        bits, hashes = filter_size(5, 1e-9)
        return "DYNAMIC_V0", dynamic_bloom(pa.array(keys), bits, hashes, 5, 1000).to_text().encode()

    def answer(self, files: pa.Table) -> pa.Table:
        rows: list[tuple[str, str, str, bytes]] = []
        listed: Any = files.select(["partition", "file_name"]).to_pylist()
        for partition, name in ((row["partition"], row["file_name"]) for row in listed):
            self.asked.append(name)
            made = self.text(name, self.keys[name])
            if made is not None:
                rows.append((partition, name, *made))
        columns: list[Any] = [[row[i] for row in rows] for i in range(4)]
        types = [pa.string(), pa.string(), pa.string(), pa.binary()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.Table.from_arrays(arrays, names=["partition", "file_name", "type", "bloom"])


@pytest.fixture
def filters(golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch) -> Filters:
    stand_in = Filters(golden(NAME))
    monkeypatch.setattr(MetadataTable, "bloom_filters", lambda _, files: stand_in.answer(files))
    return stand_in


@pytest.fixture
def table(copied: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(record_key, "_MOST_FOOTERS", 0)  # the files have filters of their own
    return Table.open(copied(NAME, {"hoodie.table.metadata.partitions": "bloom_filters,column_stats,files"}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simple", "dynamic"])
def test_keys_are_in_the_files_kept_and_few_others(filters: Filters, table: Table, kind: str) -> None:
    filters.text = getattr(filters, kind)
    kept = 0
    for name, keys in filters.keys.items():
        for key in keys[:5]:
            plan = table.scan(col("id") == key).plan()
            assert stage_of(plan).pruned
            assert name in [split.file_name for split in plan.splits]
            kept += len(plan)
    assert kept == sum(min(len(keys), 5) for keys in filters.keys.values())


def test_a_key_that_no_file_holds(filters: Filters, table: Table) -> None:
    plan = table.scan("id = 'k00003x'").plan()
    assert len(plan) == 0
    assert len(filters.asked) == stage_of(plan).files_in


def test_only_files_that_are_left_are_asked(filters: Filters, table: Table) -> None:
    plan = table.scan("part = 'eu' AND id = 'k00004'").plan()
    assert len(filters.asked) == stage_of(plan).files_in > 0
    assert all(split.partition == "part=eu" for split in plan.splits)


def test_filters_without_keys_ask_nothing(filters: Filters, table: Table) -> None:
    for condition in ("i = 5", "id > 'k'", "id = 'k00004' OR i = 5"):
        assert not stage_of(table.scan(condition).plan()).pruned
    assert not filters.asked


@pytest.mark.parametrize(
    "made",
    [
        None,
        ("SIMPLE", b""),
        ("SIMPLE", b"not base64!"),
        ("JENKINS", base64.b64encode(bytes(64))),
        ("DYNAMIC_V0", base64.b64encode(bytes(64))),
    ],
)
def test_files_without_a_filter_that_can_be_read_stay(
    filters: Filters, table: Table, made: tuple[str, bytes] | None
) -> None:
    filters.text = lambda *_: made
    stage = stage_of(table.scan("id = 'k00004'").plan())
    assert not stage.pruned
    assert stage.files_out == stage.files_in > 0


def test_a_filter_that_is_said_to_be_of_the_other_type_rules_out_nothing(filters: Filters, table: Table) -> None:
    other = {"SIMPLE": "DYNAMIC_V0", "DYNAMIC_V0": "SIMPLE"}
    for make in (filters.simple, filters.dynamic):
        filters.text = lambda name, keys, make=make: (other[make(name, keys)[0]], make(name, keys)[1])  # type: ignore[misc]
        assert not stage_of(table.scan("id = 'k00004'").plan()).pruned


def test_damaged_filters_are_left_aside(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise CorruptFileError("bloom", 0, "torn")

    monkeypatch.setattr(MetadataTable, "bloom_filters", fail)
    stage = stage_of(table.scan("id = 'k00004'").plan())
    assert not stage.pruned
    assert "torn" in stage.reason
