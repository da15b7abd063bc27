"""Tables that real Apache Hudi wrote, merged log files among them, read by real Trino through the service."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hudi_catalog.trino.serve import TrinoSettings
from tests.engines.answers import rows_agree
from tests.engines.golden_rows import is_plain, literal, names, unpack, value_of
from tests.engines.trino_engine import Engine
from tests.engines.trino_world import another_service

pytestmark = pytest.mark.engine

# kinds of columns whose expected values are written in JSON as Trino's client gives them
PLAIN = frozenset({"integer", "bigint", "varchar", "boolean"})
TIMES = {"hoodie.catalog.trino.type.timestamp": "varchar"}


@dataclass(frozen=True)
class Golden:
    """The tables through the service, and their rows as Apache Hudi read them."""

    engine: Engine
    catalog: str
    rows: dict[str, list[dict[str, Any]]]

    def query(self, sql: str, name: str) -> list[tuple[Any, ...]]:
        return self.engine.query(sql, catalog=self.catalog, schema=name)


@pytest.fixture(scope="module")
def golden(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    folder = tmp_path_factory.mktemp("golden-warehouse")
    rows = unpack(folder)
    with another_service(trino, "golden", TrinoSettings(str(folder), options=TIMES)) as (_, catalog):
        yield Golden(trino, catalog, rows)


@pytest.mark.parametrize("name", names())
def test_rows_are_those_that_apache_hudi_reads(golden: Golden, name: str) -> None:
    expected = golden.rows[name]
    kinds = {row[0]: row[1] for row in golden.query('DESCRIBE "table"', name)}
    assert set(kinds) >= {column for column in expected[0] if not column.startswith("_")}
    plain = [column for column, kind in kinds.items() if kind in PLAIN and is_plain(expected, column)]
    assert len(plain) >= 3
    wanted = [tuple(row[column] for column in plain) for row in expected]
    listed = ", ".join(f'"{column}"' for column in plain)
    assert rows_agree(golden.query(f'SELECT {listed} FROM "table"', name), wanted) == ""
    # every column can be read
    assert len(golden.query('SELECT * FROM "table"', name)) == len(expected)
    assert golden.query('SELECT count(*) FROM "table"', name) == [(len(expected),)]
    for column in plain:
        value = value_of(expected, column)
        if value is not None:
            matching = [row for row, whole in zip(wanted, expected, strict=True) if whole[column] == value]
            sql = f"""SELECT {listed} FROM "table" WHERE "{column}" = {literal(value)}"""
            assert rows_agree(golden.query(sql, name), matching) == "", column
