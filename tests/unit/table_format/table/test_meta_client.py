import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.config.properties import ensure_partition_metadata, parse_properties, partition_depth
from table_format.config.table_config import create_table_config, update_table_config
from table_format.errors import CorruptFileError, HudiError, SchemaError, TableNotFoundError
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support.golden_tables import NAMES, facts, lay_out

BASIC = {"hoodie.table.name": "t", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}


def _avro(*names):
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in names]
    return json.dumps({"type": "record", "name": "t_record", "fields": fields})


def _commit(folder, time, schema):
    extra = {} if schema is None else {"schema": schema}
    (folder / ".hoodie" / f"{time}.commit").write_text(json.dumps({"extraMetadata": extra}))


@pytest.fixture
def client(tmp_path):
    create_table_config(Storage(str(tmp_path)), BASIC)
    return TableClient.open(str(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_apaches_tables(name, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    # Spark shows partition columns last, wherever the schema has them
    assert sorted(client.table_schema().names) == sorted(facts(name)["columns"])


def test_columns_added_later_are_not_in_older_states(tmp_path):
    client = TableClient.open(lay_out("v6_0150__bkt_evolve", tmp_path))
    timeline = client.timeline()
    oldest = client.table_schema(timeline, as_of=timeline.writes[0].time)
    newest = client.table_schema(timeline)
    assert set(oldest.names) < set(newest.names)


def test_the_newest_schema_counts(client, tmp_path):
    _commit(tmp_path, "1", _avro("a"))
    _commit(tmp_path, "2", _avro("a", "b"))
    _commit(tmp_path, "3", None)
    assert client.table_schema().names == ["a", "b"]
    assert client.table_schema(as_of="1").names == ["a"]


def test_meta_columns_are_left_out(client, tmp_path):
    _commit(tmp_path, "1", _avro("_hoodie_commit_time", "a"))
    assert client.table_schema().names == ["a"]


def test_the_schema_given_at_creation(client):
    update_table_config(client.storage, {"hoodie.table.create.schema": _avro("é")})
    client.reload()
    assert client.table_schema() == pa.schema([("é", pa.int64())])


def test_the_schema_of_a_data_file(client, tmp_path):
    _commit(tmp_path, "1", None)
    (tmp_path / ".hoodie_partition_metadata").write_bytes(b"")
    path = tmp_path / "a-0_0-0-0_1.parquet"
    pq.write_table(pa.table({"_hoodie_record_key": ["k"], "x": [1]}), path)
    assert client.table_schema() == pa.schema([("x", pa.int64())])
    for damaged in (
        b"",
        b"PAR1",
        path.read_bytes()[:-6] + b"\xff" * 6,
        path.read_bytes()[:-30] + path.read_bytes()[-8:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=r"^a-0_0-0-0_1\.parquet"):
            client.table_schema()


def test_no_schema_anywhere(client):
    with pytest.raises(SchemaError):
        client.table_schema()


@pytest.mark.parametrize("schema", ["{", "7", '{"type": "record"}', '{"type": "nonsense"}', "[]", '"int"'])
def test_a_broken_schema_is_a_clear_error(client, tmp_path, schema):
    _commit(tmp_path, "1", schema)
    with pytest.raises(HudiError):
        client.table_schema()


def test_no_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        TableClient.open(str(tmp_path))
    with pytest.raises(TableNotFoundError):
        TableClient.open(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(("partition", "depth"), [("", 0), ("p=a", 1), ("2023/04/03/12", 4)])
def test_partition_metadata(tmp_path, partition, depth):
    storage = Storage(str(tmp_path))
    assert ensure_partition_metadata(storage, partition, "20261121075439109")
    path = f"{partition}/.hoodie_partition_metadata".lstrip("/")
    data = storage.read(path)
    assert data.startswith(b"#partition metadata\n")
    expected = {"commitTime": "20261121075439109", "partitionDepth": str(depth)}
    assert parse_properties(data, path) == expected
    assert partition_depth(partition) == depth
    assert not ensure_partition_metadata(storage, partition, "20271121075439109"), "it is written once"
    assert storage.read(path) == data


def test_a_table_that_is_gone_since_it_was_opened_is_not_an_empty_one(client, tmp_path):
    _commit(tmp_path, "1", _avro("a"))
    (tmp_path / ".hoodie").rename(tmp_path / "aside")
    with pytest.raises(TableNotFoundError):
        client.timeline()


def test_a_table_that_was_upgraded_since_it_was_opened_is_not_an_empty_one(client, tmp_path):
    assert not client.timeline().instants
    _commit(tmp_path, "1", _avro("a"))
    (tmp_path / ".hoodie/timeline").mkdir()
    (tmp_path / ".hoodie/1.commit").rename(tmp_path / ".hoodie/timeline/1.commit")
    newer = {"hoodie.table.version": "8", "hoodie.timeline.layout.version": "2"}
    update_table_config(Storage(str(tmp_path)), newer)
    assert [write.time for write in client.timeline().writes] == ["1"]
    assert client.config.layout_version == 2
