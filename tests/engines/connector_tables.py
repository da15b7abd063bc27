"""Tables of every type, and filters on them in Trino's SQL, for our connector."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog import Table
from hudi_catalog.trino.serve import ServingTrino
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable

NAN, INF = float("nan"), float("inf")
_NOON = dt.datetime(2026, 1, 31, 12)  # noqa: DTZ001
_MOMENTS = [_NOON, _NOON + dt.timedelta(microseconds=1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None]  # noqa: DTZ001
_DAYS = [dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 1, 31), None]
_STRUCT = pa.struct(
    [("a", pa.int32()), ("Bb", pa.list_(pa.decimal128(20, 3))), ("c", pa.struct([("x", pa.float64())]))]
)

#: By name: the type of a column, and values of it.
COLUMNS: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "i": (pa.int32(), [-(2**31), 2**31 - 1, 0, 7, None]),
    "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, 2**53 + 1, None]),
    "f": (pa.float32(), [0.0, -0.0, NAN, INF, -INF, 0.1, -2.7, 1e-45, None]),
    "d": (pa.float64(), [0.0, -0.0, NAN, INF, -INF, 1.1, 5e-324, None]),
    "short_dec": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.00"), Decimal("1.25"), None]),
    "dec15": (pa.decimal128(15, 0), [Decimal(10**15 - 1), Decimal(-5), None]),
    # decimals of more digits before or after the point leave a file without statistics
    "long_dec": (pa.decimal128(30, 15), [Decimal("-123456789012345.123456789012345"), Decimal("1E-15"), None]),
    "s": (pa.string(), ["", "a", "ab", "é", "😀", "\ue000", "x" * 3000, "it's", None]),
    "b": (pa.binary(), [b"", b"\x00", b"\xff\xfe", b"a" * 3000, None]),
    "day": (pa.date32(), _DAYS),
    "moment": (pa.timestamp("us", "UTC"), _MOMENTS),
    "st": (
        _STRUCT,
        [{"a": 1, "Bb": [Decimal("1.500"), None], "c": {"x": 0.5}}, {"a": None, "Bb": [], "c": None}, None],
    ),
    "arr": (pa.list_(pa.string()), [["a", None, ""], [], None]),
    "arr2": (pa.list_(pa.list_(pa.int64())), [[[1, 2], [], None], None]),
    "mp": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], [], None]),
    "mp_st": (pa.map_(pa.string(), pa.struct([("v", pa.timestamp("us", "UTC"))])), [[("k", {"v": _NOON})], None]),
}
ROWS = 600
FOLDERS = {"served_": "served#"}
"""The path has a character that Trino's locations cannot have: the service reads all files of the table."""
SCHEMA = "lake"
_NUMBERS = itertools.count()


class Lake:
    """A warehouse that Trino reads through our connector."""

    def __init__(self, engine: Engine, service: ServingTrino, folder: Path) -> None:
        self.engine = engine
        self.service = service
        self.folder = folder
        self.catalog = engine.connector_catalog(f"lake{next(_NUMBERS)}", service.port)

    def query(self, sql: str, **session: Any) -> list[tuple[Any, ...]]:
        return self.engine.query(sql, catalog=self.catalog, schema=SCHEMA, **session)

    def table(self, name: str) -> Table:
        return Table.open(str(self.folder / SCHEMA / FOLDERS.get(name, name)))

    def planned(self, table: str) -> dict[str, Any]:
        """The newest plan of a table."""
        return next(one for one in self.service.log.recent() if one.get("table") == f"{SCHEMA}.{table}")


def table_of_types(first: int = 0, rows: int = ROWS, seed: int = 1) -> pa.Table:
    """Rows of all types; few distinct values a range of ids, so that files often hold one value, or only nulls."""
    chance = random.Random(seed)
    ids = list(range(first, first + rows))
    columns: dict[str, Any] = {"id": pa.array(ids, pa.int64())}
    for name, (kind, values) in COLUMNS.items():
        column: list[Any] = []
        while len(column) < rows:
            some = chance.sample(values, min(len(values), chance.randint(1, 3)))
            column += [chance.choice(some) for _ in range(60)]
        columns[name] = pa.array(column[:rows], kind)
    columns["part"] = pa.array([f"p{one * 5 // ROWS % 5}" for one in ids])
    return pa.table(columns)


