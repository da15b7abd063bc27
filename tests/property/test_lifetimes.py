"""Hundreds of small commits with the default services: what is kept is bounded, and hudi-rs reads at several points."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from benchmarks.lifetime import BATCH, INDEXES, KEYS, STEP, Life, batch, live
from hudi_catalog.table import open_table

COMMITS = int(os.environ.get("HUDI_CATALOG_LIFETIME", "500"))
POINTS = (1, 130)


@pytest.mark.parametrize(
    "index", [pytest.param(index, marks=[] if index == "BUCKET" else pytest.mark.slow) for index in INDEXES]
)
def test_a_table_of_many_commits(tmp_path: Path, index: str) -> None:
    commits = COMMITS if index == "BUCKET" else COMMITS // 2
    rows: dict[str, int] = {}

    def note(life: Life) -> None:
        number = len(life.seconds)
        rows.update(dict.fromkeys(batch(number - 1)["id"].to_pylist(), number - 1))
        if number in (*POINTS, commits):
            assert read_by_hudi_rs(tmp_path / "t") == rows, number

    life = live(tmp_path / "t", index, commits, note)
    assert len(rows) == KEYS > BATCH
    table = open_table(tmp_path / "t")
    assert sum(entry.action == "commit" for entry in table.history()) == commits
    # between two archivings and compactions the number of files swings, and has no trend
    early, late = life.files[100 // STEP : 170 // STEP], life.files[-(70 // STEP) :]
    assert max(late) <= 1.1 * max(early), (early, late)
    assert max(life.files) < 600
    # neither requests nor bytes read depend on how old the table is
    for figures in (life.requests, life.megabytes):
        assert sum(figures[-70:]) <= 1.1 * sum(figures[100:170]), figures


def read_by_hudi_rs(path: Path) -> dict[str, int]:
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read()
    table = pa.Table.from_batches(batches)
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
