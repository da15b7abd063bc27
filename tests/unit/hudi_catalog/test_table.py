"""`hudi_catalog.Table`: written from Python, read by DuckDB, hudi-rs and itself."""

import copy
import datetime as dt
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hudi_catalog
from hudi_catalog import (
    ArgumentError,
    ConflictError,
    OptionError,
    OptionWarning,
    RecordError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    col,
)
from table_writer.commit.transaction import WriteTransaction
from tests.unit.conftest import GoldenTable

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64()), ("name", pa.string())])),
        ("notes", pa.map_(pa.string(), pa.int32())),
    ]
)
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def row(number: int, part: str = "a", **values: object) -> dict:
    full = {
        "id": number,
        "part": part,
        "price": Decimal("1.50"),
        "day": dt.date(1969, 12, 31),
        "at": NOON,
        "tags": ["x", None],
        "place": {"x": 0.5, "name": None},
        "notes": [("k", 1)],
    }
    return {**full, **values}


def empty(number: int, part: str = "a") -> dict:
    return dict.fromkeys(COLUMNS.names) | {"id": number, "part": part}


def rows(*dicts: dict) -> pa.Table:
    return pa.Table.from_pylist(list(dicts), COLUMNS)


def content(table: hudi_catalog.Table) -> list[dict]:
    return (
        table.scan(columns=table.columns.names)
        .to_arrow()
        .sort_by([("part", "ascending"), ("id", "ascending")])
        .to_pylist()
    )


def data_files(table: hudi_catalog.Table) -> list[str]:
    return [split.path for split in table.scan().plan().splits]


@pytest.fixture
def table(tmp_path: Path) -> hudi_catalog.Table:
    return hudi_catalog.create_table(tmp_path / "t", COLUMNS, record_key="id", partition_by="part", buckets=2)


def test_every_operation(table: hudi_catalog.Table) -> None:
    assert table.upsert(rows(row(1), empty(2), row(3, "b"))).rows_inserted == 3
    summary = table.upsert(rows(row(1, price=None), row(4)))
    assert (summary.rows_inserted, summary.rows_updated) == (1, 1)
    assert table.insert(rows(row(5, "b"))).rows_inserted == 1
    assert table.bulk_insert(rows(row(6, "c"))).rows_inserted == 1
    assert table.delete("id = 4").rows_deleted == 1
    assert table.delete((col("id") == 5) & (col("part") == "b")).rows_deleted == 1
    expected = [row(1, price=None), empty(2), row(3, "b"), row(6, "c")]
    assert content(table) == expected
    assert table.delete(pl.DataFrame({"id": [6, 7], "part": ["c", "c"]})).rows_deleted == 1
    table.insert_overwrite(rows(row(8, "b")))
    assert content(table) == [*expected[:2], row(8, "b")]
    table.delete_partitions("b")
    assert content(table) == expected[:2]
    table.insert_overwrite_table(rows(row(9, "z")))
    assert content(table) == [row(9, "z")]
    assert table.clean(versions=1).files > 0
    assert content(table) == content(hudi_catalog.open_table(table.client.storage.uri)) == [row(9, "z")]


