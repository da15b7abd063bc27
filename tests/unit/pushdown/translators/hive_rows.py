"""The two tables over which Hive 4.0.1 answered the filters of the fixtures."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

_FIRST = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def hive_table(number: int) -> pa.Table:
    return _first() if number == 1 else _second()


def _first() -> pa.Table:
    ids = range(300)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([i % 7 for i in ids], pa.int32()),
            "name": [None if i % 10 == 7 else f"n{i:03}" for i in ids],
            "dt": [_FIRST.date() + dt.timedelta(days=i) for i in ids],
            "ts": pa.array([_FIRST + dt.timedelta(hours=i) for i in ids], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(i) / 4 for i in ids], pa.decimal128(10, 2)),
            "x": [i * 1.5 for i in ids],
            "b": [i % 2 == 0 for i in ids],
        }
    )


def _second() -> pa.Table:
    ids = range(20)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "i": pa.array(ids, pa.int32()),
            "si": pa.array(ids, pa.int32()),
            "ti": pa.array(ids, pa.int32()),
            "f": pa.array([i / 10 for i in ids], pa.float32()),
            "v": [f"v{i:02}" for i in ids],
            # Writers that know char pad it, others do not.
            "c": [f"c{i:02}" + "  " * (i % 2) for i in ids],
            "bin": [b"b%02d" % i for i in ids],
            "s": [{"a": i, "b": f"s{i}"} for i in ids],
            "tsu": pa.array([_FIRST + dt.timedelta(hours=i) for i in ids], pa.timestamp("us", "UTC")),
            "dec": pa.array([Decimal(i) / 8 for i in ids], pa.decimal128(20, 5)),
        }
    )
