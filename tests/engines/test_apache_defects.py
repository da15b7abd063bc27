"""Where Apache loses rows or brings them back, shown on its own tables; our plans and scans do not."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Table
from tests.engines.apache_tables import MERGE_ON_READ, NO_COMPACTION, NONPARTITIONED
from tests.engines.edges import DEFECTS, SOUND, Defect
from tests.engines.written_table import Written
from tests.support.apache_hudi_client import ALL_VERSIONS, ApacheHudi
from tests.support.long_life import LIVES, Life, differences

pytestmark = [pytest.mark.engine]
PAGE = Path(__file__).parents[2] / "docs/apache-defects.md"
ARCHIVED = "Commits that were archived beyond a savepoint"
UPDATES = "Updates in Parquet blocks, ordered by texts"
PARQUET_BLOCKS = {
    **NONPARTITIONED,
    **MERGE_ON_READ,
    **NO_COMPACTION,
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "o",
    "hoodie.index.type": "SIMPLE",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.logfile.data.block.format": "parquet",
}
Tables = Callable[[str, str], Written]


def files_with_matches(engine: ApacheHudi, path: Path, filters: Sequence[str]) -> list[set[str]]:
    """Of each filter, by Apache as a column of a full scan, so that nobody's statistics are in it."""
    engine.sql(f"CREATE OR REPLACE TEMPORARY VIEW edges USING hudi OPTIONS (path '{path}')")
    flags = ", ".join(f"bool_or({where}) AS f{number}" for number, where in enumerate(filters))
    rows = engine.sql(f"SELECT _hoodie_file_name AS name, {flags} FROM edges GROUP BY name")
    return [{row["name"] for row in rows if row[f"f{number}"]} for number in range(len(filters))]


def planned(path: Path, where: str) -> set[str]:
    return {split.file_name for split in Table.open(str(path)).scan(where).plan().splits}


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.title)
def test_apache_drops_files_that_we_keep(written: Tables, version: str, defect: Defect) -> None:
    table = written(version, "cow_row_groups" if defect.several_row_groups else "cow_edges")
    theirs = table.engine.planned_files(table.path, list(defect.filters))
    matching = files_with_matches(table.engine, table.path, defect.filters)
    for where, planned_files, needed in zip(defect.filters, theirs, matching, strict=True):
        assert needed
        assert planned_files is not None
        assert needed - set(planned_files), f"{where}: Apache {version} keeps all files by now; correct {PAGE.name}"
        assert needed <= planned(table.path, where), where


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_other_conditions_on_the_same_rows_lose_nothing(written: Tables, version: str) -> None:
    table = written(version, "cow_edges")
    engine, path = table.engine, table.path
    theirs, matching = engine.planned_files(path, list(SOUND)), files_with_matches(engine, path, SOUND)
    for where, planned_files, needed in zip(SOUND, theirs, matching, strict=True):
        assert planned_files is not None
        assert needed <= set(planned_files), where
        assert needed <= planned(path, where), where


def test_what_apache_archived_beyond_a_savepoint(release: Callable[[str], ApacheHudi], tmp_path: Path) -> None:
    _, options, steps = LIVES["beyond"]
    life = Life(release("0.15.0"), tmp_path / "table", options)
    life.live(steps[:-4])
    rows = life.states[max(life.states)]
    theirs = {row["id"]: row for row in life.apache.read(life.path).to_pylist()}
    first = life.states[min(life.states)]
    replaced = {key for key, row in first.items() if row["part"] == "p0"}
    assert replaced <= set(theirs), f"Apache has archived replacecommits in mind by now; correct {PAGE.name}"
    assert not replaced & set(rows)
    updated = {
        key for key, row in rows.items() if row["part"] == "p2" and row["ts"] == steps.index(("upsert", 3, "p2")) + 1
    }
    assert updated
    assert not any(theirs[key]["ts"] == rows[key]["ts"] for key in updated), (
        f"Apache reads updates; correct {PAGE.name}"
    )
    assert differences(Table.open(str(life.path)).scan().to_arrow(), rows) == ""


@pytest.mark.parametrize(("version", "compares"), [("0.15.0", True), ("1.0.2", False), ("1.2.0", False)])
def test_updates_in_parquet_blocks_ordered_by_texts(
    release: Callable[[str], ApacheHudi], tmp_path: Path, version: str, compares: bool
) -> None:
    apache, path = release(version), tmp_path / "table"
    for operation, orders, value in (("bulk_insert", ["o3", "o3"], 1), ("upsert", ["o5", "o1"], 2)):
        options = {**PARQUET_BLOCKS, "hoodie.datasource.write.operation": operation}
        apache.write(path, pa.table({"id": ["later", "earlier"], "o": orders, "v": [value] * 2}), options)
    assert list(path.glob(".*.log.*"))
    theirs, ours = apache.read(path), Table.open(str(path)).scan().to_arrow()
    assert rows_of(ours) == {("later", 2), ("earlier", 1)}
    assert (rows_of(theirs) == rows_of(ours)) == compares, f"correct {PAGE.name}"


def rows_of(table: pa.Table) -> set[tuple[str, int]]:
    return set(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))  # type: ignore[arg-type]


def test_the_page_lists_what_is_shown() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [*(defect.title for defect in DEFECTS), ARCHIVED, UPDATES]
    for defect in DEFECTS:
        section = text.split(f"## {defect.title}\n")[1].split("\n## ")[0]
        assert [f"`{where}`" in section for where in defect.filters] == [True] * len(defect.filters), defect.title
        assert all(f"apache/hudi {number}" in section for number in defect.reports), defect.title