def test_no_partition_is_named_by_an_empty_text(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", COLUMNS, record_key="id", buckets=2)
    table.upsert(rows(row(1), row(2)))
    for names in ("", "/", ["b", ""]):
        with pytest.raises(ArgumentError, match=r'an empty text is no path.*delete\("true"\) deletes'):
            table.delete_partitions(names)
    with pytest.raises(ArgumentError, match="paths of partitions are texts, which 5 is not"):
        table.delete_partitions([5])  # type: ignore[list-item]
    assert content(table) == [row(1), row(2)]
    assert table.delete("true").rows_deleted == 2


def test_other_readers_see_the_rows(table: hudi_catalog.Table) -> None:
    table.upsert(rows(row(1), empty(2), row(3, "b")))
    table.upsert(rows(row(1, price=Decimal("-3.00"))))
    expected = [row(1, price=Decimal("-3.00")), empty(2), row(3, "b")]
    uri = table.client.storage.uri
    batches = HudiTableBuilder.from_base_uri(uri).build().read()
    by_hudi = pa.Table.from_batches(batches).select(COLUMNS.names)
    assert sorted(by_hudi.to_pylist(), key=lambda each: each["id"]) == expected
    duckdb.sql("SET TimeZone='UTC'")
    names = ", ".join(f'"{name}"' for name in COLUMNS.names if name != "notes")
    by_duckdb = duckdb.sql(f"SELECT {names} FROM read_parquet({data_files(table)}) ORDER BY id").to_arrow_table()
    assert by_duckdb.to_pylist() == [{k: v for k, v in each.items() if k != "notes"} for each in expected]


def test_explain_and_times(table: hudi_catalog.Table) -> None:
    first = table.upsert(rows(row(1))).instant
    second = table.upsert(rows(row(2))).instant
    assert "1 of 1 partitions" in table.explain("part = 'a' AND id = 1")
    assert "\x1b" not in table.explain()
    assert table.scan(as_of=first).count() == 1
    assert table.scan(incremental=(first, second), columns=["id"]).to_arrow().to_pylist() == [{"id": 2}]
    assert [entry.operation for entry in table.history()] == ["UPSERT", "UPSERT"]


def test_rows_of_a_scan(table: hudi_catalog.Table, tmp_path: Path) -> None:
    table.upsert(rows(row(1), row(2)))
    copy = hudi_catalog.create_table(tmp_path / "copy", table.columns, record_key="id", buckets=1)
    assert copy.upsert(table.scan("id = 2")).rows_inserted == 1
    assert content(copy) == [row(2)]
    assert table.upsert(table.scan("id = 2")).rows_updated == 1
    assert content(table) == [row(1), row(2)]


def allocated() -> int:
    """Bytes of Arrow's buffers, in whichever pool: a write has one of its own."""
    return sum(pool.bytes_allocated() for pool in (pa.mimalloc_memory_pool(), pa.jemalloc_memory_pool()))


@pytest.mark.slow
def test_a_generator_of_more_than_the_memory_limit(tmp_path: Path) -> None:
    limit = 16 << 20
    text = "x" * 4000
    most = []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 40_000, 500):
            most.append(allocated())
            yield pa.record_batch({"id": range(start, start + 500), "text": [f"{start}{text}"] * 500})

    table = hudi_catalog.create_table(
        tmp_path / "t",
        "id bigint, text string",
        record_key="id",
        buckets=8,
        options={"hoodie.catalog.executor.memory": limit},
    )
    before = allocated()
    assert table.upsert(batches()).rows_inserted == 40_000
    assert max(most) - before < 2 * limit  # of 160 MB of rows
    assert table.scan("id = 39999", columns=["text"]).to_arrow().to_pylist() == [{"text": f"39500{text}"}]
    assert table.scan().count() == 40_000


def test_an_iterator_that_fails_leaves_nothing(table: hudi_catalog.Table) -> None:
    table.upsert(rows(row(1)))

    def batches() -> Iterator[pa.Table]:
        yield rows(row(2))
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        table.upsert(batches())
    assert content(table) == [row(1)]
    assert table.upsert(rows(row(2))).rows_inserted == 1
    assert [entry.state for entry in table.history() if entry.action == "commit"] == ["COMPLETED", "COMPLETED"]


