"""Conjunctions of which a selective part is evaluated first: the files and proofs of the whole conjunction."""

import random
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from catalog import Table
from catalog.planner import Plan
from catalog.stages import column_stats
from catalog.statistics import ordered_blocks
from hudi_catalog import create_table, open_table

FILES = 60
CHANCE = random.Random(5)
ROWS = pa.table(
    {
        "id": range(FILES * 2),
        "day": [f"d{n // 2:02}" for n in range(FILES * 2)],
        "a": [n if n % 7 else None for n in range(FILES * 2)],
        "b": [float(CHANCE.randrange(20)) for _ in range(FILES * 2)],
        "c": [f"t{CHANCE.randrange(9)}" for _ in range(FILES * 2)],
    }
)
PARTS = [
    "a >= {}",
    "a < {}",
    "a BETWEEN {} AND 70",
    "a IS NULL",
    "a IS NOT NULL",
    "b > {}",
    "b = {}",
    "NOT (b <= {})",
    "c = 't{}'",
    "c LIKE 't%'",
    "(a > {} OR b < 3)",
    "a NOT IN (1, {})",
    "day >= 'd{}'",
    "1 = 1",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 60 files of two rows, some of which were written again."""
    path = tmp_path_factory.mktemp("parts") / "t"
    create_table(path, ROWS.schema, record_key="id", partition_by="day", buckets=1).bulk_insert(ROWS)
    return path


def facts(plan: Plan) -> list[object]:
    stages = [(stage.name, stage.files_in, stage.files_out, stage.reason) for stage in plan.stages]
    return [plan.rows.tolist(), plan.fully_matching.tolist(), plan.dropped_by.tolist(), stages]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["_by_selective_part", "files_of_blocks"])
def test_plans_are_those_of_the_whole_conjunction(
    path: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(path, tmp_path / "t")
    held = Table.open(str(tmp_path / "t"))
    held.snapshot()
    few: list[Any] = []
    find = getattr(column_stats, way)
    monkeypatch.setattr(ordered_blocks, "_BLOCK", 3)
    monkeypatch.setattr(ordered_blocks, "_PLANS_BEFORE", 0 if way == "files_of_blocks" else 1_000)
    for seed in range(120):
        if seed == 60:  # files of later commits are a segment of their own
            open_table(tmp_path / "t").upsert(ROWS.slice(6, 30))
            held.refresh()
        chance = random.Random(seed)
        parts = chance.choices(PARTS, k=chance.randrange(1 if way == "files_of_blocks" else 2, 5))
        text = " AND ".join(part.format(chance.randrange(60)) for part in parts)
        expected = facts(held.scan(text).plan())
        limits = {"_SAMPLED": 4, "_SAMPLE": chance.randrange(1, 4), "_FEW_SHARE": 0.9, "_FEW_LEFT": 4, "_ALL_FROM": 1}

        def noted(*arguments: Any) -> Any:
            few.append(find(*arguments))
            return few[-1]

        with mock.patch.multiple(column_stats, **limits), mock.patch.object(column_stats, way, noted):
            assert facts(held.scan(text).plan()) == expected, text
    assert sum(files is not None for files in few) > 40
