import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.schema.evolution import conform
from table_format.schema.internal_schema import SchemaColumn, parse_internal_schema, parse_schema_history
from table_format.slices.file_slices import latest_file_slices, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.table.schema_history import SchemaHistory, internal_schemas, read_columns
from table_format.timeline.timeline import Timeline
from tests.support import golden_tables
from tests.support.golden_renames import RELEASES, lay_out

TOP = ["id", "old", "title", "price", "s", "l", "m", "ts", "name"]


@pytest.fixture(params=RELEASES)
def table(request, tmp_path):
    base, rows = lay_out(request.param, str(tmp_path))
    return TableClient.open(base), rows


def _files(client):
    """The latest file slices, by the id of their file's first row."""
    slices = latest_file_slices(list_data_files(client.storage), client.timeline()).to_pylist()
    return {
        pq.read_table(client.storage.full_path(row["path"]), columns=["id"], partitioning=None)["id"][0].as_py(): row
        for row in slices
    }


def _content(client, row):
    return pq.ParquetFile(client.storage.full_path(row["path"])).read()


def test_rows_are_those_of_apache(table):
    client, rows = table
    timeline = client.timeline()
    history = internal_schemas(timeline)
    schema = client.table_schema(timeline)
    assert schema.names == TOP
    files = _files(client)
    assert sorted(files) == [1, 2, 3, 4]
    for number, row in files.items():
        renamed = history.renamed(row["instant"], _content(client, row))
        conformed = conform(renamed, schema).to_pylist()
        expected = {name: value for name, value in rows[number].items() if name in TOP}
        expected["m"] = list(expected["m"].items())
        assert conformed == [expected]
        assert renamed["_hoodie_commit_time"].to_pylist() == [rows[number]["_hoodie_commit_time"]]


def test_base_files_are_read_in_one_opening_also_without_a_column_of_the_query(table, monkeypatch):
    client, rows = table
    history = internal_schemas(client.timeline())
    opened, open_input = [], Storage.open_input
    monkeypatch.setattr(Storage, "open_input", lambda self, path: opened.append(path) or open_input(self, path))
    path = _files(client)[1]["path"]
    id_and_name = pa.schema([("id", pa.int64()), ("name", pa.string())])
    for schema, expected in (
        (id_and_name, [{"id": 1, "name": rows[1]["name"]}]),
        (id_and_name.remove(0), [{"name": None}]),
    ):
        opened.clear()
        assert read_columns(client.storage, path, schema, history).to_pylist() == expected
        assert opened == [path]


def test_by_name_rows_would_differ(table):
    client, rows = table
    first = _content(client, _files(client)[1])
    assert first["name"].to_pylist() == ["one"], "a dropped name that another column has now"
    assert rows[1]["name"] is None


def test_physical_names(table):
    client, _ = table
    history = internal_schemas(client.timeline())
    names = {number: history.physical_names(row["instant"], TOP) for number, row in _files(client).items()}
    same = {name: name for name in TOP}
    assert names[1] == same | {"title": "name", "old": None, "name": None}
    assert names[2] == same | {"old": None, "name": None}
    assert names[3] == same | {"name": None}
    assert names[4] == same
    assert history.physical_names("1", ["added_by_nobody"]) == {"added_by_nobody": "added_by_nobody"}


def test_columns_whose_statistics_can_be_meant(table):
    client, _ = table
    history = internal_schemas(client.timeline())
    same = {number: history.same_names(row["instant"], TOP) for number, row in _files(client).items()}
    assert same[1] == {"id", "price", "ts"}
    assert same[2] == {"id", "price", "ts", "title", "s", "l", "m"}
    assert same[3] == set(TOP) - {"name"}
    assert same[4] == set(TOP)


def test_an_older_query_sees_older_columns(table):
    client, _ = table
    timeline = client.timeline()
    first, *_, last = sorted(row["instant"] for row in _files(client).values())
    early = internal_schemas(timeline, first)
    assert [column.name for column in early.current.columns][5:] == ["id", "name", "price", "old", "s", "l", "m", "ts"]
    assert early.current.version == 0
    assert early.physical_names(first, ["name", "old"]) == {"name": "name", "old": "old"}
    assert internal_schemas(timeline, last).current == internal_schemas(timeline).current


def test_instants_that_left_the_timeline_go_by_the_history(table):
    client, _ = table
    timeline = client.timeline()
    history = internal_schemas(timeline)
    instants = sorted(row["instant"] for row in _files(client).values())
    gone = Timeline(timeline.storage, (), timeline.folder, timeline.layout)
    archived = SchemaHistory(gone, history.current, history.versions)
    for instant in instants:
        assert archived.physical_names(instant, TOP) == history.physical_names(instant, TOP)
    unknown = SchemaHistory(gone, history.current, history.versions[-1:])
    with pytest.raises(UnsupportedTableError, match=instants[0]):
        unknown.physical_names(instants[0], TOP)


