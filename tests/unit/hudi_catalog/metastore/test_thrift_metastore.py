"""The client of a Hive Metastore, against a server with faults."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_catalog.metastore import thrift_metastore
from hudi_catalog.metastore.entries import BASE_PATH
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.metastore import HUDI_FORMAT, SYMLINK_FORMAT, HiveColumn, HivePartition, HiveTable
from hudi_catalog.metastore.metastore_options import MetastoreOptions
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.thrift_connections import hms as idl
from hudi_catalog.metastore.thrift_metastore import ThriftMetastore
from table_format.errors import MetastoreError, OptionError
from tests.support.hive_server import HiveServer

TABLE = HiveTable(
    "s", "t", (HiveColumn("a", "bigint", "é"), HiveColumn("b", "string")), "file:///x y/%25", SYMLINK_FORMAT, {"k": "v"}
)


def known(partitions: list[HivePartition]) -> list[HivePartition]:
    """Partitions without the columns and the format that a metastore adds."""
    return [replace(one, columns=None, format=None) for one in partitions]


@pytest.fixture
def server() -> Iterator[HiveServer]:
    started = HiveServer()
    started.handler.databases.add("s")
    yield started
    started.close()


@pytest.fixture
def metastore(server: HiveServer) -> Iterator[ThriftMetastore]:
    opened = ThriftMetastore([("127.0.0.1", server.port)], MetastoreOptions(timeout=2.0))
    yield opened
    opened.close()


def test_a_table_comes_back_as_it_was_put(metastore: ThriftMetastore) -> None:
    assert metastore.table("s", "t") is None
    metastore.put_table(TABLE)
    table = metastore.table("S", "T")
    assert table is not None
    assert table.parameters == {"k": "v", "transient_lastDdlTime": "1"}
    assert (table.columns, table.location) == (TABLE.columns, "file:///x y/%25"), "as engines write it, not Hadoop"
    assert metastore.tables("s") == ["t"]
    assert metastore.drop_table("s", "t")
    assert not metastore.drop_table("s", "t")


def test_folders_that_go_with_a_database(server: HiveServer, metastore: ThriftMetastore) -> None:
    assert metastore.schema_folders("S") == ["file:/warehouse/s.db"]
    assert metastore.schema_folders("absent") == []
    server.handler.refuse["get_database"] = idl.MetaException("you may not")
    assert metastore.schema_folders("s") == []
    server.unknown.add("get_database")
    assert metastore.schema_folders("s") == []


@pytest.mark.parametrize("unknown", [set(), {"get_table"}, {"get_table_req"}])
def test_releases_with_one_way_to_get_a_table(
    server: HiveServer, metastore: ThriftMetastore, unknown: set[str]
) -> None:
    server.unknown = unknown
    for _ in range(2):
        assert metastore.table("s", "t") is None
    metastore.put_table(TABLE)
    assert metastore.table("s", "t") is not None


def test_schemas(metastore: ThriftMetastore) -> None:
    assert metastore.create_schema("New")
    assert not metastore.create_schema("new")
    assert metastore.schemas() == ["default", "new", "s"]


def test_somebody_else_was_faster(server: HiveServer, metastore: ThriftMetastore) -> None:
    server.handler.refuse["create_database"] = idl.AlreadyExistsException("new")
    assert not metastore.create_schema("new")
    # of two at once, the later one is told of a broken key
    server.handler.refuse["create_database"] = idl.MetaException("duplicate key value")
    with pytest.raises(MetastoreError, match="duplicate key value"):
        metastore.create_schema("new")
    create = server.handler.create_database

    def made_meanwhile(database: object) -> None:
        create(database)
        raise idl.MetaException("duplicate key value")

    server.handler.create_database = made_meanwhile  # type: ignore[method-assign]
    assert not metastore.create_schema("new")


@pytest.mark.parametrize("told", [True, False])
def test_a_name_that_somebody_takes_meanwhile(server: HiveServer, metastore: ThriftMetastore, told: bool) -> None:
    """Another sync of the table is no harm; an entry of another table stays. Some metastores tell of a broken key."""
    get, create = server.handler.get_table, server.handler.create_table_with_environment_context

    def taken_by(other: HiveTable) -> None:
        def first_none(dbname: str, tbl_name: str) -> object:
            server.handler.get_table = get  # type: ignore[method-assign]
            metastore_of_another = ThriftMetastore([("127.0.0.1", server.port)])
            metastore_of_another.put_table(other)
            if not told:
                server.handler.create_table_with_environment_context = broken_key  # type: ignore[method-assign]
            raise idl.NoSuchObjectException("t")

        server.handler.get_table = first_none  # type: ignore[method-assign]

    def broken_key(tbl: object, environment_context: object) -> None:
        server.handler.create_table_with_environment_context = create  # type: ignore[method-assign]
        raise idl.MetaException("duplicate key value")

    wanted = replace(TABLE, parameters={**TABLE.parameters, BASE_PATH: "file:/tables/t"})
    taken_by(replace(wanted, location="file:///older/list", columns=()))
    metastore.put_table(wanted)
    table = metastore.table("s", "t")
    assert table is not None
    assert (table.location, len(table.columns)) == (TABLE.location, 2)
    metastore.drop_table("s", "t")
    taken_by(replace(wanted, location="file:///other", parameters={BASE_PATH: "file:/tables/us/t"}))
    with pytest.raises(MetastoreError, match=r"s\.t has just been made for file:/tables/us/t; choose another name"):
        metastore.put_table(wanted)
    table = metastore.table("s", "t")
    assert table is not None
    assert table.location == "file:///other"


def test_an_entry_that_is_dropped_as_it_is_met_is_not_taken_for_made(
    server: HiveServer, metastore: ThriftMetastore
) -> None:
    server.handler.refuse["create_table"] = idl.AlreadyExistsException("t is there")
    with pytest.raises(MetastoreError, match=r"create_table s\.t: t is there"):
        metastore.put_table(TABLE)
    metastore.put_table(TABLE)
    assert metastore.table("s", "t") is not None


def test_definitions_that_a_metastore_does_not_alter_are_made_anew(
    server: HiveServer, metastore: ThriftMetastore
) -> None:
    metastore.put_table(TABLE)
    changed = HiveTable("s", "t", (HiveColumn("a", "string"),), "file:///z", SYMLINK_FORMAT, {})
    metastore.put_table(changed)
    table = metastore.table("s", "t")
    assert table is not None
    assert table.columns == changed.columns
    assert server.handler.calls[-3:] == ["create_table", "get_table_req", "get_table"]


def test_what_a_metastore_refuses_is_told(server: HiveServer, metastore: ThriftMetastore) -> None:
    server.handler.refuse["create_table"] = idl.MetaException("disk full")
    with pytest.raises(MetastoreError, match="disk full"):
        metastore.put_table(TABLE)
    metastore.put_table(TABLE)
    server.handler.refuse["alter_table"] = idl.InvalidOperationException("not allowed")
    with pytest.raises(MetastoreError, match="not allowed"):
        metastore.put_table(TABLE)
    with pytest.raises(MetastoreError, match="no database nowhere"):
        metastore.put_table(HiveTable("nowhere", "t", (), "file:///x", SYMLINK_FORMAT, {}))
    assert metastore.table("s", "t") is not None, "the connection goes on"


def test_a_restart_is_not_noticed(server: HiveServer, metastore: ThriftMetastore) -> None:
    metastore.put_table(TABLE)
    for _ in range(3):
        server.cut_all()
        assert metastore.table("s", "t") is not None


def test_calls_whose_answer_is_lost_are_made_again(server: HiveServer, metastore: ThriftMetastore) -> None:
    server.lost = {"create_table_with_environment_context", "get_table_req", "get_all_databases"}
    metastore.put_table(TABLE)
    assert metastore.table("s", "t") is not None
    assert server.handler.calls.count("create_table") == 2
    server.lost = {"create_database"}
    assert not metastore.create_schema("new"), "the first call made it"
    assert "new" in metastore.schemas()
    server.lost = {"add_partitions", "alter_partitions_with_environment_context"}
    one, two = HivePartition(("1",), "file:///1"), HivePartition(("2",), "file:///2")
    by_p = replace(TABLE, name="parts", partition_columns=(HiveColumn("p", "string"),))
    metastore.put_table(by_p)
    metastore.put_partitions(by_p, [one, two])
    assert known(metastore.partitions(by_p)) == [one, two]
    server.lost = {"drop_partitions_req"}
    metastore.drop_partitions(by_p, [("1",), ("2",)])
    assert metastore.partitions(by_p) == []
    server.lost = {"drop_table_with_environment_context"}
    assert not metastore.drop_table("s", "t"), "the first call did it"
    assert metastore.table("s", "t") is None


def test_a_server_that_answers_never(server: HiveServer) -> None:
    server.silent = True
    metastore = ThriftMetastore([("127.0.0.1", server.port)], MetastoreOptions(timeout=0.2))
    with pytest.raises(MetastoreError, match="get_all_databases: the connection broke"):
        metastore.schemas()


def test_the_next_address_is_taken(server: HiveServer) -> None:
    gone = HiveServer()
    gone.close()
    metastore = ThriftMetastore([("127.0.0.1", gone.port), ("127.0.0.1", server.port)])
    assert metastore.schemas() == ["default", "s"]
    with pytest.raises(MetastoreError, match=f"no Hive Metastore can be reached: 127.0.0.1:{gone.port}"):
        ThriftMetastore([("127.0.0.1", gone.port)]).schemas()


def test_partitions(server: HiveServer, metastore: ThriftMetastore) -> None:
    table = HiveTable("s", "t", TABLE.columns, "file:///t", HUDI_FORMAT, {}, (HiveColumn("p", "string"),))
    metastore.put_table(table)
    many = [HivePartition((f"p{n}",), f"file:///t/{n}") for n in range(1201)]
    metastore.put_partitions(table, many)
    assert server.handler.calls.count("add_partitions") == 7
    assert sorted(known(metastore.partitions(table)), key=lambda p: int(p.values[0][1:])) == many
    assert metastore.partition_values(table) == {one.values for one in many}
    moved = HivePartition(("p3",), "file:///elsewhere")
    metastore.put_partitions(table, [moved, HivePartition(("new",), "file:///t/new")])
    metastore.drop_partitions(table, [one.values for one in many[5:]] + [("never",)])
    left = {one.values[0]: one.location for one in metastore.partitions(table)}
    assert left == {
        **{f"p{n}": f"file:///t/{n}" for n in (0, 1, 2, 4)},
        "p3": "file:///elsewhere",
        "new": "file:///t/new",
    }


def test_partitions_have_columns_and_a_format_of_their_own(metastore: ThriftMetastore) -> None:
    table = replace(TABLE, partition_columns=(HiveColumn("p", "string"),))
    metastore.put_table(table)
    metastore.put_partitions(table, [HivePartition(("1",), "file:///1")])
    metastore.put_table(replace(table, columns=(*table.columns, HiveColumn("new", "int")), format=HUDI_FORMAT))
    (partition,) = metastore.partitions(table)
    assert partition.columns == table.columns
    assert partition.format is not None
    assert partition.format.input_format == SYMLINK_FORMAT.input_format


def test_values_of_partitions_are_any_text(metastore: ThriftMetastore) -> None:
    table = replace(TABLE, partition_columns=(HiveColumn("p", "string"), HiveColumn("q", "string")))
    metastore.put_table(table)
    texts = ["a/b", "a=b", "100%", "%41", "é ü", "__HIVE_DEFAULT_PARTITION__", "a:b'\"c", "x\\y"]
    put = [HivePartition((text, text[::-1]), f"file:///{number}") for number, text in enumerate(texts)]
    metastore.put_partitions(table, put)
    assert metastore.partition_values(table) == {one.values for one in put}
    metastore.put_partitions(table, put)
    assert len(metastore.partitions(table)) == len(put), "all were found again"
    metastore.drop_partitions(table, [one.values for one in put[1:]])
    assert known(metastore.partitions(table)) == put[:1]


def test_partitions_that_somebody_else_adds_meanwhile(server: HiveServer, metastore: ThriftMetastore) -> None:
    table = replace(TABLE, partition_columns=(HiveColumn("p", "string"),))
    metastore.put_table(table)
    metastore.put_partitions(table, [HivePartition(("1",), "file:///theirs")])
    server.handler.get_partition_names = lambda *_: []  # type: ignore[method-assign]
    metastore.put_partitions(table, [HivePartition((str(n),), f"file:///ours/{n}") for n in range(450)])
    locations = {one.values[0]: one.location for one in metastore.partitions(table)}
    assert locations == {str(n): f"file:///ours/{n}" for n in range(450)}


def test_what_a_metastore_says_of_a_table_that_is_gone(metastore: ThriftMetastore) -> None:
    gone = replace(TABLE, name="gone", partition_columns=(HiveColumn("p", "string"),))
    for call in (
        lambda: metastore.partition_values(gone),
        lambda: metastore.put_partitions(gone, [HivePartition(("1",), "file:///1")]),
        lambda: metastore.drop_partitions(gone, [("1",)]),
    ):
        with pytest.raises(MetastoreError, match=r"get_partition_names s\.gone"):
            call()


def test_threads_share_connections(server: HiveServer, metastore: ThriftMetastore) -> None:
    metastore.put_table(TABLE)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert metastore.table("s", "t") is not None
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(metastore._connections._idle) <= 8


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("thrift://a:1,thrift://b:2", "thrift://a:1,b:2"),
        ("thrift://a, b", "thrift://a:9083,b:9083"),
        ("thrift://[::1]:5", "thrift://[::1]:5"),
    ],
)
def test_addresses(uri: str, expected: str) -> None:
    assert open_metastore(uri).uri == expected


@pytest.mark.parametrize("uri", ["", "thrift://", "thrift://a:b", "thrift://a:0", "thrift://a:70000", "thrift://a/b/c"])
def test_addresses_that_are_none(uri: str) -> None:
    with pytest.raises(OptionError):
        open_metastore(uri)


@pytest.mark.parametrize("uri", ["127.0.0.1:9083", "metastore:9083"])
def test_an_address_without_its_scheme_is_no_folder(uri: str) -> None:
    with pytest.raises(OptionError, match=rf"write thrift://{uri}, or \./{uri} for a folder"):
        open_metastore(uri)
    assert isinstance(open_metastore(f"./{uri}"), FileMetastore)


def test_a_word_that_is_no_folder_is_not_made_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=r"no such folder; write thrift://hms for .* or \./hms to make the folder"):
        open_metastore("hms")
    assert isinstance(open_metastore("./hms"), FileMetastore)
    (tmp_path / "hms").mkdir()
    assert isinstance(open_metastore("hms"), FileMetastore)


def test_a_folder_is_a_file_metastore(tmp_path: object) -> None:
    assert isinstance(open_metastore(f"file://{tmp_path}"), FileMetastore)


def test_an_entry_that_cannot_be_made_is_told_as_an_error_of_ours(
    server: HiveServer, metastore: ThriftMetastore
) -> None:
    server.handler.refuse["create_table"] = idl.NoSuchObjectException("no catalog")
    with pytest.raises(MetastoreError, match=r"127\.0\.0\.1.*create_table s\.t: no catalog"):
        metastore.put_table(TABLE)
    metastore.put_table(TABLE)
    other = replace(TABLE, columns=(HiveColumn("a", "string"),))  # refused, so dropped and recreated
    server.handler.refuse["create_table"] = idl.AlreadyExistsException("somebody was faster")
    with pytest.raises(MetastoreError, match=r"create_table s\.t: somebody was faster"):
        metastore.put_table(other)
    metastore.put_table(other)
    assert metastore.table("s", "t") is not None


def test_many_partitions_are_read_some_at_a_time(
    server: HiveServer, metastore: ThriftMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thrift_metastore, "_READ_AT_ONCE", 3)
    keyed = replace(TABLE, partition_columns=(HiveColumn("p", "string"),))
    metastore.put_table(keyed)
    many = [HivePartition((f"a/{n}=%",), f"file:///{n}") for n in range(7)]
    for count in (3, 7):
        metastore.put_partitions(keyed, many[:count])
        server.handler.calls.clear()
        assert known(sorted(metastore.partitions(keyed), key=lambda one: one.location)) == many[:count]
        batches = [call for call in server.handler.calls if call.startswith("get_partitions_by_names")]
        assert batches == [f"get_partitions_by_names {size}" for size in ([] if count == 3 else [3, 3, 1])]
