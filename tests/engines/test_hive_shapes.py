"""Tables of unusual shapes through the storage handler: wide, empty, evolved, nested, and with unusual partitions."""

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.engines.answers import DuckDb, rows_agree
from tests.engines.hive_engine import ON_TEZ, HiveError
from tests.engines.hive_world import World
from tests.engines.odd_tables import STATEMENTS, TABLES, WIDTH, build
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "shapes"
MODES = pytest.mark.parametrize("mode", [{}, ON_TEZ], ids=["in the server", "on Tez"])
ODD_VALUES = ("a b", "x=1", "50%", "p/q", "été", "ü:#?&", "__HIVE_DEFAULT_PARTITION__", "'quoted'", "%2F")


@pytest.fixture(scope="module")
def shapes(hive_world: World) -> DuckDb:
    """The tables, registered, and DuckDB's results from their files."""
    folder = hive_world.folder(SCHEMA)
    build(folder)
    for name in TABLES:
        hive_world.register(SCHEMA, name)
    return DuckDb.of_warehouse(folder)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_statements(hive_world: World, shapes: DuckDb, sql: str) -> None:
    assert rows_agree(hive_world.query(sql, SCHEMA), shapes.query(sql)) == ""


@MODES
def test_all_of_500_columns(hive_world: World, shapes: DuckDb, mode: dict[str, str]) -> None:
    names = ", ".join(f"c{number}" for number in range(WIDTH))
    answer = hive_world.query(f"SELECT {names} FROM wide", SCHEMA, mode)
    assert rows_agree(answer, shapes.query(f"SELECT {names} FROM wide")) == ""


@MODES
def test_a_table_without_rows(hive_world: World, shapes: DuckDb, mode: dict[str, str]) -> None:
    assert hive_world.query("SELECT * FROM empty", SCHEMA, mode) == []
    assert hive_world.query("SELECT count(*), max(id) FROM empty WHERE small > 3", SCHEMA, mode) == [(0, None)]


def test_a_limit_gives_so_many_of_the_rows(hive_world: World, shapes: DuckDb) -> None:
    allowed = set(shapes.query("SELECT id, name FROM plain WHERE small > 5"))
    for limit in (0, 1, 37):
        rows = hive_world.query(f"SELECT id, name FROM plain WHERE small > 5 LIMIT {limit}", SCHEMA)
        assert len(rows) == limit
        assert set(rows) <= allowed
    ordered = "SELECT id FROM plain ORDER BY id DESC LIMIT 10"
    assert hive_world.query(ordered, SCHEMA) == shapes.query(ordered)


def test_only_the_partition_asked_for_is_read(hive_world: World, shapes: DuckDb) -> None:
    hive_world.query("SELECT count(small) FROM plain WHERE region = 'south'", SCHEMA)
    record = hive_world.planned(f"{SCHEMA}.plain")[-1]
    assert (record["files_in"], record["files_out"]) == (40, 8)


def nested_rows() -> list[dict[str, Any]]:
    """Lists, maps and structs within each other, empty ones and nulls at every depth."""
    return [
        {
            "id": number,
            "part": f"p{number % 3}",
            "tags": [f"t{number}", None, "z"][: number % 4] if number % 5 else None,
            "numbers": [("k", number), ("m", None)] if number % 2 else None,
            "body": {"a": number, "b": f"b{number}", "deep": {"x": number / 2} if number % 3 else None}
            if number % 7
            else None,
            "items": [{"n": number, "s": None}, {"n": None, "s": "s"}] if number % 4 else [],
        }
        for number in range(60)
    ]


def nested_schema() -> pa.Schema:
    deep = pa.struct([("a", pa.int32()), ("b", pa.string()), ("deep", pa.struct([("x", pa.float64())]))])
    return pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("part", pa.string()),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("numbers", pa.map_(pa.string(), pa.int64())),
            pa.field("body", deep),
            pa.field("items", pa.list_(pa.struct([("n", pa.int64()), ("s", pa.string())]))),
        ]
    )


def plain(text: object) -> object:
    """What Hive's client gives as a text of JSON."""
    return json.loads(text) if isinstance(text, str) else text


