"""Where Apache's data skipping loses rows, shown on its own tables; our plans keep the files."""

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Table
from tests.engines.apache_hudi.client import ALL_VERSIONS, ApacheHudi
from tests.engines.apache_tables import ROW_GROUPS, edge_table, row_group_table
from tests.engines.edges import DEFECTS, SOUND, Defect

pytestmark = [pytest.mark.engine]
PAGE = Path(__file__).parents[2] / "docs/apache-defects.md"
Edges = Callable[..., tuple[ApacheHudi, Path]]


@pytest.fixture(scope="session")
def edges(release: Callable[[str], ApacheHudi], tmp_path_factory: pytest.TempPathFactory) -> Edges:
    made: dict[tuple[str, bool], Path] = {}

    def make(version: str, *, several_row_groups: bool = False) -> tuple[ApacheHudi, Path]:
        key = version, several_row_groups
        if key not in made:
            table = row_group_table() if several_row_groups else edge_table()
            made[key] = table.write(release(version), tmp_path_factory.mktemp("edges") / "table")
        return release(version), made[key]

    return make


def files_with_matches(engine: ApacheHudi, path: Path, where: str) -> set[str]:
    """By Apache without data skipping, so that nobody's statistics are in it."""
    rows: pa.Table = engine.read(path, where, {"hoodie.enable.data.skipping": "false"})
    return set(rows["_hoodie_file_name"].to_pylist())


def planned(path: Path, where: str) -> set[str]:
    return {split.file_name for split in Table.open(str(path)).scan(where, options=ROW_GROUPS).plan().splits}


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.title)
def test_apache_drops_files_that_we_keep(edges: Edges, version: str, defect: Defect) -> None:
    engine, path = edges(version, several_row_groups=defect.several_row_groups)
    theirs = engine.planned_files(path, list(defect.filters))
    for where, kept in zip(defect.filters, theirs, strict=True):
        needed = files_with_matches(engine, path, where)
        assert needed
        assert kept is not None
        assert needed - set(kept), f"{where}: Apache {version} keeps all files by now; correct {PAGE.name}"
        assert needed <= planned(path, where), where


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_other_conditions_on_the_same_rows_lose_nothing(edges: Edges, version: str) -> None:
    engine, path = edges(version)
    for where, kept in zip(SOUND, engine.planned_files(path, list(SOUND)), strict=True):
        needed = files_with_matches(engine, path, where)
        assert kept is not None
        assert needed <= set(kept), where
        assert needed <= planned(path, where), where


def test_the_page_lists_what_is_shown() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [defect.title for defect in DEFECTS]
    for defect in DEFECTS:
        section = text.split(f"## {defect.title}\n")[1].split("\n## ")[0]
        assert [f"`{where}`" in section for where in defect.filters] == [True] * len(defect.filters), defect.title
        assert all(f"apache/hudi {number}" in section for number in defect.reports), defect.title
