"""A table with a column of every type that Spark filters, in files that each hold few neighbouring values."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.support.local_writes import LocalTable

ROW = "row_number"
FILES, ROWS = 8, 12
#: columns that Hudi has no type for: there they are another or refused
NOT_IN_HUDI = ("i8", "i16", "clock")
NAN, INF = float("nan"), float("inf")
_DAY = 86_400_000_000

_FLOATS = [-INF, -3.4028234663852886e38, -1.5, -0.0, 0.0, 0.5, 1.0, 1.100000023841858, 1.5, 2.0, 127.0, 16777216.0]
_FLOATS += [16777218.0, 3.4028234663852886e38, INF, NAN]
_DOUBLES = [-INF, -1.7976931348623157e308, -1.5, -0.0, 0.0, 5e-324, 0.1, 0.5, 1.0, 1.1, 1.100000023841858, 1.5, 2.0]
_DOUBLES += [127.0, 16777217.0, 9007199254740992.0, 9.223372036854776e18, 1e300, INF, NAN]
# 0001-01-01, the days around the change of calendars, a leap day, 9999-12-31
_DATES = [-719162, -171499, -141428, -141427, -141426, -1, 0, 1, 10956, 18320, 18321, 18322, 2932896]
_TIMES = [day * _DAY for day in (-719162, -141427, -1, 0, 18321, 18322)]
_TIMES += [-171499 * _DAY + 1, 18321 * _DAY - 1, 18321 * _DAY + 43_200_000_000, 18321 * _DAY + 43_200_500_000, 1]
_TIMES += [1583631000000000, 1583650800000000, 1604206800000000, 1604212200000000, 2932896 * _DAY + _DAY - 1]


def _decimals(precision: int, scale: int, *more: str) -> list[Decimal]:
    most, unit = Decimal(f"{'9' * precision}E-{scale}"), Decimal(f"1E-{scale}")
    every = [most, most.copy_negate(), unit, unit.copy_negate(), Decimal(f"0E-{scale}"), *map(Decimal, more)]
    return sorted(every)


COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [False, True]),
    "i8": (pa.int8(), [-128, -1, 0, 1, 2, 5, 126, 127]),
    "i16": (pa.int16(), [-(2**15), -129, -1, 0, 1, 2, 5, 128, 2**15 - 1]),
    "i32": (pa.int32(), [-(2**31), -32769, -1, 0, 1, 2, 5, 127, 20200229, 16777217, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), -(2**31) - 1, -1, 0, 1, 2, 2**31, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1]),
    "f32": (pa.float32(), _FLOATS),
    "f64": (pa.float64(), _DOUBLES),
    "d5_0": (pa.decimal128(5, 0), _decimals(5, 0, "1", "2", "127", "128")),
    "d3_3": (pa.decimal128(3, 3), _decimals(3, 3, "0.500", "0.499", "0.100")),
    "d10_3": (pa.decimal128(10, 3), _decimals(10, 3, "1.499", "1.500", "1.100", "1.000", "2.000", "2.500", "-1.500")),
    "d18_9": (pa.decimal128(18, 9), _decimals(18, 9, "1.1", "1.5", "1.499999999", "1", "127")),
    "d20_0": (pa.decimal128(20, 0), _decimals(20, 0, "1", "9223372036854775807", "9223372036854775808")),
    "d38_0": (pa.decimal128(38, 0), _decimals(38, 0, "2", "1E15", "18446744073709551616", "9007199254740993")),
    "d38_6": (pa.decimal128(38, 6), _decimals(38, 6, "1.1", "1.5", "1.499999", "1", "0.123456", "0.123457")),
    "d38_30": (pa.decimal128(38, 30), _decimals(38, 30, "1.1", "1.5", "1.499999999999999999999999999999", "1")),
    "d38_38": (pa.decimal128(38, 38), _decimals(38, 38, "0.5", "0.1", "0.1234567890123456789012345678901234567")),
    "text": (
        pa.string(),
        [
            "",
            " ",
            "1",
            "10",
            "2",
            "A",
            "a",
            "a%b",
            "a\\b",
            "a_b",
            "ab",
            "abc",
            "b",
            "true",
            "ä",
            "\ue000",
            "😀",
            "x" * 40,
        ],
    ),
    "wholes": (
        pa.string(),
        [
            "-1",
            "-9223372036854775808",
            "0",
            "-0",
            "+1",
            " 1",
            "01",
            "1",
            "1\t",
            "10",
            "127",
            "128",
            "2",
            "20200229",
            "9007199254740993",
            "9223372036854775807",
        ],
    ),
    "numbers": (
        pa.string(),
        [
            "-0.0",
            "-1.5",
            ".5",
            "0",
            "0.50",
            "1",
            "1.",
            "1.0",
            "1.1",
            "1.5",
            "1e0",
            "1E300",
            "1.5d",
            "2",
            "16777217",
            "1.10",
            "9007199254740993",
            "127",
            "NaN",
            "Infinity",
            "-inf",
            " 1.5 ",
            "4.9e-324",
            "1e400",
        ],
    ),
    "days": (
        pa.string(),
        [
            "0001-01-01",
            "1500-02-28",
            "1582-10-04",
            "1582-10-15",
            "1970-01-01",
            "2000-2-9",
            "2020",
            "2020-02",
            "2020-2-29",
            "2020-02-29",
            " 2020-02-29 ",
            "2020-02-29 10:11",
            "2020-02-29T",
            "2020-03-01",
            "9999-12-31",
        ],
    ),
    "moments": (
        pa.string(),
        [
            "0001-01-01",
            "1500-06-01 00:00:00.000001",
            "1969-12-31 23:59:59.999999",
            "1970-01-01 00:00:00",
            "2020",
            "2020-02",
            "2020-02-29",
            "2020-02-29 12:00:00",
            "2020-02-29T12:00:00Z",
            "2020-2-29 12:0:0.5",
            "2020-02-29 12:00:00.5+02:00",
            "2020-02-29 12:00:00 UTC",
            "2020-02-29 12:00",
            "2020-03-01 00:00:00.123456789",
        ],
    ),
    "truths": (pa.string(), ["0", "1", " true ", "F", "False", "N", "TRUE", "Yes", "false", "no", "t", "true", "y"]),
    "day": (pa.date32(), _DATES),
    "at": (pa.timestamp("us", "UTC"), _TIMES),
    "clock": (pa.timestamp("us"), _TIMES),
    "raw": (pa.binary(), [b"", b"\x00", b"1", b"a", b"a\x00", b"ab", b"abc", b"\x7f", b"\x80", b"\xff", "ä".encode()]),
}


def rows(kinds: dict[str, pa.DataType] | None = None) -> pa.Table:
    """The rows, those of one file after those of another.

    Args:
        kinds: types that the table gives some columns instead of their own.
    """
    chance = random.Random(20)
    columns: dict[str, Any] = {"part": [f"p{at // ROWS}" for at in range(FILES * ROWS)]}
    columns[ROW] = pa.array(range(FILES * ROWS), pa.int32())
    for name, (own, pool) in COLUMNS.items():
        kind = (kinds or {}).get(name, own)
        values: list[Any] = []
        for file in range(FILES):
            start = file * max(0, len(pool) - 3) // (FILES - 1)
            some = [*pool[start : start + chance.choice([1, 2, 4])], *[None] * chance.choice([0, 0, 1])]
            values += [chance.choice(some) for _ in range(ROWS)] if file != FILES // 2 else [None] * ROWS
        if name in {"f32", "f64"}:  # NaN and both zeros beside small numbers
            values[ROWS : ROWS + 4] = [NAN, -0.0, 0.0, 1.0]
        # Values that no window holds stand in the last file.
        values[-len(pool) :] = pool if len(pool) < ROWS else values[-len(pool) :]
        columns[name] = _array(values, own).cast(kind)
    return pa.table(columns)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def write_table(path: str) -> None:
    """The rows as a Hudi table, a file for each partition, statistics of all columns in its metadata table."""
    options = {
        "hoodie.table.name": "spark_rows",
        "hoodie.datasource.write.recordkey.field": ROW,
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    table = rows().drop_columns(list(NOT_IN_HUDI))
    LocalTable.create(path, table.schema, options).write("bulk_insert", table)
