"""Tables that real Apache Hudi wrote, with their rows as Apache Hudi read them, for engines to read."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden/tables"
ARCHIVES = ("tables.tar.xz", "newer.tar.xz")
Rows = list[dict[str, Any]]


def unpack(folder: Path) -> dict[str, Rows]:
    """Put every table into a folder, as `<name>/table`; gives the rows of each by its name."""
    for archive in ARCHIVES:
        with tarfile.open(GOLDEN / archive) as packed:
            packed.extractall(folder, filter="data")
    return {path.parent.name: json.loads(path.read_text())["rows"] for path in folder.glob("*/expected.json")}


def names() -> list[str]:
    """Of all tables."""
    folders: set[str] = set()
    for archive in ARCHIVES:
        with tarfile.open(GOLDEN / archive) as packed:
            folders |= {name.split("/")[0] for name in packed.getnames() if name.endswith("/expected.json")}
    return sorted(folders)


def is_plain(rows: Rows, column: str) -> bool:
    """Whether JSON has the values themselves, not texts for dates, decimals and the like."""
    types = {type(row.get(column)) for row in rows} - {type(None)}
    named = {"dec", "dec18", "dec_big", "tm", "bin", "kt", "kdec", "kd", "st", "arr", "arr_st", "mp", "added_st", "f"}
    return column in rows[0] and column not in named and types <= {int, str, bool}


def value_of(rows: Rows, column: str) -> Any:
    """A value that some row has, to ask for; None if there is none."""
    return next((row[column] for row in rows[len(rows) // 2 :] if row[column] is not None), None)


def literal(value: Any) -> str:
    """A value in SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()