def options(name: str, **more: str) -> dict[str, str]:
    """Options of a table of these rows; keys of `more` have `_` for `.`."""
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.clean.automatic": "false",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def write_types(folder: Path, name: str, **more: str) -> LocalTable:
    """A table of these rows, a sixth of them upserted."""
    rows = table_of_types()
    table = LocalTable.create(str(folder / name), rows.schema, options(name, **more))
    table.write("insert", rows)
    table.write("upsert", table_of_types(200, 100, seed=2))
    return table


def literals(column: str) -> list[str]:
    """Values of a column in Trino's SQL, and some that no row has."""
    kind, values = COLUMNS[column]
    return [_literal(value, kind) for value in values if value is not None] + _STRAY.get(column, [])


_STRAY = {
    "i": ["8", "-1"],
    "l": ["3", "9007199254740992"],
    "d": ["DOUBLE '0.5'", "DOUBLE '-1e300'"],
    "short_dec": ["DECIMAL '1.250'", "DECIMAL '1.255'", "1"],
    "s": ["'aa'", "'zzz'", "'x'"],
    "day": ["DATE '2026-02-01'", "TIMESTAMP '2026-01-31 00:00:00.5'"],
    "moment": ["TIMESTAMP '2026-01-31 13:00:00 +01:00'", "TIMESTAMP '2026-01-31 12:00:00.0000005 UTC'"],
}


def _literal(value: Any, kind: Any) -> str:
    types = pa.types
    if types.is_boolean(kind):
        return str(value).lower()
    if types.is_floating(kind):
        text = {repr(NAN): "nan()", repr(INF): "infinity()", repr(-INF): "-infinity()"}.get(repr(value))
        name = "REAL" if types.is_float32(kind) else "DOUBLE"
        return f"CAST({text} AS {name})" if text else f"{name} '{value!r}'"
    if types.is_decimal(kind):
        return f"DECIMAL '{value:f}'"
    if types.is_string(kind):
        return "'" + value.replace("'", "''") + "'"
    if types.is_binary(kind):
        return f"X'{value.hex()}'"
    if types.is_date(kind):
        return f"DATE '{value}'"
    if types.is_timestamp(kind):
        return f"TIMESTAMP '{value.isoformat(' ', 'microseconds')}{' UTC' if kind.tz else ''}'"
    return f"BIGINT '{value}'" if value < -(2**31) else str(value)


def filters(seed: int = 3) -> Iterator[str]:
    """Filters on every column but nested ones, for ever."""
    chance = random.Random(seed)
    names = [name for name, (kind, _) in COLUMNS.items() if not pa.types.is_nested(kind)]
    while True:
        yield _drawn(chance, names, 2)


def _drawn(chance: random.Random, names: list[str], depth: int) -> str:
    choice = chance.random()
    if depth == 0 or choice < 0.5:
        return _leaf(chance, chance.choice(names))
    both = _drawn(chance, names, depth - 1), _drawn(chance, names, depth - 1)
    if choice < 0.7:
        return f"({both[0]} AND {both[1]})"
    return f"({both[0]} OR {both[1]})" if choice < 0.9 else f"NOT ({both[0]})"


def _leaf(chance: random.Random, name: str) -> str:
    values = literals(name)
    one, two, three = (chance.choice(values) for _ in range(3))
    # Trino itself has NaN in a list or not, as it evaluates the list
    listed = ", ".join(value for value in (one, two, three) if "nan" not in value) or "NULL"
    forms: list[Callable[[], str]] = [
        lambda: f"{name} {chance.choice(('=', '<>', '<', '<=', '>', '>='))} {one}",
        lambda: f"{name} IN ({listed})",
        lambda: f"{name} NOT IN ({listed})",
        lambda: f"{name} BETWEEN {one} AND {two}",
        lambda: f"{name} IS NULL",
        lambda: f"{name} IS NOT NULL",
        lambda: f"{name} IS DISTINCT FROM {one}",
        lambda: f"{name} = {one} OR {name} > {two} OR {name} IS NULL",
        lambda: f"(part = 'p{chance.randrange(6)}' AND {name} <= {one})",
    ]
    return chance.choice(forms)()
