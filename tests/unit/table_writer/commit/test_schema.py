"""Writes to a table of Apache Hudi 0.15.0 whose columns were renamed, dropped and added again under old names."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from table_format.errors import CorruptFileError, SchemaError
from table_format.keys.java_hash import bucket_id_one
from table_format.schema.internal_schema import parse_internal_schema, parse_schema_history
from table_format.table.client import TableClient
from table_format.table.schema_history import KEY, internal_schemas
from table_writer.commit.schema import evolve_schema, newest_of_history, schema_history_with
from tests.support.golden_renames import lay_out
from tests.support.local_writes import LocalTable

BUCKETS = 4
COLUMNS = ["id", "old", "title", "price", "s", "l", "m", "ts", "name"]
OPTIONS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
Rows = dict[int, dict[str, Any]]


@pytest.fixture
def renamed(tmp_path: Path) -> tuple[LocalTable, Rows]:
    """The table, and its rows as Apache reads them; file groups are named after buckets, so that we can write it."""
    base, rows = lay_out("v6_0150", str(tmp_path))
    client = TableClient.open(base)
    ids = {}
    for path in Path(base).glob("*.parquet"):
        (key,) = (
            Table.open(base).scan(f"_hoodie_file_name = '{path.name}'").to_arrow()["_hoodie_record_key"].to_pylist()
        )
        old = path.name.split("_")[0]
        ids[old] = f"{bucket_id_one([key], BUCKETS):08d}{old[8:]}"
        path.rename(path.with_name(path.name.replace(old, ids[old])))
    for commit in Path(base, ".hoodie").glob("*.commit"):
        text = commit.read_text()
        for old, new in ids.items():
            text = text.replace(old, new)
        commit.write_text(text)
    return LocalTable(client, OPTIONS), rows


def user_rows(local: LocalTable) -> Rows:
    rows = Table.open(local.client.storage.uri).scan().to_arrow().to_pylist()
    return {row["id"]: {name: value for name, value in row.items() if not name.startswith("_hoodie")} for row in rows}


def as_apache(row: dict[str, Any], more: tuple[str, ...] = ()) -> dict[str, Any]:
    known = {name: row[name] for name in COLUMNS}
    return {**known, "m": list(known["m"].items()), **dict.fromkeys(more)}


def batch(local: LocalTable, keys: list[int], **more: Any) -> pa.Table:
    """Rows of keys that go to the files of other keys."""
    schema = local.client.table_schema()
    for name, value in more.items():
        schema = schema.append(pa.field(name, pa.scalar(value).type))
    return pa.Table.from_pylist([{"id": key, "title": f"t{key}", "ts": 9, **more} for key in keys], schema)


def test_old_files_are_merged_by_ids(renamed: tuple[LocalTable, Rows]) -> None:
    local, rows = renamed
    local.write("upsert", batch(local, [5, 6, 7, 8]))
    stored = user_rows(local)
    assert {key: stored[key] for key in rows} == {key: as_apache(row) for key, row in rows.items()}
    assert [stored[key]["title"] for key in (5, 6, 7, 8)] == ["t5", "t6", "t7", "t8"]
    assert any(row["title"] for row in rows.values())


@pytest.mark.parametrize("surgery", ["always", "never"])
def test_later_writes_go_on_from_ours(renamed: tuple[LocalTable, Rows], surgery: str) -> None:
    local, rows = renamed
    options = {"hoodie.catalog.write.surgery": surgery}
    local.write("upsert", batch(local, [5, 6]), options)
    local.write("upsert", batch(local, [9], fresh="f"), options)
    local.write("delete", batch(local, [2, 5]).select(["id"]), options)
    stored = user_rows(local)
    assert stored.pop(9)["fresh"] == "f"
    assert stored.pop(6)["title"] == "t6"
    assert stored == {key: as_apache(row, ("fresh",)) for key, row in rows.items() if key != 2}


def test_commits_carry_ids_and_history(renamed: tuple[LocalTable, Rows]) -> None:
    local, _ = renamed
    timeline = local.client.timeline()
    before = internal_schemas(timeline)
    newest = timeline.extra_metadata(timeline.writes[-1])[KEY]
    first = local.write("upsert", batch(local, [5])).instant
    second = local.write("upsert", batch(local, [6], fresh=1)).instant
    timeline = local.client.timeline()
    texts = {write.time: timeline.extra_metadata(write).get(KEY, "") for write in timeline.writes}
    assert texts[first] == newest
    evolved = parse_internal_schema(texts[second], "p")
    assert before is not None
    assert evolved.version == int(second)
    assert evolved.columns[:-1] == before.current.columns
    assert evolved.columns[-1].name == "fresh"
    assert evolved.columns[-1].id > max(id_ for version in before.versions for id_ in version.by_id())
    assert internal_schemas(timeline) is not None
    for instant, versions in ((first, len(before.versions)), (second, len(before.versions) + 1)):
        folder = Path(local.client.storage.uri, ".hoodie/.schema")
        text = (folder / f"{instant}.schemacommit").read_text()
        assert len(parse_schema_history(text, "p")) == versions
        assert all((folder / f"{instant}.schemacommit.{state}").exists() for state in ("requested", "inflight"))


def test_a_table_without_ids_stays_so(tmp_path: Path) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.bucket.index.num.buckets": "1",
    }
    rows = pa.table({"id": [1]})
    local = LocalTable.create(str(tmp_path), rows.schema, options)
    local.write("upsert", rows)
    timeline = local.client.timeline()
    assert KEY not in timeline.extra_metadata(timeline.writes[-1])
    assert not list((tmp_path / ".hoodie/.schema").iterdir())


def test_a_key_column_that_was_renamed_is_refused(renamed: tuple[LocalTable, Rows]) -> None:
    """The properties go on naming the old column: rows that bring it would make another one of that name."""
    local, _ = renamed
    path = Path(local.client.storage.uri, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace("precombine.field=ts", "precombine.field=at"))
    with pytest.raises(SchemaError, match="'at' is no longer a column of the table"):
        local.write("upsert", batch(local, [5], at=1))


def schema_text(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"max_column_id": 7, "version_id": 3, "type": "record", "fields": list(fields), **more})


def test_what_new_columns_get() -> None:
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    old = schema_text(
        {"id": 0, "name": "d", "optional": True, "type": "decimal(9, 2)", "doc": "x"},
        {"id": 1, "name": "f", "optional": True, "type": "fixed[4]"},
        {"id": 2, "name": "n", "optional": True, "type": "int"},
        {
            "id": 3,
            "name": "s",
            "optional": True,
            "type": {"type": "record", "fields": [{"id": 4, "name": "a", "optional": True, "type": "int"}]},
        },
        {"id": 5, "name": "gone", "optional": True, "type": "int"},
    )
    same = pa.schema([("d", pa.decimal128(9, 2)), ("f", pa.binary()), ("n", pa.int32())])
    same = same.append(pa.field("s", pa.struct([("a", pa.int32())]))).append(pa.field("gone", pa.int32()))
    assert evolve_schema(old, "p", same, 9) == old
    columns: Any = {
        "d": pa.decimal128(11, 2),
        "f": pa.binary(),
        "n": pa.int64(),
        "s": inner,
        "l": pa.list_(inner),
        "m": pa.map_(pa.string(), pa.list_(pa.timestamp("us", "UTC"))),
    }
    evolved = evolve_schema(old, "p", pa.schema(list(columns.items())), 9)
    schema = parse_internal_schema(evolved, "p")
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {"d": "decimal(11, 2)", "f": "fixed[4]", "n": "long", "s": "", "l": "", "m": ""}
    by_name = {column.name: column for column in schema.columns}
    assert [by_name[name].id for name in ("d", "f", "n", "s")] == [0, 1, 2, 3]
    assert by_name["s"].members[0].id == 4
    new = [id_ for id_ in schema.by_id() if id_ > 4]
    assert min(new) == 8
    assert json.loads(evolved)["max_column_id"] == max(new)
    assert schema.version == 9
    assert '"doc":"x"' in evolved
    assert evolve_schema(evolved, "p", pa.schema(list(columns.items())), 10) == evolved
    with pytest.raises(SchemaError, match="time64"):
        evolve_schema(old, "p", pa.schema([("t", pa.time64("us"))]), 9)


def test_histories() -> None:
    old, new = schema_text(), schema_text(version_id=5)
    history = schema_history_with(json.dumps({"schemas": [json.loads(old)]}), "p", new)
    assert [schema.version for schema in parse_schema_history(history, "p")] == [5, 3]
    assert schema_history_with(history, "p", old) == history
    assert json.loads(newest_of_history(history, "p"))["version_id"] == 5
    for broken in ("{", '{"schemas": []}'):
        with pytest.raises(CorruptFileError):
            newest_of_history(broken, "p")
