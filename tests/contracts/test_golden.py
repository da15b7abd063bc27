"""Each golden file is listed in `tests/golden/README.md`, with the script that recreates it."""

import re
from pathlib import Path

from tests.engines.apache_tables import apache_tables
from tests.engines.written_table import label, packed
from tests.golden.__main__ import SCRIPTS
from tests.support.apache_hudi_client import ALL_VERSIONS
from tests.support.paths import GOLDEN

_ROW = re.compile(r"^\| (`.+`) \| (.+) \|$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_PATTERNS = ("*.xz", "*.gz", "*.json")


def listed() -> list[tuple[set[Path], list[Path]]]:
    """Files and scripts of each row of the README's table; no scripts where it says `none`."""
    rows = []
    for files, scripts in _ROW.findall((GOLDEN / "README.md").read_text()):
        patterns = _QUOTED.findall(files)
        matches = [set(GOLDEN.glob(pattern)) for pattern in patterns]
        assert all(matches), f"{patterns}: no such files"
        assert bool(_QUOTED.findall(scripts)) != (scripts == "none"), scripts
        rows.append((set().union(*matches), [GOLDEN / name for name in _QUOTED.findall(scripts)]))
    return rows


def test_each_golden_file_has_one_row() -> None:
    rows = [file for files, _ in listed() for file in files]
    stored = {file for pattern in _PATTERNS for file in GOLDEN.rglob(pattern)}
    assert sorted(rows) == sorted(stored)


def test_each_script_exists_and_each_file_of_scripts_is_named() -> None:
    named = {script for _, scripts in listed() for script in scripts}
    present = {path for ending in ("*.py", "*.java") for path in GOLDEN.rglob(ending) if path.name != "__init__.py"}
    assert named | {GOLDEN / "packing.py", GOLDEN / "__main__.py"} == present


def test_one_command_runs_the_scripts() -> None:
    run = [GOLDEN / f"{script.replace('.', '/')}.py" for script in SCRIPTS]
    started = {path for path in GOLDEN.rglob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert sorted(run) == sorted(started - {GOLDEN / "__main__.py"})


def test_the_tables_of_apache_are_packed_as_they_are_described() -> None:
    for version in ALL_VERSIONS:
        described = {label(version, spec) for spec in apache_tables().values() if version in spec.releases}
        assert {path.split("/")[0] for path in packed(version)} == described, "run tests.golden.apache_tables.make"
