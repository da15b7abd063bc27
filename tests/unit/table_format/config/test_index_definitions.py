import json

import pytest

from table_format.config.index_definitions import IndexDefinition, define_index, forget_indexes, load_index_definitions
from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support.golden_tables import lay_out

PATH = ".hoodie/.index_defs/index.json"


def _load(folder, content, path=PATH, **properties):
    storage = Storage(str(folder))
    if content is not None:
        storage.overwrite(path, content if isinstance(content, bytes) else json.dumps(content).encode())
    return load_index_definitions(storage, TableConfig(properties))


@pytest.mark.parametrize(("name", "version"), [("v8_1020__mor_rli", 1), ("v9_1200__mor_rli", 2)])
def test_definitions_of_apache(name, version, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    definitions = load_index_definitions(client.storage, client.config)
    stats = definitions["column_stats"]
    assert (stats.name, stats.kind, stats.function, stats.version) == ("column_stats",) * 3 + (version,)
    assert stats.source_fields
    if version == 2:
        assert definitions["record_index"].options == {"isPartitioned": "false"}
        assert definitions["record_index"].version == 1


def test_tables_without_definitions(tmp_path):
    assert _load(tmp_path, None) == {}
    assert _load(tmp_path, b" ") == {}
    assert _load(tmp_path, {}) == {}
    assert _load(tmp_path, {"indexDefinitions": None}) == {}
    client = TableClient.open(lay_out("v6_0150__mor_bkt", tmp_path))
    assert load_index_definitions(client.storage, client.config) == {}


def test_an_index_of_an_expression(tmp_path):
    values = {
        "indexName": "expr_index_year",
        "indexType": "EXPR_INDEX",
        "indexFunction": "year",
        "sourceFields": ["ts"],
        "indexOptions": {"expr": "year"},
        "version": "V2",
        "later": 1,
    }
    definitions = _load(tmp_path, {"indexDefinitions": {"expr_index_year": values, "bare": {}}})
    assert definitions["expr_index_year"] == IndexDefinition(
        "expr_index_year", "expr_index", "year", ("ts",), {"expr": "year"}, 2
    )
    assert definitions["bare"] == IndexDefinition("bare", "")


@pytest.mark.parametrize("place", ["defs/index.json", "{base}/defs/index.json", "file://{base}/defs/index.json"])
def test_another_place(place, tmp_path):
    content = {"indexDefinitions": {"i": {"indexType": "record_index"}}}
    properties = {"hoodie.table.index.defs.path": place.format(base=tmp_path)}
    assert set(_load(tmp_path, content, "defs/index.json", **properties)) == {"i"}


def test_a_table_that_was_copied_elsewhere(tmp_path):
    content = {"indexDefinitions": {"i": {}}}
    properties = {"hoodie.table.index.defs.path": "s3://bucket/table/.hoodie/.index_defs/index.json"}
    assert set(_load(tmp_path, content, **properties)) == {"i"}


@pytest.mark.parametrize("place", [None, "defs/index.json", "s3://bucket/table/.hoodie/.index_defs/index.json"])
def test_definitions_are_edited_where_they_are_read(place, tmp_path):
    storage = Storage(str(tmp_path))
    config = TableConfig({} if place is None else {"hoodie.table.index.defs.path": place})
    path = place if place == "defs/index.json" else PATH
    forget_indexes(storage, config, ["a"])
    assert not storage.exists(path)
    theirs = {"indexType": "EXPR_INDEX", "later": 1}
    storage.overwrite(path, json.dumps({"indexDefinitions": {"theirs": theirs}, "more": 2}).encode())
    year = IndexDefinition("mine", "expr_index", "year", ("ts",), {"expr": "year"}, 2)
    assert define_index(storage, config, year) == {"hoodie.table.index.defs.path": path}
    assert load_index_definitions(storage, config)["mine"] == year
    content = json.loads(storage.read(path))
    assert (content["indexDefinitions"]["theirs"], content["more"]) == (theirs, 2)
    forget_indexes(storage, config, ["mine", "never there"])
    assert json.loads(storage.read(path)) == {"indexDefinitions": {"theirs": theirs}, "more": 2}


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff", b'{"indexDefinitions": 7}', b'{"indexDefinitions": {"i": {"version": "new"}}}']
)
def test_damaged_definitions(content, tmp_path):
    with pytest.raises(CorruptFileError, match=r"index\.json"):
        _load(tmp_path, content)


def test_damaged_definitions_are_not_written_over(tmp_path):
    storage, config = Storage(str(tmp_path)), TableConfig({})
    storage.overwrite(PATH, b"[]")
    with pytest.raises(CorruptFileError, match=r"index\.json"):
        forget_indexes(storage, config, ["a"])
    with pytest.raises(CorruptFileError, match=r"index\.json"):
        define_index(storage, config, IndexDefinition("a", "record_index"))
    assert storage.read(PATH) == b"[]"
