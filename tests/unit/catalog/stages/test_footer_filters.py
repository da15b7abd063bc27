"""The bloom filters of footers: plans for keys open the files that hold them, and lose none."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog import Plan, StageResult, Table
from catalog.snapshots import footers
from hudi_catalog import create_table, open_table
from table_format.base_file.bloom import simple_bloom
from table_format.base_file.footer import BLOOM, BLOOM_TYPE, MIN_KEY
from tests.unit.conftest import GoldenTable

GOLDEN = ["v6_0150__bloom_replace", "v6_0150__bkt_hive", "v6_1200__bkt_complex", "v9_1200__bkt_hive"]
DAYS = 12


def stage_of(plan: Plan) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == "bloom filter")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each footer was read for its bloom filter."""
    counts: Counter[str] = Counter()
    read = footers.footer

    def counting(storage: Any, path: str) -> Any:
        counts[path] += 1
        return read(storage, path)

    monkeypatch.setattr(footers, "footer", counting)
    return counts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table by day, whose keys are in every day's range, and in the file of their day."""
    table = create_table(tmp_path / "t", "id bigint, day int", record_key="id", partition_by="day", buckets=1)
    table.bulk_insert([{"id": number, "day": number % DAYS} for number in range(600)])
    return tmp_path / "t"


def changed(path: Path, day: int, **texts: str | None) -> None:
    """Write texts into the footer of a day's file, by the names of constants; None takes one away."""
    [file] = path.glob(f"*{day}/*.parquet") if day > 1 else path.glob(f"{day}/*.parquet")
    rows = pq.read_table(file)
    kept = {**(rows.schema.metadata or {}), **(pq.read_metadata(file).metadata or {})}
    for name, text in texts.items():
        key = {"bloom": BLOOM, "kind": BLOOM_TYPE, "least": MIN_KEY}[name].encode()
        kept.pop(key, None)
        if text is not None:
            kept[key] = text.encode()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    pq.write_table(rows.replace_schema_metadata(kept), file)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_every_key_of_apaches_tables_is_found(golden: Callable[[str], GoldenTable], name: str) -> None:
    rows = golden(name).rows
    table = golden(name).open()
    kept = pruned = 0
    for row in rows[:60]:
        plan = table.scan(f"_hoodie_record_key = '{row['_hoodie_record_key']}'").plan()
        assert any(row["_hoodie_file_name"].startswith(split.file_id) for split in plan.splits), row
        kept += stage_of(plan).files_out
        pruned += stage_of(plan).pruned
    assert pruned
    assert kept < 2 * len(rows[:60])


def test_one_file_of_each_key_is_left(path: Path, opened: Counter[str]) -> None:
    table = open_table(path)
    for key in range(DAYS, 600 - DAYS, 7):
        plan = table.scan(f"id = {key}").plan()
        assert stage_of(plan).files_in == DAYS
        assert f"{key % DAYS}" in [split.partition for split in plan.splits]
        assert stage_of(plan).files_out <= 3
    assert set(opened.values()) == {1}
    assert "of 12 files (12 in footers)" in stage_of(table.scan("id = 305").plan()).reason
    assert len(table.scan("id = 305 OR id = 306").plan()) >= 2


def test_a_footer_is_read_only_where_that_may_spare_a_file(path: Path, opened: Counter[str]) -> None:
    table = open_table(path)
    for condition in ("id = 305 AND day = 5", "id > 305", "day = 5"):
        assert not stage_of(table.scan(condition).plan()).pruned
    assert not opened
    assert (
        "footers of 12 files"
        in stage_of(table.scan("id = 305", options={"hoodie.catalog.scan.footer.limit": "11"}).plan()).reason
    )
    assert not opened


def test_new_files_of_a_table_held_open_are_looked_into(path: Path, opened: Counter[str]) -> None:
    table = open_table(path)
    assert "3" not in [split.partition for split in table.scan("id = 301").plan().splits]
    table.upsert([{"id": 301, "day": 3}])
    plan = table.scan("id = 301").plan()
    assert "3" in [split.partition for split in plan.splits]
    assert sorted(table.scan("id = 301").to_arrow()["day"].to_pylist()) == [1, 3]
    assert set(opened.values()) == {1}
    assert len(opened) == DAYS + 1


@pytest.mark.parametrize(
    "texts",
    [
        {"bloom": None},
        {"bloom": "not base64!"},
        {"bloom": ""},
        {"kind": "JENKINS"},
        {"kind": "DYNAMIC_V0"},
        {"least": None},
    ],
)
def test_files_stay_whose_filter_cannot_be_believed(path: Path, texts: dict[str, str | None]) -> None:
    empty = simple_bloom(pq.read_table(path).slice(0, 0)["_hoodie_record_key"].combine_chunks(), 1024, 7).to_text()
    changed(path, 7, **{"bloom": empty, **texts})
    table = open_table(path)
    assert "7" in [split.partition for split in table.scan("id = 305").plan().splits]
    assert table.scan("id = 307").to_arrow()["id"].to_pylist() == [307]


def test_a_filter_that_was_told_of_no_key_is_believed_nowhere(path: Path) -> None:
    empty = simple_bloom(pq.read_table(path).slice(0, 0)["_hoodie_record_key"].combine_chunks(), 1024, 7).to_text()
    changed(path, 7, bloom=empty, least=None)
    table = open_table(path)
    table.build_index("bloom_filters")
    assert "7" in [split.partition for split in open_table(path).scan("id = 307").plan().splits]
    open_table(path).upsert([{"id": 307, "day": 7}])
    assert open_table(path).scan("id = 307").to_arrow()["id"].to_pylist() == [307]


def test_a_footer_that_cannot_be_read_leaves_the_error_to_reading(path: Path) -> None:
    [file] = path.glob("7/*.parquet")
    file.write_bytes(b"PAR1 no more")
    assert "7" in [split.partition for split in open_table(path).scan("id = 305").plan().splits]


def test_log_files_are_not_covered(golden: Callable[[str], GoldenTable], tmp_path: Path) -> None:
    source = golden("v6_0150__mor_log")
    copy = shutil.copytree(source.path, tmp_path / "t")
    table = Table.open(str(copy))
    for row in source.rows[:40]:
        key = row["_hoodie_record_key"]
        assert table.scan(f"_hoodie_record_key = '{key}'").to_arrow().num_rows == 1
