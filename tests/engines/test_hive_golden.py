"""Tables that real Apache Hudi wrote, of all kinds and versions, read by real Hive through the storage handler."""

import re
from pathlib import Path

import pytest

from tests.engines.answers import rows_agree
from tests.engines.golden_rows import Rows, is_plain, literal, names, unpack, value_of
from tests.engines.hive_engine import ON_TEZ
from tests.engines.hive_world import World

pytestmark = pytest.mark.engine

PLAIN = frozenset({"int", "bigint", "string", "boolean"})


@pytest.fixture(scope="module")
def golden(hive_world: World) -> dict[str, Rows]:
    """Each table as `golden.<name>`, and its rows as Apache Hudi read them."""
    folder = hive_world.folder("golden")
    rows = unpack(folder)
    for name in rows:
        Path(folder, name, "table").rename(folder / _named(name))
    return rows


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", names())
def test_rows_are_those_that_apache_hudi_reads(hive_world: World, golden: dict[str, Rows], name: str) -> None:
    expected, table = golden[name], _named(name)
    hive_world.register("golden", table)
    kinds = {row[0]: row[1] for row in hive_world.query(f"DESCRIBE {table}", "golden")}
    assert set(kinds) >= {column.lower() for column in expected[0] if not column.startswith("_")}
    spelled = {column.lower(): column for column in expected[0]}
    plain = [
        spelled[column]
        for column, kind in kinds.items()
        if kind in PLAIN and is_plain(expected, spelled.get(column, ""))
    ]
    assert len(plain) >= 3
    wanted = [tuple(row[column] for column in plain) for row in expected]
    listed = ", ".join(f"`{column}`" for column in plain)
    assert rows_agree(hive_world.query(f"SELECT {listed} FROM {table}", "golden"), wanted) == ""
    # every column can be read
    assert len(hive_world.query(f"SELECT * FROM {table}", "golden")) == len(expected)
    values = [(column, value) for column in plain if (value := value_of(expected, column)) is not None][:2]
    for column, value in values:
        matching = [row for row, whole in zip(wanted, expected, strict=True) if whole[column] == value]
        sql = f"SELECT {listed} FROM {table} WHERE `{column}` = {literal(value)}"
        assert rows_agree(hive_world.query(sql, "golden"), matching) == "", column
    if name in names()[::3]:
        assert rows_agree(hive_world.query(f"SELECT {listed} FROM {table}", "golden", ON_TEZ), wanted) == ""


def _named(name: str) -> str:
    return re.sub(r"\W|__", "_", name.lower())
