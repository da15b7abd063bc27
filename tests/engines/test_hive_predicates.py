"""How each form of a WHERE arrives from real Hive, which files it keeps, and that it loses no row.

Every form that is in `hive_forms.txt` gives the same rows through the storage handler as Hive finds in the same files
as a plain Parquet table: in the server, row by row, and on Tez, vectorized.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from tests.engines import hive_forms
from tests.engines.hive_engine import ON_TEZ, OWN_SCANS
from tests.engines.hive_forms import FILES, NESTED, ROWS, Form
from tests.engines.hive_world import World, each_alone
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine

SCHEMA = "forms"
# texts may be compared with numbers
UNSAFE = {"hive.strict.checks.type.safety": "false"}
FORMS = hive_forms.forms()
BY_ITSELF = [form for form in FORMS if "(select" in form.condition]
# forms that Hive evaluates as a column of the plain table
AS_COLUMNS = [form for form in FORMS if form not in BY_ITSELF and form.files is not None]


@pytest.fixture(scope="module")
def tables(hive_world: World) -> World:
    """The tables `forms` and `nested`, one commit each, with their plain twins."""
    rows = hive_forms.rows()
    for name, columns in (("forms", [c for c in rows.column_names if c != "s"]), ("nested", NESTED.names)):
        options = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
        }
        table = rows.select(columns)
        path = hive_world.folder(SCHEMA) / name
        LocalTable.create(str(path), table.schema, options).write("insert", table)
        hive_world.register(SCHEMA, name)
        hive_world.declare_plain(SCHEMA, name)
    return hive_world


@pytest.fixture(scope="module")
def by_hive(tables: World) -> Mapping[str, list[int]]:
    """The ids of rows for which Hive itself finds a form true, reading plain files without any filter."""
    keys: dict[str, list[int]] = {}
    for table in ("forms", "nested"):
        forms = [form for form in AS_COLUMNS if form.table == table]
        columns = ", ".join(f"({form.condition}) AS form_{number}" for number, form in enumerate(forms))
        rows = tables.plain(f"SELECT id, {columns} FROM {table}", SCHEMA, UNSAFE)
        assert len(rows) == FILES * ROWS
        for number, form in enumerate(forms, 1):
            keys[form.condition] = sorted(row[0] for row in rows if row[number])
    for form in BY_ITSELF:
        rows = tables.plain(f"SELECT id FROM {form.table} WHERE {form.condition}", SCHEMA, UNSAFE)
        keys[form.condition] = sorted(row[0] for row in rows)
    return keys


def conditions(expression: str | None) -> tuple[str, ...]:
    """An expression's conditions: their order is Hive's, which looks at statistics."""
    return tuple(sorted((expression or "").split(" AND ")))


def asked(tables: World, sql: str, table: str, settings: Mapping[str, str]) -> tuple[list[Any], list[Any]]:
    """The rows of a query, and the records of the scans that the service planned for it."""
    known = {record["query"] for record in tables.planned(f"{SCHEMA}.{table}")}
    rows = tables.query(sql, SCHEMA, settings)
    return rows, [record for record in tables.planned(f"{SCHEMA}.{table}") if record["query"] not in known]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.condition)
def test_a_form_arrives_and_prunes(tables: World, by_hive: Mapping[str, list[int]], form: Form) -> None:
    sql = f"SELECT id FROM {form.table} WHERE {form.condition}"
    rows, records = asked(tables, sql, form.table, UNSAFE)
    assert sorted(key for (key,) in rows) == by_hive.get(form.condition, [])
    if form.files is None:
        assert records == []
        return
    [record] = records
    assert record["files_out"] == form.files
    assert conditions(form.expression) in (conditions(record["expression"]), conditions("*"))
    assert (record["received"] is None) == (form.expression is None)
    assert (record["files_in"], record["splits"]) == (FILES, form.files)


# every fifth form, and with it most kinds of columns
TOGETHER = [form for form in AS_COLUMNS if form.table == "forms"][::5]


@pytest.mark.parametrize("first", range(0, len(TOGETHER), 10))
def test_forms_on_tez_each_with_its_own_scan(tables: World, by_hive: Mapping[str, list[int]], first: int) -> None:
    forms = TOGETHER[first : first + 10]
    rows, records = asked(
        tables, each_alone([form.condition for form in forms], "forms"), "forms", {**UNSAFE, **ON_TEZ, **OWN_SCANS}
    )
    assert by_form(rows, forms) == {form.condition: by_hive[form.condition] for form in forms}
    assert len({record["query"] for record in records}) == 1
    files = {conditions(record["expression"]): record["files_out"] for record in records}
    assert files == {conditions(form.expression): form.files for form in forms}


def test_scans_that_hive_makes_one_of(tables: World) -> None:
    """Hive reads a table once for several parts of a query, where it can, and sends the filters' disjunction."""
    conditions = ("id = 5", "id BETWEEN 100 AND 110", "part = 'p9'")
    sql = f"SELECT {', '.join(f'(SELECT count(*) FROM forms WHERE {condition})' for condition in conditions)}"
    rows, records = asked(tables, sql, "forms", ON_TEZ)
    assert rows == [(1, 11, ROWS)]
    [record] = records
    assert record["expression"] == "part = 'p9' OR (id >= 100 AND id <= 110) OR id = 5"
    assert record["files_out"] == 3


def by_form(rows: list[Any], forms: list[Form]) -> dict[str, list[int]]:
    keys: dict[str, list[int]] = defaultdict(list)
    for number, key in rows:
        keys[forms[number].condition].append(key)
    return {form.condition: sorted(keys[form.condition]) for form in forms}
