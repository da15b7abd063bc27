"""The greatest value of a member of a struct wins, in a batch and against the table's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hudi_catalog

WHOLE = {"hoodie.catalog.write.surgery": "never"}
SURGERY = {"hoodie.catalog.write.surgery": "always"}
MOVING = {"hoodie.record.index.update.partition.path": "true"}
IN_TASKS = {**MOVING, "hoodie.catalog.record.index.driver.rows": "1"}


def row(number: int, place: str, version: int | None, part: str = "p") -> dict[str, Any]:
    struct = None if version is None else {"name": f"{place}{version}", "at": {"version": version}}
    return {"id": number, "part": part, "place": place, "st": struct}


@pytest.mark.parametrize(
    ("index", "options"),
    [("BUCKET", WHOLE), ("BUCKET", SURGERY), ("RECORD_INDEX", MOVING), ("RECORD_INDEX", IN_TASKS)],
    ids=["whole", "surgery", "record index", "in tasks"],
)
def test_the_newest_row_wins(tmp_path: Path, index: str, options: dict[str, str]) -> None:
    table = hudi_catalog.create_table(
        f"{tmp_path}/t",
        "id int, part string, place string, st struct<name: string, at: struct<version: bigint>>",
        record_key="id",
        partition_by="part",
        ordering="st.at.version",
        index=index,
        options=options,
    )
    table.upsert([row(1, "a", 5), row(1, "a", 4), row(2, "a", None), row(2, "a", 1), row(3, "a", 7)])
    versions = {1: 5, 2: 1, 3: 7}
    assert newest(table) == {number: ("a", version, "p") for number, version in versions.items()}
    table.upsert([row(1, "b", 4), row(2, "b", 2), row(3, "b", None), row(4, "b", None)])
    assert newest(table) == {1: ("a", 5, "p"), 2: ("b", 2, "p"), 3: ("a", 7, "p"), 4: ("b", None, "p")}
    if index == "RECORD_INDEX":
        table.upsert([row(1, "c", 4, "q"), row(2, "c", 3, "q")])
        assert newest(table) == {1: ("a", 5, "p"), 2: ("c", 3, "q"), 3: ("a", 7, "p"), 4: ("b", None, "p")}


def newest(table: hudi_catalog.Table) -> dict[int, tuple[str, int | None, str]]:
    rows = table.scan().to_arrow().to_pylist()
    assert len({one["id"] for one in rows}) == len(rows)
    return {one["id"]: (one["place"], one["st"] and one["st"]["at"]["version"], one["part"]) for one in rows}


@pytest.mark.parametrize("kind", ["struct<a: int>", "map<string, int>", "array<int>"])
@pytest.mark.parametrize("role", ["record_key", "partition_by", "ordering"])
def test_nested_columns_have_no_role(tmp_path: Path, kind: str, role: str) -> None:
    columns: dict[str, Any] = {"record_key": "id", role: "wrong"}
    with pytest.raises(hudi_catalog.HudiError, match=r"names 'wrong', which is .*: such a column (has no|cannot be)"):
        hudi_catalog.create_table(f"{tmp_path}/t", f"id int, wrong {kind}", **columns)
    assert not list(tmp_path.iterdir())
