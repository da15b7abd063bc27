"""Conjunctions of which a selective part is evaluated first: the files and proofs of the whole conjunction."""

import random
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from catalog import Table
from catalog.planner import Plan
from catalog.stages import column_stats
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
def test_plans_are_those_of_the_whole_conjunction(path: Path) -> None:
    held = Table.open(str(path))
    held.snapshot()
    narrowed = 0
    by_part = column_stats._by_selective_part  # whether it was taken
    for seed in range(120):
        if seed == 60:  # files of later commits are a segment of their own
            open_table(path).upsert(ROWS.slice(6, 30))
            held.refresh()
        chance = random.Random(seed)
        parts = chance.choices(PARTS, k=chance.randrange(2, 5))
        text = " AND ".join(part.format(chance.randrange(60)) for part in parts)
        expected = facts(held.scan(text).plan())
        limits = {"_SAMPLED": 4, "_SAMPLE": chance.randrange(1, 4), "_FEW_SHARE": 0.9, "_FEW_LEFT": 4, "_ALL_FROM": 1}
        with (
            mock.patch.multiple(column_stats, **limits),
            mock.patch.object(column_stats, "_by_selective_part", side_effect=by_part) as taken,
        ):
            assert facts(held.scan(text).plan()) == expected, text
        narrowed += taken.called
    assert narrowed > 40
