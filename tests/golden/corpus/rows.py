"""Rows of the tables of the corpus, the same in each run: with nulls, texts beyond ASCII and edges of each type."""

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

#: Tables whose lists Avro's writer makes of two levels, which have no null elements.
LISTS_OF_TWO_LEVELS = ("bkt_np_types", "bkt_np_bulk")

SMALL = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("x", pa.float64()), ("name", pa.string()), ("n", pa.int32())]
)
WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("dec", pa.decimal128(12, 3)),
        ("dec18", pa.decimal128(18, 0)),
        ("dec_big", pa.decimal128(30, 6)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("tm", pa.timestamp("us", tz="UTC")),
        ("bin", pa.binary()),
    ]
)
_INNER = pa.struct([("x", pa.float64()), ("y", pa.date32())])
NESTED = pa.schema(
    [
        *WIDE,
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", _INNER)])),
        ("arr", pa.list_(pa.string())),
        ("arr_st", pa.list_(pa.struct([("k", pa.int32()), ("v", pa.string())]))),
        ("mp", pa.map_(pa.string(), pa.int64())),
        ("all_null", pa.string()),
    ]
)
EDGES = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("dec", pa.decimal128(30, 15)),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("tm", pa.timestamp("us", tz="UTC")),
        ("st", pa.struct([("a", pa.int32()), ("n", pa.struct([("z", pa.string())]))])),
    ]
)

_LETTERS = "abcdefghz_- A0" + "éßжΩ한ｱ𝒳🙂�日"
#: Values at the ends of each type, by column of `EDGES`; numbers of rows choose among them.
_AT_THE_EDGE: dict[str, list[Any]] = {
    "f": [math.nan, math.inf, -math.inf, -0.0, 0.0, 3.4e38, 1.4e-45, None],
    "d": [1e308, math.nan, -1e308, math.inf, -0.0, 5e-324, None],
    "i": [2**31 - 1, -(2**31), None, 0],
    "l": [2**63 - 1, -(2**63), 0, None, -1],
    "dec": [Decimal("999999999999999.999999999999999"), Decimal(-999999999999999), None, Decimal(0)],
    "s": ["ｱ", "𝄞", "\uffff", "x" * 1200, "", None, "zebra"],
    "bin": [b"", b"\x7f", b"\x80\xff", None, b"\x00" * 70],
    "b": [True, False, None],
    "dt": [dt.date(9999, 12, 31), dt.date(1901, 1, 1), dt.date(1970, 1, 1), None],
    "tm": [dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(1901, 1, 1, tzinfo=dt.UTC), None],
    "st": [{"a": 1, "n": {"z": "q"}}, None, {"a": None, "n": None}],
}


class Rows:
    """Makes the rows of one table.

    Args:
        name: of the table, which chooses the values.
        schema: of the rows.
        fixed: by column, the value for a row's number.
    """

    def __init__(self, name: str, schema: pa.Schema, fixed: Mapping[str, Callable[[int], Any]] | None = None) -> None:
        self.schema = schema
        self._chance = random.Random(name)
        self._fixed = dict(fixed or {})
        self._nulls_in_lists = name not in LISTS_OF_TWO_LEVELS

    def __call__(self, numbers: Iterable[int], ts: int) -> list[Row]:
        """Rows by number; the same number is the same key."""
        return [self._row(number, ts) for number in numbers]

    def some(self, numbers: Iterable[int], count: int) -> list[int]:
        """Numbers by chance, in order."""
        return sorted(self._chance.sample(list(numbers), count))

    def _row(self, number: int, ts: int) -> Row:
        row: Row = {}
        for column in self.schema:
            if column.name in self._fixed:
                row[column.name] = self._fixed[column.name](number)
            elif column.name == "id":
                row["id"] = key_text(number)
            elif column.name == "ts":
                row["ts"] = ts
            elif column.name == "all_null" or self._chance.random() < 0.08:
                row[column.name] = None
            else:
                row[column.name] = self._value(column.type)
        return row

    def _value(self, kind: pa.DataType) -> Any:
        chance = self._chance
        if pa.types.is_string(kind):
            return "".join(chance.choices(_LETTERS, k=chance.randrange(13)))
        if pa.types.is_boolean(kind):
            return chance.random() < 0.5
        if pa.types.is_integer(kind):
            if chance.random() < 0.3:
                return chance.randrange(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
            return chance.randrange(-100, 1000 if kind.bit_width == 32 else 10**12)
        if pa.types.is_float32(kind):
            return chance.uniform(-1e4, 1e4)
        if pa.types.is_floating(kind):
            return chance.uniform(-1e9, 1e9)
        if pa.types.is_decimal(kind):
            # the statistics of 0.15.0 hold 15 digits on each side of the point
            digits = chance.randrange(4, min(kind.precision, kind.scale + 15))
            return Decimal(chance.randrange(-(10**digits), 10**digits)).scaleb(-kind.scale)
        if pa.types.is_date(kind):
            return dt.date(1900, 1, 1) + dt.timedelta(days=chance.randrange(70_000))
        if pa.types.is_timestamp(kind):
            return dt.datetime(1950, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=chance.randrange(38 * 10**14))
        if pa.types.is_binary(kind):
            return chance.randbytes(chance.randrange(9))
        return self._nested(kind)

    def _nested(self, kind: pa.DataType) -> Any:
        if pa.types.is_struct(kind):
            return {field.name: self._value_or_null(field.type) for field in kind}
        if pa.types.is_map(kind):
            keys = ["k0", "k1é", "k2"][: self._chance.randrange(4)]
            return [(key, self._value_or_null(kind.item_type)) for key in keys]
        element = self._value_or_null if self._nulls_in_lists else self._value
        return [element(kind.value_type) for _ in range(self._chance.randrange(4))]

    def _value_or_null(self, kind: pa.DataType) -> Any:
        return None if self._chance.random() < 0.15 else self._value(kind)


def edge_rows(numbers: Iterable[int], ts: int) -> list[Row]:
    """Rows of `EDGES`; each column goes through its values at another pace."""
    made = []
    for number in numbers:
        values = {name: choices[(number + 3 * ts) % len(choices)] for name, choices in _AT_THE_EDGE.items()}
        made.append({"id": key_text(number), "ts": ts, **values})
    return made


def key_text(number: int) -> str:
    """A record key: every sixth ends with a letter beyond ASCII."""
    return f"k{number:05d}" + ("é", "", "", "ж", "", "")[number % 6]
