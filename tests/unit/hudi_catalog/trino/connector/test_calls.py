"""The service's answers to Trino's connector, asked by thriftpy2: contract, secret, plans, rows, domains."""

from __future__ import annotations

import datetime as dt
import struct
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from thriftpy2.protocol import binary
from thriftpy2.transport import memory

from catalog.rows.slice_rows import slice_batches
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.server.security import Secret
from hudi_catalog.trino.connector import scans
from hudi_catalog.trino.connector.calls import CALLERS
from hudi_catalog.trino.connector.pages import encoded_page
from hudi_catalog.trino.connector.types import connector_columns, trino_type
from table_format.errors import SchemaError
from tests.support.connector_client import Asking, RefusedError, T
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, write

_protocols: Any = binary
_transports: Any = memory
SECRET = Secret(b"a secret for this test")


ROWS = pa.table(
    {
        "id": pa.array(range(200), pa.int64()),
        "Part": [f"p{one // 50}" for one in range(200)],
        "price": pa.array([Decimal(one) / 4 for one in range(200)], pa.decimal128(9, 2)),
        "at": pa.array(
            [dt.datetime(2026, 1, 1 + one // 50, tzinfo=dt.UTC) for one in range(200)], pa.timestamp("us", "UTC")
        ),
    }
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("connector"))
    write(folder, "t", ROWS, Layout("id", "id", 2, "Part"))
    return folder


@pytest.fixture
def asking(warehouse: Path) -> Asking:
    return Asking(warehouse)


def test_a_table_is_described_and_pinned(asking: Asking) -> None:
    assert asking.ask("hudiTables", {}) == {"tables": [["default", "t"]]}
    table = asking.ask("hudiTable", {"schema": "default", "table": "T"})
    assert [(one["name"], one["type"]) for one in table["columns"] if not one["hidden"]] == [
        ("id", "bigint"),
        ("part", "varchar"),
        ("price", "decimal(9,2)"),
        ("at", "timestamp(6) with time zone"),
    ]
    assert table["partitioned_by"] == ["part"]
    assert asking.ask("hudiTable", {"schema": "default", "table": "nowhere"}) is None
    again = asking.ask("hudiTable", {"schema": "default", "table": "t", "version": table["pin"]})
    assert again["pin"] == table["pin"]
    names = [["default", "t"], ["default", "nowhere"]]
    assert [one["table"] for one in asking.ask("hudiColumns", {"names": names})["tables"]] == ["t"]


DOMAINS: list[tuple[dict[str, Any], int]] = [
    ({"part": {"null": False, "in": ["p1"]}}, 2),
    ({"part": {"null": False, "in": ["p1", "p9"]}}, 2),
    ({"part": {"null": False, "ranges": [["p2", True, None, False]]}}, 4),
    ({"part": {"null": True, "in": []}}, 0),
    ({"part": {"null": True, "all": True}}, 8),
    ({"price": {"null": False, "ranges": [[None, False, "12.49", True]]}}, 2),
    ({"price": {"null": False, "in": ["0.00"]}}, 1),
    ({"at": {"null": False, "in": ["1767225600000000000000"]}}, 2),
    ({"id": {"null": False, "ranges": [[1, True, 1, True], [150, False, None, False]]}}, 4),
    # not understood, so that nothing is left out
    ({"at": {"null": False, "in": ["1767225600000000000001"]}}, 8),
    ({"price": {"null": False, "in": ["NaN"]}}, 8),
    ({"price": {"null": False, "in": [7]}}, 8),
    ({"id": {"null": False, "in": ["x"]}}, 8),
    ({"id": {"null": "no", "in": [1]}}, 8),
    ({"id": {"null": False}}, 8),
    ({"nowhere": {"null": False, "in": [1]}}, 8),
    ({"id": {"null": False, "ranges": [[1, True]]}}, 8),
]


@pytest.mark.parametrize(("columns", "files"), DOMAINS)
def test_domains_leave_out_files_where_they_are_understood(asking: Asking, columns: Any, files: int) -> None:
    plan = asking.ask("hudiPlan", asking.pinned(domains=[{"columns": columns}]))
    assert len({split[0] for split in plan["splits"]}) == plan["files_kept"] == files
    assert not any(split[5] for split in plan["splits"])
    assert plan["files_total"] == 8


def test_no_row_and_several_domains(asking: Asking) -> None:
    assert asking.ask("hudiPlan", asking.pinned(domains=[{"none": True}]))["splits"] == []
    both = [{"columns": {"part": {"null": False, "in": ["p1"]}}}, {"columns": {"id": {"null": False, "in": [50]}}}]
    assert len(asking.ask("hudiPlan", asking.pinned(domains=both))["splits"]) == 1
    assert asking.ask("hudiEnforced", asking.pinned(domains=both[:1])) == {"columns": ["part"]}
    assert asking.ask("hudiEnforced", asking.pinned(domains=both[1:])) == {"columns": []}
    known = asking.ask("hudiStatistics", asking.pinned(domains=both[:1]))
    assert known["rows"] == 50
    assert (known["columns"]["id"]["low"], known["columns"]["id"]["high"]) == (50, 99)
    assert known["columns"]["part"]["distinct"] == 1
    assert known["columns"]["price"]["nulls"] == 0


def test_rows_come_in_pages_that_any_service_continues(warehouse: Path) -> None:
    small = {"page_size": "40", "batch_rows": "7"}
    asking = Asking(warehouse, **small)
    wanted = asking.pinned(domains=[{"columns": {"id": {"null": False, "ranges": [[None, False, 40, False]]}}}])
    split = asking.ask("hudiPlan", wanted)["splits"][0]
    ids: list[int] = []
    number = 0
    while True:
        asked = {**wanted, "split": split, "columns": ["id"], "page": number}
        reply = (asking if number % 2 else Asking(warehouse, **small)).bytes("hudiRows", asked)
        assert asking.bytes("hudiRows", asked) == reply
        rows = struct.unpack("<i", reply[1:5])[0]
        ids += struct.unpack(f"<{rows}q", reply[6 : 6 + 8 * rows]) if rows else ()
        number += 1
        if reply[0]:
            break
    assert number > 1
    assert len(ids) == len(set(ids))
    assert all(one < 40 for one in ids)


def test_readers_of_equal_slices_read_each_row_once(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join of a table with itself: both are at the same page all the time."""
    asking = Asking(warehouse, page_size="40", batch_rows="7")
    wanted = asking.pinned(domains=[])
    split = asking.ask("hudiPlan", wanted)["splits"][0]
    opened: list[str] = []

    def read(snapshot: Snapshot, piece: FileSlice, *arguments: Any, **more: Any) -> Any:
        opened.append(piece.file_id)
        return slice_batches(snapshot, piece, *arguments, **more)

    monkeypatch.setattr(scans, "slice_batches", read)
    for number in range(1000):
        asked = {**wanted, "split": split, "columns": ["id"], "page": number}
        first, second = (asking.bytes("hudiRows", asked) for _ in range(2))
        assert first == second
        if first[0]:
            break
    assert number > 3
    assert len(opened) == 2


def test_requests_that_break_the_contract_are_refused(asking: Asking) -> None:
    split = asking.ask("hudiPlan", asking.pinned(domains=[]))["splits"][0]
    page = {"columns": ["id"], "domains": [], "page": 0}
    outside = ["../x.parquet", *split[1:]]
    for method, body, message in (
        ("hudiPlan", "[]", "not an object"),
        ("hudiPlan", "{", "not JSON"),
        ("hudiPlan", {"schema": "default"}, "table is a text"),
        ("hudiPlan", asking.pinned(domains=[7]), "a filter is an object"),
        ("hudiPlan", {**asking.pinned(), "pin": "20200101000000000#x"}, "oldest commit|no longer|has changed"),
        ("hudiPlan", asking.pinned(query_type="newest"), "query_type is snapshot or read_optimized"),
        ("hudiRows", asking.pinned(split=outside, **page), "not inside the table"),
        ("hudiRows", asking.pinned(split=split[:3], **page), "other members"),
        ("hudiRows", asking.pinned(split=split, **{**page, "columns": ["nothing"]}), "there is no column nothing"),
        ("hudiRows", asking.pinned(split=split, **{**page, "page": -1}), "page is a whole number"),
    ):
        with pytest.raises(RefusedError, match=message):
            asking.bytes(method, body)
    with pytest.raises(RefusedError, match=r"speaks version 4, and this service 3; .*trino-plugin"):
        asking.bytes("hudiTables", {}, version=4)
    transport = _transports.TMemoryBuffer()
    protocol = _protocols.TBinaryProtocol(transport)
    protocol.write_message_begin("pin", 1, 7)
    request = T.ScanRequest(version=3, location="file:/t", table="d.t", queryId="q")
    protocol.write_struct(T.HudiCatalog.pin_args(request, None))
    parts = asking.service.dispatch(transport.getvalue())
    assert parts is not None
    assert b"this port is Trino's; Hive's handler asks `hudi-catalog serve hive`" in b"".join(parts)


def test_aggregates_that_statistics_give(asking: Asking) -> None:
    def values(*functions: tuple[str, str | None], **more: Any) -> Any:
        listed = [{"function": function, "column": column} for function, column in functions]
        return asking.ask("hudiAggregates", asking.pinned(aggregates=listed, **more))["values"]

    assert values(("count", None), ("count", "id"), ("min", "id"), ("max", "price")) == [200, 200, 0, "49.75"]
    of_partition = [{"columns": {"part": {"null": False, "in": ["p1"]}}}]
    assert values(("count", None), ("min", "price"), domains=of_partition) == [50, "12.50"]
    of_none = [{"columns": {"part": {"null": False, "in": ["p9"]}}}]
    assert values(("count", None), ("max", "id"), domains=of_none) == [0, None]
    # a filter that not every row passes; texts, whose bounds may be cut; times; what is no column
    assert values(("count", None), domains=[{"columns": {"id": {"null": False, "in": [3]}}}]) is None
    equal = {"call": "$equal", "type": "boolean"} | {
        "args": [{"column": "id", "type": "bigint"}, {"value": 3, "type": "bigint"}]
    }
    assert values(("count", None), conditions=[equal]) is None
    for function, column in (("min", "part"), ("count", "part"), ("max", "at"), ("max", "gone")):
        assert values((function, column)) is None
    with pytest.raises(RefusedError, match="an aggregate has a function"):
        values(("sum", "id"))


@pytest.mark.parametrize(
    ("request_", "partitions"),
    [
        ({"limit": 30}, {"p0"}),
        ({"limit": 51}, {"p0", "p1"}),
        ({"limit": 10, "order": {"column": "id", "ascending": True, "nulls_first": False}}, {"p0"}),
        ({"limit": 10, "order": {"column": "at", "ascending": False, "nulls_first": True}}, {"p3"}),
        ({"limit": 10, "order": {"column": "part", "ascending": False, "nulls_first": True}}, {"p0", "p1", "p2", "p3"}),
        ({"limit": 500, "order": {"column": "id", "ascending": True, "nulls_first": False}}, {"p0", "p1", "p2", "p3"}),
        ({"order": {"column": "id", "ascending": True, "nulls_first": False}}, {"p0", "p1", "p2", "p3"}),
    ],
)
def test_a_limit_and_an_order_leave_files_out(asking: Asking, request_: Any, partitions: set[str]) -> None:
    plan = asking.ask("hudiPlan", asking.pinned(**request_))
    assert {split[6].split("=")[-1] for split in plan["splits"]} == partitions


def test_domains_of_fields_of_rows_and_what_is_not_understood(asking: Asking) -> None:
    plan = asking.ask(
        "hudiPlan", asking.pinned(domains=[{"columns": {"id": {"null": True, "all": True, "path": [0]}}}])
    )
    assert plan["unknown"] == ["id: id has no field 0"]
    assert len(plan["splits"]) == 8


def test_the_secret_is_asked_for_and_replays_are_refused(warehouse: Path) -> None:
    asking = Asking(warehouse, SECRET)
    with pytest.raises(RefusedError, match=r"asks for the shared secret; set hudi-catalog\.secret-file"):
        asking.ask("hudiTables", {})
    now = int(time.time() * 1000)

    def credential(version: int, nonce: bytes) -> Any:
        encoded = b"\x08\x00\x01\x00\x00\x00" + bytes([version]) + b"\x0b\x00\x02\x00\x00\x00\x02{}\x00"
        signature = CALLERS.signature(SECRET, version, "hudiTables", encoded, time_ms=now, nonce=nonce)
        return T.Credential(time=now, nonce=nonce, signature=signature)

    for version in (1, 2):  # of earlier plugins
        old = credential(version, bytes([version] * 16))
        assert asking.ask("hudiTables", {}, credential=old, version=version) == {"tables": [["default", "t"]]}
    right = credential(3, bytes(range(16)))
    assert asking.ask("hudiTables", {}, credential=right) == {"tables": [["default", "t"]]}
    with pytest.raises(RefusedError, match="being replayed"):
        asking.ask("hudiTables", {}, credential=right)
    with pytest.raises(RefusedError, match="Trino's secret is not the service's"):
        asking.ask("hudiColumns", {}, credential=T.Credential(time=now, nonce=bytes(16), signature=right.signature))


def test_names_that_differ_in_case_alone_and_types_without_counterpart_are_refused() -> None:
    for schema, message in (
        (pa.schema([("a", pa.int32()), ("A", pa.int32())]), "several columns are called a"),
        (pa.schema([("$a", pa.int32())]), r"begin with \$"),
        (pa.schema([("a", pa.uint64())]), "column a: Trino has no type for uint64"),
        (pa.schema([("a", pa.struct([("x", pa.int32()), ("X", pa.int32())]))]), "differ in case alone"),
        (pa.schema([("a", pa.decimal256(50, 2))]), "no type for decimal256"),
    ):
        with pytest.raises(SchemaError, match=message):
            connector_columns(schema, "t")


def test_every_layout_of_arrow_gives_the_same_page() -> None:
    values = pa.array([None, [{"k": "x", "n": 1}, None], [], [{"k": None, "n": None}]])
    sliced = pa.concat_arrays([values[2:], values])[2:]
    large = values.cast(pa.large_list(values.type.value_type))
    texts = pa.array(["a", None, "bcd", ""])
    first = encoded_page(pa.table({"l": values, "s": texts}))
    assert encoded_page(pa.table({"l": sliced, "s": texts.cast(pa.large_string())})) == first
    assert encoded_page(pa.table({"l": large, "s": texts.dictionary_encode()})) == first
    assert trino_type(large.type) == trino_type(values.type)


def test_an_unfinished_table_is_left_out_of_listings(tmp_path: Path) -> None:
    LocalTable.create(
        str(tmp_path / "t"),
        pa.schema([("id", pa.int64())]),
        {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id", "hoodie.index.type": "BUCKET"},
    )
    properties = tmp_path / "damaged/.hoodie/hoodie.properties"
    properties.parent.mkdir(parents=True)
    properties.write_text("hoodie.table.name=damaged\nhoodie.table.version=99\n")
    asking = Asking(tmp_path)
    assert asking.ask("hudiTables", {}) == {"tables": [["default", "t"]]}
    assert asking.ask("hudiPlan", asking.pinned(domains=[]))["splits"] == []
    with pytest.raises(RefusedError, match="version 99"):
        asking.ask("hudiTable", {"schema": "default", "table": "damaged"})