def test_columns_come_with_the_first_write(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", record_key="id", buckets=1)
    assert table.columns.names == []
    table.upsert(pd.DataFrame({"id": [1, 2], "name": ["a", None]}))
    assert table.columns == pa.schema([("id", pa.int64()), ("name", pa.string())])
    table.upsert([{"id": 3, "seats": 5}])
    assert content_of(table) == [(1, "a", None), (2, None, None), (3, None, 5)]


def content_of(table: hudi_catalog.Table) -> list[tuple]:
    return sorted(tuple(each.values()) for each in table.scan(columns=table.columns.names).to_arrow().to_pylist())


def test_numbers_of_python_do_not_widen_the_table(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id int, seats int", record_key="id", buckets=1)
    table.upsert([{"id": 1, "seats": 5}])
    table.upsert(pd.DataFrame({"id": [2, 3], "seats": [7, None]}))
    assert table.columns == pa.schema([("id", pa.int32()), ("seats", pa.int32())])
    assert content_of(table)[0] == (1, 5)


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_columns_of_nulls_have_the_type_of_the_table_or_wait(tmp_path: Path, index: str, caplog) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id int, v string, tags array<int>", record_key="id", index=index)
    table.upsert([{"id": 1, "v": None, "tags": []}])
    table.upsert([{"id": 2, "v": None, "note": None}])
    assert "have no type: note left out" in caplog.text
    assert table.columns.names == ["id", "v", "tags"]
    table.upsert([{"id": 3, "note": "first"}])
    rows = table.scan(columns=["id", "v", "note"]).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": n, "v": None, "note": "first" if n == 3 else None} for n in (1, 2, 3)]
    untyped = hudi_catalog.create_table(tmp_path / "untyped", record_key="id", index=index)
    with pytest.raises(SchemaError, match="'note' has no type"):
        untyped.upsert([{"id": 1, "note": None}])


def test_no_rows_at_all(table: hudi_catalog.Table) -> None:
    for nothing in (
        [],
        rows(),
        iter([]),
        pd.DataFrame({"id": [], "part": []}).astype({"id": "int64", "part": "object"}),
    ):
        assert table.upsert(nothing).rows_inserted == 0
    assert content(table) == []


def test_buckets_by_the_first_write(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id")
    table.upsert([{"id": number} for number in range(3)])
    assert table.config.bucket_count == 1
    assert len(data_files(table)) == 1
    table.upsert([{"id": number} for number in range(1000)])
    assert (table.config.bucket_count, table.scan().count()) == (1, 1000)


@pytest.mark.slow
def test_the_record_index(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint, part string", record_key="id", index="RECORD_INDEX")
    table.upsert([{"id": number, "part": "a"} for number in range(10)])
    assert table.upsert([{"id": 3, "part": "b"}]).rows_updated == 1
    assert table.verify_index().is_right
    table.resize_index(3)
    assert table.verify_index().groups == 3
    assert table.bootstrap_index(groups=2).keys == 10
    assert table.delete([{"id": 3}]).rows_deleted == 1
    assert table.verify_index().is_right


def test_a_catalog_gives_tables_to_write(tmp_path: Path) -> None:
    hudi_catalog.create_table(tmp_path / "db" / "t", "id bigint, at timestamp", record_key="id", buckets=1)
    table = hudi_catalog.Catalog(str(tmp_path)).load("db.t", time_zone="UTC")
    table.upsert([{"id": 1, "at": dt.datetime(2026, 1, 31, 12)}])  # noqa: DTZ001
    assert table.scan(columns=["at"]).to_arrow().to_pylist() == [{"at": NOON}]


def test_arguments_that_are_none_are_left_out(tmp_path: Path) -> None:
    made = hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id", partition_by=None, ordering=None)
    assert (made.config.partition_fields, made.config.ordering_fields) == ((), ())
    for argument in ("record_key", "partition_by", "ordering"):
        names = {"record_key": "id", argument: 5}
        with pytest.raises(ArgumentError, match=f"{argument}=5: give the name of a column"):
            hudi_catalog.create_table(tmp_path / "u", "id bigint", **names)


def test_a_table_goes_to_another_process(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, at timestamp", record_key="id", buckets=1, time_zone="UTC"
    )
    table.upsert([{"id": 1}])
    assert table.scan().count() == 1  # at whose state it stays
    other = pickle.loads(pickle.dumps(table))  # our own
    noon = dt.datetime(2026, 1, 31, 12)  # noqa: DTZ001
    assert other.upsert([{"id": 1, "at": noon}, {"id": 2}]).rows_updated == 1
    assert (table.scan().count(), other.scan().count(), copy.copy(table).scan().count()) == (1, 2, 2)


@pytest.mark.parametrize(
    "values",
    [
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16], pa.binary(16))),
        pa.array(pd.period_range("2026-01", periods=1, freq="M")),
        pa.RunEndEncodedArray.from_arrays([1], [7]),
        pa.array([[None]], pa.list_(pa.month_day_nano_interval())),
        pa.array([Decimal(1200)], pa.decimal128(5, -2)),
    ],
    ids=str,
)
def test_types_that_tables_lack_are_refused_before_the_first_write(values: pa.Array, tmp_path: Path) -> None:
    made = hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id")
    with pytest.raises(SchemaError, match=r"column 'x': .* cast (or drop )?it"):
        made.upsert(pa.table({"id": [1], "x": values}))
    assert made.history() == []


def test_what_is_wrong_is_said(table: hudi_catalog.Table, tmp_path: Path) -> None:
    place = tmp_path / "other"
    with pytest.raises(TableExistsError):
        hudi_catalog.create_table(tmp_path / "t", COLUMNS, record_key="id", buckets=1)
    with pytest.raises(SchemaError, match=r"names 'idd'.*did you mean id"):
        hudi_catalog.create_table(place, COLUMNS, record_key="idd", buckets=1)
    with pytest.raises(SchemaError, match="Hudi tables cannot hold uint64"):
        hudi_catalog.create_table(place, pa.schema([("id", pa.uint64())]), record_key="id", buckets=1)
    with pytest.raises(SchemaError, match=r"no type 'bigin'"):
        hudi_catalog.create_table(place, "id bigin", record_key="id", buckets=1)
    with pytest.raises(OptionError, match=r"buckets"):
        hudi_catalog.create_table(place, COLUMNS, record_key="id", buckets=0)
    with pytest.raises(ArgumentError, match="options are a dict"):
        hudi_catalog.create_table(place, COLUMNS, record_key="id", buckets=1, options=["a"])
    for nothing in ("", [], None):
        with pytest.raises(ArgumentError, match="create_table needs record_key"):
            hudi_catalog.create_table(place, COLUMNS, record_key=nothing, buckets=1)
    assert not (place / ".hoodie").exists()
    with pytest.raises(TableNotFoundError):
        hudi_catalog.open_table(place)
    with pytest.warns(OptionWarning, match="hoodie.clean.polcy"):
        table.upsert(rows(row(1)), {"hoodie.clean.polcy": "x"})
    with pytest.raises(OptionError, match=r"hoodie.clean.automatic='maybe'"):
        table.upsert(rows(row(1)), {"hoodie.clean.automatic": "maybe"})
    with pytest.raises(RecordError, match="id"):
        table.upsert(rows(row(2), {**row(3), "id": None}))
    with pytest.raises(SchemaError, match=r"'price' is decimal.* in the table and string"):
        table.upsert([{"id": 1, "part": "a", "price": "cheap"}])
    with pytest.raises(SchemaError, match=r"'part'|'id'"):
        table.upsert([{"idd": 1}])
    with pytest.raises(ArgumentError, match=r"pyarrow.dataset.dataset\('rows.parquet'\)"):
        table.upsert(Path("rows.parquet"))
    assert content(table) == [row(1)]


@pytest.mark.slow
def test_two_processes_at_once(table: hudi_catalog.Table) -> None:
    uri = table.client.storage.uri
    code = (
        "import sys, hudi_catalog\n"
        "table = hudi_catalog.open_table(sys.argv[1])\n"
        # a busy machine lets one process conflict more often than the three times that are allowed otherwise
        "patient = {'hoodie.catalog.write.retries': '100'}\n"
        "for number in range(5):\n"
        "    table.upsert([{'id': number, 'part': 'p'}, {'id': int(sys.argv[2]) + number, 'part': 'p'}], patient)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, uri, str(start)], stderr=subprocess.PIPE) for start in (100, 200)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    table.refresh()
    expected = [*range(5), *range(100, 105), *range(200, 205)]
    assert [each["id"] for each in content(table)] == expected


def test_rows_of_the_table_itself_are_not_written_over_newer_ones(table: hudi_catalog.Table, monkeypatch) -> None:
    table.upsert(rows(row(1), row(2)))
    other = hudi_catalog.open_table(table.client.storage.uri)
    commit = WriteTransaction.commit
    prices = iter((7, None, 8, None, None))

    def meet(self, *arguments, **named) -> None:
        price = next(prices)
        if price is not None:
            other.upsert(rows(row(1, price=Decimal(price))))
        commit(self, *arguments, **named)

    monkeypatch.setattr(WriteTransaction, "commit", meet)
    with pytest.raises(ConflictError) as caught:
        table.upsert(table.scan())
    assert "read it again" in caught.value.__notes__[0]
    # done again with the rows that match then: the other writer changed the row meanwhile
    assert table.delete("price = 7").rows_deleted == 0
    assert content(table) == [row(1, price=Decimal(8)), row(2)]


def test_threads_of_one_process(table: hudi_catalog.Table) -> None:
    uri = table.client.storage.uri
    failures = []

    def write(start: int) -> None:
        try:
            hudi_catalog.open_table(uri).upsert([{"id": start + each, "part": "p"} for each in range(10)])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 100)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert table.refresh().scan().count() == 20


@pytest.mark.slow
def test_a_writer_that_was_killed(table: hudi_catalog.Table) -> None:
    table.upsert(rows(row(1)))
    code = (
        "import os, signal, sys, hudi_catalog\n"
        "from table_writer.commit.transaction import WriteTransaction\n"
        "WriteTransaction.commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "hudi_catalog.open_table(sys.argv[1]).upsert([{'id': 1, 'part': 'a'}, {'id': 2, 'part': 'b'}])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, table.client.storage.uri], check=False)
    assert done.returncode == -9
    assert content(table.refresh()) == [row(1)]
    folder = Path(table.client.storage.base)
    assert len(list(folder.glob("*/*.parquet"))) == 3  # the dead writer's two among them
    table.upsert(rows(row(3, "c")), {"hoodie.cleaner.policy.failed.writes": "EAGER"})
    assert len(list(folder.glob("*/*.parquet"))) == 2
    assert content(table) == [row(1), row(3, "c")]


