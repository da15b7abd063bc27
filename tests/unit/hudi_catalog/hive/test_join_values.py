"""Values that one side of a join has under constant conditions, as the service tells the storage handler."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.hive import join_values as module
from tests.support.hive_client import Asking, RefusedError, tree
from tests.support.local_writes import LocalTable

SCHEMA = pa.schema([("Day", pa.int64()), ("month", pa.string()), ("on", pa.date32()), ("worth", pa.float64())])
FIRST = dt.date(1970, 1, 1)


def days(numbers: Sequence[int], month: str | None = None) -> pa.Table:
    return pa.table(
        {
            "Day": pa.array(numbers, pa.int64()),
            "month": [month or f"m{number // 10}" for number in numbers],
            "on": [None if number % 10 == 9 else FIRST + dt.timedelta(number) for number in numbers],
            "worth": [float(number) for number in numbers],
        },
        SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> LocalTable:
    options = {
        "hoodie.table.name": "days",
        "hoodie.datasource.write.recordkey.field": "Day",
        "hoodie.bucket.index.num.buckets": "2",
    }
    table = LocalTable.create(str(tmp_path / "warehouse" / "days"), SCHEMA, options)
    table.write("insert", days(range(60)))
    return table


@pytest.fixture
def asking(table: LocalTable, tmp_path: Path) -> Asking:
    return Asking(tmp_path / "warehouse")


def values(asking: Asking, column: str, **fields: Any) -> set[str] | None:
    fields.setdefault("filter", tree("OPEqual", "month", "string", "m2"))
    reply = asking.ask("values", asking.request("days", columns=[column], **fields))
    assert reply.version == 3
    if reply.values is None:
        return None
    assert len(set(reply.values)) == len(reply.values)
    return set(reply.values)


def test_values_are_those_of_matching_rows(asking: Asking) -> None:
    assert values(asking, "day") == {str(day) for day in range(20, 30)}
    assert values(asking, "on") == {str(FIRST + dt.timedelta(day)) for day in range(20, 29)}, "and no null"
    assert values(asking, "month", filter=None) == {f"m{month}" for month in range(6)}
    assert values(asking, "day", filter=tree("OPEqual", "month", "string", "never")) == set()


def test_values_are_those_of_the_pinned_snapshot(asking: Asking, table: LocalTable) -> None:
    pin = asking.pin("days", query="one")
    table.write("upsert", days([59], "m2"))
    for _ in range(2):
        assert values(asking, "day", query="one", pin=pin) == {str(day) for day in range(20, 30)}
        assert values(asking, "day", query="two") == {str(day) for day in (*range(20, 30), 59)}


def test_a_part_that_is_not_understood_leaves_more_values(asking: Asking) -> None:
    unknown = '{"f": "NobodysFunction", "t": "boolean", "a": [{"c": "day", "t": "bigint"}]}'
    both = '{"f": "GenericUDFOPAnd", "t": "boolean", "a": [%s, %s]}'
    days_of_month = values(asking, "day", filter=both % (unknown, tree("OPEqual", "month", "string", "m2")))
    assert days_of_month == {str(day) for day in range(20, 30)}
    assert values(asking, "day", filter=unknown) == {str(day) for day in range(60)}


def test_what_is_not_told(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    assert values(asking, "worth", filter=None) is None, "floats have no texts that mean them"
    assert values(asking, "elsewhere", filter=None) is None
    monkeypatch.setattr(module, "MOST_VALUES", 9)
    assert values(asking, "day") is None
    assert values(asking, "month") == {"m2"}
    monkeypatch.setattr(module, "MOST_BYTES", Table.open(f"{asking.warehouse}/days").snapshot().live_bytes - 1)
    assert values(asking, "month", filter=None) is None


@pytest.mark.parametrize("other", ["1400-01-01", "1582-10-20", "0001-01-01"])
def test_dates_that_hive_may_read_as_others(asking: Asking, table: LocalTable, other: str) -> None:
    row = days([70], "m2").set_column(2, "on", pa.array([dt.date.fromisoformat(other)]))
    table.write("insert", row)
    assert values(asking, "on") is None
    assert values(asking, "day") == {str(day) for day in (*range(20, 30), 70)}
    assert values(asking, "on", filter=tree("OPEqual", "month", "string", "m1")) is not None


@pytest.mark.parametrize("number", [2_932_897, -719_163])
def test_dates_beyond_those_of_python(asking: Asking, table: LocalTable, number: int) -> None:
    row = days([70], "m2").set_column(2, "on", pa.array([number], pa.int32()).cast(pa.date32()))
    table.write("insert", row)
    assert values(asking, "on") is None


def test_values_are_of_one_column(asking: Asking) -> None:
    for columns in (None, [], ["day", "month"]):
        with pytest.raises(RefusedError, match="values are those of one column"):
            asking.ask("values", asking.request("days", columns=columns))