@MODES
def test_nested_columns(hive_world: World, mode: dict[str, str]) -> None:
    rows = nested_rows()
    folder = hive_world.folder(SCHEMA)
    if not (folder / "nested").exists():
        write(folder, "nested", pa.Table.from_pylist(rows, nested_schema()), Layout("id", "id", 2, "part"))
        hive_world.register(SCHEMA, "nested")
    answer = hive_world.query("SELECT id, tags, numbers, body, items FROM nested", SCHEMA, mode)
    expected = {
        row["id"]: (row["tags"], dict(row["numbers"]) if row["numbers"] else None, row["body"], row["items"])
        for row in rows
    }
    assert {key: tuple(map(plain, values)) for key, *values in answer} == expected
    counted = "SELECT count(*), sum(body.a) FROM nested WHERE body.deep.x > 5 AND part <> 'p0'"
    numbers = [body["a"] for row in rows if (body := row["body"]) and body["a"] > 10 and body["a"] % 3]
    assert hive_world.query(counted, SCHEMA, mode) == [(len(numbers), sum(numbers))]
    exploded = "SELECT id, tag FROM nested LATERAL VIEW explode(tags) t AS tag WHERE id < 20"
    assert sorted(hive_world.query(exploded, SCHEMA, mode), key=str) == sorted(
        ((row["id"], tag) for row in rows if row["id"] < 20 for tag in row["tags"] or ()),
        key=str,
    )


@pytest.mark.parametrize("hive_style", ["true", "false"])
def test_odd_values_of_partitions(hive_world: World, hive_style: str) -> None:
    name = f"odd_{hive_style}"
    values = [*ODD_VALUES, None]
    rows = pa.table({"id": list(range(40)), "part": pa.array([values[number % len(values)] for number in range(40)])})
    options = {
        "hoodie.datasource.write.hive_style_partitioning": hive_style,
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    write(hive_world.folder(SCHEMA), name, rows, Layout("id", "id", 1, "part"), **options)
    hive_world.register(SCHEMA, name)
    answer = dict(hive_world.query(f"SELECT id, part FROM {name}", SCHEMA))
    assert answer == dict(zip(*rows.to_pydict().values(), strict=True))
    for value in values:
        condition = "part IS NULL" if value is None else "part = '{}'".format(value.replace("'", "\\'"))
        keys = hive_world.query(f"SELECT id FROM {name} WHERE {condition}", SCHEMA)
        assert sorted(key for (key,) in keys) == [
            number for number in range(40) if values[number % len(values)] == value
        ]
    assert hive_world.query(f"SELECT count(*) FROM {name}", SCHEMA, ON_TEZ) == [(40,)]


def test_an_entry_that_is_behind_its_table_is_refused_not_misread(hive_world: World) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int32()), "seen": pa.array(range(10), pa.int32())})
    table = write(hive_world.folder(SCHEMA), "behind", rows, Layout("id", "id", 1))
    hive_world.register(SCHEMA, "behind")
    wider = pa.table({"id": pa.array([3], pa.int32()), "seen": pa.array([2**40], pa.int64())})
    table.write("upsert", wider, {"hoodie.datasource.write.reconcile.schema": "true"})
    assert hive_world.query("SELECT count(id) FROM behind", SCHEMA) == [(10,)]
    with pytest.raises(HiveError, match="hudi-catalog sync"):
        hive_world.query("SELECT id FROM behind WHERE seen > 5", SCHEMA)
    hive_world.register(SCHEMA, "behind")
    assert sorted(hive_world.query("SELECT id, seen FROM behind WHERE seen > 8", SCHEMA)) == [(3, 2**40), (9, 9)]


def test_time_travel_is_a_property_of_a_table(hive_world: World) -> None:
    rows = pa.table({"id": list(range(10)), "version": [0] * 10})
    table = write(hive_world.folder(SCHEMA), "old", rows, Layout("id", "id", 1))
    first = hive_world.register(SCHEMA, "old").instant
    table.write("upsert", pa.table({"id": [3, 10], "version": [1, 1]}))
    path = hive_world.folder(SCHEMA) / "old"
    columns = "id bigint, version bigint"
    hive_world.declare(SCHEMA, "old_then", columns, folder=path, properties={"hoodie.catalog.hive.as.of": first})
    for mode in ({}, ON_TEZ):
        assert hive_world.query("SELECT count(*), sum(version) FROM old_then", SCHEMA, mode) == [(10, 0)]
        assert hive_world.query("SELECT count(*), sum(version) FROM old", SCHEMA, mode) == [(11, 2)]
        joined = "SELECT count(*), sum(n.version - o.version) FROM old n JOIN old_then o ON n.id = o.id"
        assert hive_world.query(joined, SCHEMA, mode) == [(10, 1)]