def texts(rows_read: pa.Table) -> list[str]:
    return sorted(map(repr, rows_read.to_pylist()))


@pytest.mark.parametrize("name", ["v6_0150__bkt_hive", "v6_1200__bkt_datepart", "v6_1200__bkt_complex"])
def test_tables_of_apache(copied: Callable[..., str], golden: Callable[..., GoldenTable], name: str) -> None:
    options = {key: text for key, text in golden(name).write_options.items() if "sync" not in key}
    if "_0150_" in name:  # such tables do not say by which rule versions are merged
        options["hoodie.datasource.write.payload.class"] = "OverwriteWithLatestAvroPayload"
    table = hudi_catalog.open_table(copied(name), options=options)
    names = table.columns.names
    before = table.scan(columns=names).to_arrow()
    assert table.upsert(before.slice(0, 5)).rows_updated == 5
    after = table.scan(columns=names).to_arrow()
    assert texts(after) == texts(before)
    batches = HudiTableBuilder.from_base_uri(table.client.storage.uri).build().read()
    assert texts(pa.Table.from_batches(batches).select(names)) == texts(after)


def test_what_an_argument_leaves_out_an_option_may_say(tmp_path: Path) -> None:
    options = {"hoodie.datasource.write.partitionpath.field": "part", "hoodie.table.name": "shop"}
    schema = pa.schema({"id": pa.int64(), "part": pa.string(), "ts": pa.int64()})
    table = hudi_catalog.create_table(
        tmp_path / "orders",
        schema,
        record_key="id",
        buckets=1,
        options=options | {"hoodie.datasource.write.precombine.field": "ts"},
    )
    config = table.client.config
    assert (config.name, config.partition_fields, config.ordering_fields) == ("shop", ("part",), ("ts",))
    with pytest.raises(OptionError, match=r"partition_by='id' and the option .*partitionpath\.field='part'"):
        hudi_catalog.create_table(tmp_path / "b", schema, record_key="id", partition_by="id", options=options)


def test_an_empty_first_write_leaves_the_bucket_count_open(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    table = hudi_catalog.create_table(tmp_path / "t", schema, record_key="id")
    table.upsert(schema.empty_table())
    assert table.client.config.bucket_count is None
    rows = pa.table({"id": range(20_000), "text": [f"{i * 7919 % 20_011:0200d}" for i in range(20_000)]}, schema)
    table.upsert(rows, {"hoodie.parquet.max.file.size": 100_000})
    assert hudi_catalog.open_table(tmp_path / "t").client.config.bucket_count > 1
    assert table.scan().count() == 20_000


def test_options_of_the_buckets_hold_for_scans(copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_np_types")
    buckets = "hoodie.bucket.index.num.buckets"
    with_count = hudi_catalog.open_table(path, options={buckets: "4"})
    assert len(with_count.scan("id = 'k00001'").plan()) == 1
    assert "buckets can hold" in with_count.explain("id = 'k00001'")
    assert "there is a bucket" in with_count.explain("id = 'k00001'", options={buckets: "2"})
    plain = hudi_catalog.open_table(path)
    assert "give the scan hoodie.bucket.index.num.buckets" in plain.explain("id = 'k00001'")