def test_schemas_of_writes_that_failed_do_not_count(table):
    client, _ = table
    timeline = client.timeline()
    history = internal_schemas(timeline)
    wrong = {"schemas": [{"version_id": 1, "type": "record", "fields": []}]}
    client.storage.overwrite(".hoodie/.schema/99990101000000000.schemacommit", json.dumps(wrong).encode())
    client.storage.overwrite(".hoodie/.schema/99990101000000000.schemacommit.inflight", b"")
    assert internal_schemas(timeline).versions == history.versions


def test_views_copy_no_data(table):
    client, _ = table
    row = _files(client)[1]
    content = _content(client, row)
    renamed = internal_schemas(client.timeline()).renamed(row["instant"], content)
    values = pc.struct_field(content["s"].chunk(0), "a").buffers()[1]
    assert pc.struct_field(renamed["s"].chunk(0), "aa").buffers()[1].address == values.address
    empty = internal_schemas(client.timeline()).renamed(row["instant"], content.slice(0, 0))
    assert empty.schema.names == renamed.schema.names


@pytest.mark.parametrize("name", [golden_tables.NAMES[0], *golden_tables.NEW_NAMES[::6]])
def test_most_tables_have_no_history_of_schemas(name, tmp_path):
    assert internal_schemas(TableClient.open(golden_tables.lay_out(name, tmp_path)).timeline()) is None


def test_shapes_of_types():
    inner = {"type": "record", "fields": [{"id": 5, "name": "a", "optional": True, "type": "int"}]}
    types = {
        "r": inner,
        "l": {"type": "array", "element-id": 6, "element": inner, "element_optional": True},
        "m": {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": inner, "value_optional": True},
        "d": "decimal(10, 2)",
    }
    fields = [{"id": i, "name": name, "optional": True, "type": kind} for i, (name, kind) in enumerate(types.items())]
    a = SchemaColumn(5, "a", (), "int")
    for key in ("version_id", "version-id"):
        text = json.dumps({"max_column_id": 9, key: 3, "type": "record", "fields": fields})
        schema = parse_internal_schema(text, "p")
        assert schema.version == 3
        assert schema.columns == (
            SchemaColumn(0, "r", (a,)),
            SchemaColumn(1, "l", (SchemaColumn(6, "element", (a,)),)),
            SchemaColumn(2, "m", (SchemaColumn(7, "key", (), "string"), SchemaColumn(8, "value", (a,)))),
            SchemaColumn(3, "d", (), "decimal(10, 2)"),
        )


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", '{"type": "union"}', '{"type": "record", "fields": [{}]}'),
        '{"type": "record", "fields": [], "version_id": 1e999}',
    ],
)
def test_damaged_schemas(text):
    with pytest.raises(CorruptFileError, match=r"^here"):
        parse_internal_schema(text, "here")
    with pytest.raises(CorruptFileError, match=r"^here"):
        parse_schema_history(f'{{"schemas": [{text or 7}]}}', "here")


def test_a_swap_of_names():
    def schema(version, *names):
        fields = [{"id": i, "name": name, "optional": True, "type": "int"} for i, name in names]
        return parse_internal_schema(json.dumps({"version_id": version, "type": "record", "fields": fields}), "p")

    old, new = schema(0, (1, "a"), (2, "b")), schema(5, (1, "b"), (2, "a"))
    history = SchemaHistory(Timeline(None, ()), new, (old, new))
    assert history.physical_names("3", ["a", "b"]) == {"a": "b", "b": "a"}
    assert history.same_names("3", ["a", "b"]) == set()
    assert history.renamed("3", pa.table({"a": [1], "b": [2]})).to_pydict() == {"b": [1], "a": [2]}
    assert history.renamed("7", pa.table({"a": [1], "b": [2]})).to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("int", "int", True),
        ("int", "long", True),
        ("float", "double", True),
        ("long", "decimal(20, 0)", True),
        ("int", "string", False),
        ("double", "string", False),
        ("date", "string", False),
        ("string", "date", False),
    ],
)
def test_types_that_changed_the_order_of_values(old, new, same):
    def schema(version, kind):
        nested = {"type": "record", "fields": [{"id": 3, "name": "x", "type": kind}]}
        fields = [{"id": 1, "name": "a", "type": kind}, {"id": 2, "name": "s", "type": nested}]
        return parse_internal_schema(json.dumps({"version_id": version, "type": "record", "fields": fields}), "p")

    history = SchemaHistory(Timeline(None, ()), schema(5, new), (schema(0, old), schema(5, new)))
    assert history.same_names("3", ["a", "s"]) == ({"a", "s"} if same else set())
    assert history.same_names("5", ["a", "s"]) == {"a", "s"}
