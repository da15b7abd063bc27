"""What a scan gives: batches, pandas, DuckDB, counts."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from catalog import Table, scan
from catalog.rows import slice_rows
from pushdown import InexactFilterError, RowCastError
from table_format.errors import MissingPackageError
from tests.support.catalog_tables import NAMES
from tests.unit.conftest import GoldenTable


@pytest.mark.parametrize("name", NAMES)
def test_counts(golden: Callable[[str], GoldenTable], name: str) -> None:
    golden_table = golden(name)
    assert golden_table.open().scan().count() == len(golden_table.rows)


def test_counts_of_filters(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_hive").open()
    for condition in (
        "part = 'eu'",
        "part = 'eu' AND id > 'k00010'",
        "id IS NULL",
        "b",
        "NOT b OR part IS NULL",
        "upper(id) < 'K01' OR i % 7 = 0",
    ):
        scan = table.scan(condition)
        assert scan.count() == scan.to_arrow().num_rows
    with pytest.raises(InexactFilterError):
        table.scan("soundex(id) = 'A'").count()


def test_values_that_cannot_be_cast_are_errors_that_name_the_file(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_hive").open()
    scan = table.scan("id > 5 AND part = 'eu'")
    assert len(scan.plan()) > 0
    for ask in (scan.to_arrow, scan.count):
        with pytest.raises(RowCastError, match=r"part=eu/\S+\.parquet: column id holds 'k\d+'.*TRY_CAST\(id AS"):
            ask()
    assert table.scan("TRY_CAST(id AS BIGINT) > 5").count() == 0
    assert table.scan("substring(id, 1, 1) = 'k' OR id > 5").count() == table.scan("id IS NOT NULL").count()


def test_whole_files_are_counted_without_reading_rows(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_table = golden("v6_0150__bkt_hive")
    with mock.patch.object(slice_rows, "read_base_file", side_effect=AssertionError("rows were read")):
        assert golden_table.open().scan().count() == len(golden_table.rows)
        in_eu = sum(row["part"] == "eu" for row in golden_table.rows)
        assert golden_table.open().scan("part = 'eu'").count() == in_eu > 0
    # many files are counted by the index, without their footers
    monkeypatch.setattr(scan, "_FEW_FILES", 0)
    with mock.patch.object(scan, "footer", side_effect=AssertionError("a footer was read")):
        assert golden_table.open().scan().count() == len(golden_table.rows)


def test_a_reader_streams(golden: Callable[[str], GoldenTable]) -> None:
    scan = golden("v6_0150__bkt_hive").open().scan("part = 'eu'", ["id", "part"])
    reader = scan.to_batch_reader()
    assert reader.schema == scan.schema
    assert reader.read_all().equals(scan.to_arrow())


def test_reading_ahead_is_bounded_and_stops(golden: Callable[[str], GoldenTable]) -> None:
    opened: list[Any] = []
    wrapped = slice_rows.read_base_file

    def counted(*arguments: Any, **named: Any) -> pa.Table:
        opened.append(arguments)
        return wrapped(*arguments, **named)

    with mock.patch.object(slice_rows, "read_base_file", counted):
        batches = golden("v6_0150__bkt_hive").open().scan(options={"hoodie.catalog.scan.threads": "2"}).to_batches()
        next(iter(batches))
        batches.close()  # type: ignore[attr-defined]
    assert len(opened) <= 4


def test_pandas(golden: Callable[[str], GoldenTable]) -> None:
    frame = golden("v6_0150__bkt_hive").open().scan("part = 'eu'", ["id", "part"]).to_pandas()
    assert list(frame.columns) == ["id", "part"]
    assert set(frame["part"]) == {"eu"}


def test_duckdb(golden: Callable[[str], GoldenTable]) -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    scan = golden("v6_0150__bkt_hive").open().scan(columns=["id", "part"])
    count = len(golden("v6_0150__bkt_hive").rows)
    assert scan.to_duckdb().execute("SELECT count(*) FROM hudi").fetchone() == (count,)
    connection = duckdb.connect(":memory:")
    assert scan.to_duckdb("flights", connection) is connection
    assert connection.execute("SELECT count(DISTINCT id) FROM flights WHERE part = 'eu'").fetchone()[0] > 0
    with (
        mock.patch("importlib.import_module", side_effect=ImportError),
        pytest.raises(MissingPackageError, match="pip install duckdb"),
    ):
        scan.to_duckdb()


def test_names_that_differ_in_case(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_hive").open()
    assert table.scan("PART = 'eu'").count() == table.scan("part = 'eu'").count()
    with pytest.raises(Exception, match="no column PART"):
        table.scan("PART = 'eu'", case_sensitive=True)


def test_the_zone_of_clock_times(golden: Callable[[str], GoldenTable]) -> None:
    table: Table = golden("v6_0150__bkt_hive").open()
    at = "tm >= '2036-08-19 00:40:41.858664'"
    first, second = (str(table.scan(at, time_zone=zone).expression) for zone in ("UTC", "America/Los_Angeles"))
    assert first != second
