"""The client of a Hive Metastore against the real ones: 2.3.10, 3.1.3 and 4.0.1."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import thriftpy2

from hudi_catalog.metastore import thrift_connections, thrift_metastore
from hudi_catalog.metastore.metastore import (
    EXTERNAL_TABLE,
    HUDI_FORMAT,
    SYMLINK_FORMAT,
    ColumnStatistics,
    HiveColumn,
    HivePartition,
    HiveTable,
)
from hudi_catalog.metastore.metastore_options import (
    AUTH,
    PASSWORD_FILE,
    TIMEOUT,
    TLS,
    TLS_CA,
    USERNAME,
    MetastoreOptions,
)
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.thrift_connections import UnknownMethodError, hms
from hudi_catalog.metastore.thrift_metastore import ThriftMetastore
from table_format.errors import MetastoreError
from tests.conftest import skip_or_fail
from tests.support.certificates import Authority
from tools.engines.artifacts import EngineMissingError
from tools.engines.hive.older_metastore import Hive3Metastore
from tools.engines.hive.server import HiveMetastore

pytestmark = pytest.mark.engine
DAY = HiveColumn("day", "string", "of the event")
HOUR = HiveColumn("hour", "int")
EVERY_TYPE = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(38,18)", "string", "binary",
    "date", "timestamp", "char(3)", "varchar(7)", "array<array<int>>", "map<string,struct<a:int,b:array<date>>>",
)  # fmt: skip


@pytest.fixture(scope="module", params=["2.3.10", "3.1.3", "4.0.1"])
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThriftMetastore]:
    """A client of each release; its servers are shared with other tests, so names begin with `client`."""
    with contextlib.ExitStack() as stack:
        if request.param == "3.1.3":
            try:
                older = Hive3Metastore(tmp_path_factory.mktemp("metastore-3"))
            except EngineMissingError as error:
                skip_or_fail(str(error))
            stack.callback(older.stop)
            uri = older.uri
        else:
            fixture = {"2.3.10": "hive_metastore", "4.0.1": "hive_metastore_4"}[request.param]
            uri = request.getfixturevalue(fixture).uri
        opened = open_metastore(uri, options={TIMEOUT: "120"})
        assert isinstance(opened, ThriftMetastore)
        stack.callback(opened.close)
        opened.create_schema("client")
        yield opened
        for name in opened.tables("client"):
            opened.drop_table("client", name)


@pytest.fixture
def entry(metastore: ThriftMetastore, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., HiveTable]:
    """Makes a definition with its own name and location."""
    folder = tmp_path / "a table é%20"  # Hadoop's paths are not escaped
    folder.mkdir()
    (folder / "part.parquet").write_bytes(b"not read")

    def made(*columns: HiveColumn, keys: tuple[HiveColumn, ...] = (), **more: object) -> HiveTable:
        name = request.node.originalname.removeprefix("test_")[:60]
        parameters = {"EXTERNAL": "TRUE", "told": "1 % é"}
        table = HiveTable("client", name, columns, f"file://{folder}", HUDI_FORMAT, parameters, keys)
        return replace(table, **more)  # type: ignore[arg-type]

    metastore.drop_table("client", made().name)
    return made


def stored_entry(metastore: ThriftMetastore, table: HiveTable) -> HiveTable:
    """What the metastore has of a table; it must have something."""
    result = metastore.table(table.schema, table.name)
    assert result is not None
    return result


def test_a_table_comes_back_as_it_was_put(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    columns = [HiveColumn(f"c{n}", kind, "what, 'é'" if n % 2 else None) for n, kind in enumerate(EVERY_TYPE)]
    table = entry(*columns)
    assert metastore.table("client", table.name) is None
    metastore.put_table(table)
    got = stored_entry(metastore, replace(table, schema="CLIENT", name=table.name.upper()))
    assert (got.columns, got.location, got.table_type) == (table.columns, table.location, EXTERNAL_TABLE)
    assert (got.schema, got.name) == (table.schema, table.name)
    assert replace(got.format, serde_parameters={}) == HUDI_FORMAT
    assert dict(table.parameters).items() <= dict(got.parameters).items()
    assert table.name in metastore.tables("client")
    assert "client" in metastore.schemas()
    assert not metastore.create_schema("Client")
    assert metastore.tables("no_such_database") == []
    (folder,) = metastore.schema_folders("Client")
    assert folder.endswith("/client.db")
    assert metastore.schema_folders("no_such_database") == []
    assert metastore.drop_table("client", table.name)
    assert not metastore.drop_table("client", table.name)
    assert metastore.table("client", table.name) is None
    assert (folder_of(table) / "part.parquet").exists()


def test_the_releases_differ_in_what_gets_a_table(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    table = entry(HiveColumn("a", "int"))
    metastore.put_table(table)
    request = hms.GetTableRequest(dbName="client", tblName=table.name)
    assert metastore._call("get_table_req", request).table.tableName == table.name
    is_4 = "get_table" not in released(metastore)
    with pytest.raises(UnknownMethodError) if is_4 else contextlib.nullcontext():
        metastore._call("get_table", "client", table.name)


def released(metastore: ThriftMetastore) -> set[str]:
    """Which of the ways to get a table there are."""
    known = set()
    for method, arguments in (("get_table", ("client", "none")),):
        with contextlib.suppress(UnknownMethodError):
            try:
                metastore._call(method, *arguments)
            except hms.NoSuchObjectException:
                known.add(method)
    return known


def test_entries_lie_in_hives_own_catalog(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    table = entry(HiveColumn("a", "int"))
    metastore.put_table(table)
    try:
        in_catalog = metastore._call("get_all_tables", "@hive#client")
    except MetastoreError:
        in_catalog = []
    # 2.3 knows no catalogs
    assert table.name in in_catalog or "get_table" in released(metastore)
    assert table.name in metastore.tables("client")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a int", "a int, b string"),
        ("a int", "a bigint"),
        ("a float", "a double"),
        ("a decimal(5,2)", "a decimal(9,4)"),
        ("a int, b string", "b string, a int"),
        ("a string", "a int"),
        ("a bigint", "a int"),
        ("a struct<x:int>", "a struct<x:int,y:string>"),
        ("a struct<x:int>", "a struct<x:bigint>"),
        ("a array<int>", "a array<bigint>"),
        ("a int, b int", "b int"),
        ("a int", "a timestamp"),
        ("a bigint", "a timestamp"),
    ],
)
def test_every_change_of_columns_arrives(
    metastore: ThriftMetastore, entry: Callable[..., HiveTable], before: str, after: str
) -> None:
    old, new = (entry(*(HiveColumn(*part.strip().split(" ")) for part in text.split(", "))) for text in (before, after))
    metastore.put_table(old)
    metastore.put_table(new)
    assert stored_entry(metastore, new).columns == new.columns


def test_comments_places_and_classes_change(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    metastore.put_table(entry(HiveColumn("a", "int", "old"), parameters={"EXTERNAL": "TRUE", "gone": "1"}))
    table = entry(HiveColumn("a", "int", "new"), format=SYMLINK_FORMAT, parameters={"EXTERNAL": "TRUE", "new": "2"})
    metastore.put_table(table)
    got = stored_entry(metastore, table)
    assert (got.columns[0].comment, got.format.input_format) == ("new", SYMLINK_FORMAT.input_format)
    assert "gone" not in got.parameters
    assert got.parameters["new"] == "2"
    metastore.put_table(replace(table, columns=(HiveColumn("a", "int"),)))
    assert stored_entry(metastore, table).columns[0].comment is None


def test_long_texts_are_kept(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    """The limits: 4000 characters of a parameter (in Derby 32,672), 256 of a comment, wide structs as types."""
    wide = "struct<" + ",".join(f"field_{n}:string" for n in range(400)) + ">"
    table = entry(HiveColumn("a", wide, "c" * 256), parameters={"EXTERNAL": "TRUE", "text": "x" * 4000})
    metastore.put_table(table)
    got = stored_entry(metastore, table)
    assert (got.columns, got.parameters["text"]) == (table.columns, "x" * 4000)


def test_no_statistics_are_made_of_files(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    """They would be of all files that lie there, and of none that come later."""
    table = entry(HiveColumn("a", "int"))
    metastore.put_table(table)
    metastore.put_table(replace(table, columns=(HiveColumn("a", "bigint"),)))
    assert not {"totalSize", "numFiles", "numRows", "COLUMN_STATS_ACCURATE"} & set(
        stored_entry(metastore, table).parameters
    )


READING = """
struct TableStatsRequest { 1: string dbName, 2: string tblName, 3: list<string> colNames, 6: optional string engine }
struct TableStatsResult { 1: list<ColumnStatisticsObj> tableStats }
struct PartitionsStatsRequest {
  1: string dbName, 2: string tblName, 3: list<string> colNames, 4: list<string> partNames, 7: optional string engine
}
struct PartitionsStatsResult { 1: map<string, list<ColumnStatisticsObj>> partStats }
service ThriftHiveMetastore {
  TableStatsResult get_table_statistics_req(1: TableStatsRequest request)
  PartitionsStatsResult get_partitions_statistics_req(1: PartitionsStatsRequest request)
  bool update_partition_column_statistics(1: ColumnStatistics stats_obj)
"""
MEASURED = [
    ColumnStatistics("a", "bigint", 1, 5, -3, 2**40),
    ColumnStatistics("b", "string", 0, 7, length=2.5),
    ColumnStatistics("c", "decimal(10,2)", 0, 7, Decimal("-1.29"), Decimal("300.00")),
    ColumnStatistics("d", "date", 0, 7, -200_000, 3),
    ColumnStatistics("e", "double", 0, 7, -1.5, 0.5),
]


def test_statistics_of_columns_are_kept_and_never_marked_as_accurate(
    metastore: ThriftMetastore, entry: Callable[..., HiveTable], tmp_path: Path
) -> None:
    columns = [HiveColumn(one.column, one.type) for one in MEASURED]
    table = entry(*columns)
    parted = replace(entry(*columns, keys=(DAY,)), name="statistics_of_partitions")
    metastore.drop_table("client", parted.name)
    for one in (table, parted):
        metastore.put_table(one)
    metastore.put_partitions(parted, [HivePartition((day,), f"{table.location}/{day}") for day in ("a/b", "c")])
    text = Path(thrift_connections._IDL).read_text().replace("service ThriftHiveMetastore {", READING)
    tmp_path.joinpath("reading.thrift").write_text(text)
    idl = thriftpy2.load(str(tmp_path / "reading.thrift"), f"reading{abs(hash(str(tmp_path)))}_thrift")
    host, _, port = metastore.uri.removeprefix("thrift://").partition(":")
    client = thrift_connections.connector(MetastoreOptions())(host, int(port), idl)
    # makes the table of the metastore's database, which a metastore with a schema of `schematool` has
    first = thrift_metastore.thrift_statistics(parted, "day=a%2Fb", MEASURED[:1])
    assert client.update_partition_column_statistics(first)
    for _ in range(2):
        metastore.put_statistics(table, {(): MEASURED})
        metastore.put_statistics(parted, {("a/b",): MEASURED, ("gone",): MEASURED})
    metastore.put_table(replace(table, parameters={**table.parameters, "told": "more"}))
    names = [one.column for one in MEASURED]
    whole = client.get_table_statistics_req(idl.TableStatsRequest("client", table.name, names, "hive")).tableStats
    parts = client.get_partitions_statistics_req(
        idl.PartitionsStatsRequest("client", parted.name, names, ["day=a%2Fb", "day=c"], "hive")
    ).partStats
    client.close()
    assert list(parts) == ["day=a%2Fb"]
    for known in (whole, parts["day=a%2Fb"]):
        by_name = {one.colName: one.statsData for one in known}
        long, text_, exact = by_name["a"].longStats, by_name["b"].stringStats, by_name["c"].decimalStats
        assert (long.lowValue, long.highValue, long.numNulls, long.numDVs) == (-3, 2**40, 1, 5)
        assert (text_.maxColLen, text_.avgColLen, text_.numNulls, text_.numDVs) == (3, 2.5, 0, 7)
        low = int.from_bytes(exact.lowValue.unscaled, "big", signed=True)
        assert Decimal(low).scaleb(-exact.lowValue.scale) == Decimal("-1.29")
        assert by_name["d"].dateStats.lowValue.daysSinceEpoch == -200_000
        assert by_name["e"].doubleStats.highValue == 0.5
    for one in (table, parted):
        assert "COLUMN_STATS_ACCURATE" not in stored_entry(metastore, one).parameters
    marked = metastore._of_table("get_partitions_by_names", parted, ["day=a%2Fb", "day=c"])
    assert not any("COLUMN_STATS_ACCURATE" in (one.parameters or {}) for one in marked)
    metastore.drop_table("client", parted.name)


def test_partitions_come_and_go(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    table = entry(HiveColumn("a", "int"), keys=(DAY, HOUR))
    metastore.put_table(table)
    assert stored_entry(metastore, table).partition_columns == (DAY, HOUR)
    many = [HivePartition((f"d{n // 24}", str(n % 24)), f"{table.location}/{n}") for n in range(450)]
    # a metastore makes those that are missing, one process each
    for place in (*range(450), "moved/0", "moved/1", "moved/2"):
        (folder_of(table) / str(place)).mkdir(parents=True)
    metastore.put_partitions(table, many[:10])
    metastore.put_partitions(table, many)
    assert metastore.partition_values(table) == {one.values for one in many}
    assert places(metastore, table) == {one.values: one.location for one in many}
    moved = [replace(one, location=f"{table.location}/moved/{n}") for n, one in enumerate(many[:3])]
    metastore.put_partitions(table, moved)
    metastore.drop_partitions(table, [one.values for one in many[5:]] + [("never", "1")])
    metastore.drop_partitions(table, [one.values for one in many[5:]])
    assert places(metastore, table) == {one.values: one.location for one in [*moved, *many[3:5]]}


def folder_of(table: HiveTable) -> Path:
    """The place of a table on this machine."""
    return Path(table.location.removeprefix("file://"))


def places(metastore: ThriftMetastore, table: HiveTable) -> dict[tuple[str, ...], str]:
    """Where the partitions are: the same whether they are read at once or some at a time."""
    at_once = {one.values: one.location for one in metastore.partitions(table)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thrift_metastore, "_READ_AT_ONCE", max(1, len(at_once) // 3))
        assert {one.values: one.location for one in metastore.partitions(table)} == at_once
    return at_once


def test_values_of_partitions_are_any_text(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    texts = [
        "a/b",
        "a=b",
        "100%",
        "%41",
        "a b",
        "é",
        "a:b'\"c",
        "x\\y",
        "{z}",
        "__HIVE_DEFAULT_PARTITION__",
        "A",
        "z^#?*",
    ]
    table = entry(HiveColumn("a", "int"), keys=(DAY, HiveColumn("q", "string")))
    metastore.put_table(table)
    put = [HivePartition((text, text[::-1]), f"{table.location}/{n}") for n, text in enumerate(texts)]
    metastore.put_partitions(table, put)
    assert metastore.partition_values(table) == {one.values for one in put}
    metastore.put_partitions(table, put)
    assert places(metastore, table) == {one.values: one.location for one in put}
    metastore.drop_partitions(table, [one.values for one in put[1:]])
    assert places(metastore, table) == {put[0].values: put[0].location}


def test_partitions_keep_their_columns_until_they_are_put_anew(
    metastore: ThriftMetastore, entry: Callable[..., HiveTable]
) -> None:
    table = entry(HiveColumn("a", "int"), keys=(DAY,))
    metastore.put_table(table)
    one = HivePartition(("x",), f"{table.location}/x")
    metastore.put_partitions(table, [one])
    wider = replace(table, columns=(HiveColumn("a", "bigint"), HiveColumn("b", "string")), format=SYMLINK_FORMAT)
    metastore.put_table(wider)
    (got,) = metastore.partitions(wider)
    assert got.columns == table.columns
    assert got.format is not None
    assert got.format.input_format == HUDI_FORMAT.input_format
    metastore.put_partitions(wider, [one])
    (got,) = metastore.partitions(wider)
    assert got.columns == wider.columns
    assert got.format.input_format == SYMLINK_FORMAT.input_format  # type: ignore[union-attr]


def test_other_partition_columns_make_a_new_entry(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    table = entry(HiveColumn("a", "int"), keys=(DAY,))
    metastore.put_table(table)
    metastore.put_partitions(table, [HivePartition(("x",), f"{table.location}/x")])
    for keys in ((DAY, HOUR), (HOUR,), ()):
        changed = entry(HiveColumn("a", "int"), keys=keys)
        metastore.put_table(changed)
        assert stored_entry(metastore, changed).partition_columns == keys
        if keys:
            assert metastore.partitions(changed) == []


def test_what_cannot_be_done_is_told(metastore: ThriftMetastore, entry: Callable[..., HiveTable]) -> None:
    table = entry(HiveColumn("a", "int"), keys=(DAY,))
    with pytest.raises(MetastoreError, match=r"no_such_database|thrift://"):
        metastore.put_table(replace(table, schema="no_such_database"))
    with pytest.raises(MetastoreError):
        metastore.put_partitions(table, [HivePartition(("x",), table.location)])
    metastore.put_table(table)
    with pytest.raises(MetastoreError):
        metastore.put_partitions(table, [HivePartition(("x", "too many"), table.location)])
    assert metastore.partitions(table) == [], "the connection goes on"


def test_names_passwords_and_encryption(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    authority = Authority(tmp_path / "ca")
    signed, store = authority.sign(), tmp_path / "store.p12"
    pair = ("-in", signed.certificate, "-inkey", signed.key)
    subprocess.run(["openssl", "pkcs12", "-export", *pair, "-out", store, "-passout", "pass:secret"], check=True)
    properties = {
        "metastore.authentication": "CONFIG",
        "metastore.authentication.config.username": "ann",
        "metastore.authentication.config.password": "p w %",
        "metastore.execute.setugi": "false",
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(store),
        "metastore.keystore.password": "secret",
        "metastore.keystore.type": "PKCS12",
    }
    try:
        server = HiveMetastore(tmp_path_factory.mktemp("metastore-sasl"), properties=properties)
    except EngineMissingError as error:
        skip_or_fail(str(error))
    password, wrong = tmp_path / "password", tmp_path / "wrong"
    password.write_text("p w %\n")
    password.chmod(0o600)
    wrong.write_text("guess")
    wrong.chmod(0o600)
    good = {AUTH: "CONFIG", USERNAME: "ann", PASSWORD_FILE: str(password), TLS: "true", TLS_CA: authority.certificate}
    try:
        opened = open_metastore(server.uri, options=good)
        assert opened.create_schema("secured")
        table = HiveTable(
            "secured", "t", (HiveColumn("a", "int"),), tmp_path.as_uri(), HUDI_FORMAT, {"x": "y" * 3999}, (DAY,)
        )
        opened.put_table(table)
        opened.put_partitions(table, [HivePartition((f"d{n}",), tmp_path.as_uri()) for n in range(300)])
        assert len(opened.partitions(table)) == 300, "an answer of many frames"
        opened.close()
        for other, message in (
            ({PASSWORD_FILE: str(wrong)}, "authentication by CONFIG failed"),
            ({USERNAME: "bob"}, "authentication by CONFIG failed"),
            ({TLS_CA: None}, "certificate verify failed"),
            ({AUTH: None, USERNAME: None, PASSWORD_FILE: None}, "the connection broke"),
            ({TLS: None, TLS_CA: None}, r"thrift://|127\.0\.0\.1"),
        ):
            options = {key: value for key, value in {**good, TIMEOUT: "5", **other}.items() if value is not None}
            with pytest.raises(MetastoreError, match=message):
                open_metastore(server.uri, options=options).schemas()
    finally:
        server.stop()
