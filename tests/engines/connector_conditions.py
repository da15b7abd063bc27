"""A table whose files have narrow ranges, and conditions on it that are no ranges of columns, in Trino's SQL."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.engines.connector_tables import options
from tests.support.local_writes import LocalTable

FILES = 24
_EACH = 25
_WORDS = ["apple", "Apricot", "banana", "Beet", "cherry", "citrus", "éclair", "a%b", "under_score", "İstanbul", ""]
_POINT = pa.struct([("a", pa.int32()), ("B", pa.string()), ("c", pa.struct([("x", pa.int64())]))])
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("id", pa.int64()),
    ("part", pa.string()),
    ("flag", pa.bool_()),
    ("i", pa.int32()),
    ("j", pa.int32()),
    ("l", pa.int64()),
    ("d", pa.float64()),
    ("dec", pa.decimal128(9, 2)),
    ("s", pa.string()),
    ("t", pa.string()),
    ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")),
    ("clock", pa.timestamp("us", "UTC")),
    ("st", _POINT),
]
_SCHEMA = pa.schema(_COLUMNS)


def rows_of_ranges(seed: int = 5) -> pa.Table:
    """Rows whose values lie close together in each file; some files hold nulls alone."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    start = dt.datetime(2019, 11, 3, 23)  # noqa: DTZ001
    for file in range(FILES):
        centre = chance.randint(-400, 400)
        moment = start + dt.timedelta(hours=chance.randint(0, 40_000))
        words = chance.sample(_WORDS, 2)
        empty = {name for name in _SCHEMA.names[2:] if chance.random() < 0.12}
        for number in range(_EACH):
            near = centre + chance.randint(0, 12)
            clock = moment + dt.timedelta(minutes=chance.randint(0, 600), microseconds=chance.choice([0, 1, 999_999]))
            row: dict[str, Any] = {
                "id": file * _EACH + number,
                "part": f"p{file:02}",
                "flag": centre > 0,
                "i": near,
                "j": near + chance.randint(-3, 3) * (file % 3),
                "l": near * 1_000_000_007,
                "d": chance.choice([near / 4, float("nan"), near * 1e10]) if file % 4 == 0 else near / 4,
                "dec": Decimal(near) / 8 // Decimal("0.01") * Decimal("0.01"),
                "s": chance.choice(words) + chance.choice(["", "1", "X"]),
                "t": " " * (file % 3) + words[0].upper(),
                "day": clock.date(),
                "at": clock.replace(tzinfo=dt.UTC),
                "clock": clock.replace(tzinfo=dt.UTC),
                "st": {"a": near, "B": chance.choice(words), "c": {"x": near * 2}},
            }
            nulls = {name for name in _SCHEMA.names[2:] if chance.random() < 0.05}
            rows.append({name: None if name in empty | nulls else value for name, value in row.items()})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def write_ranges(folder: Path, name: str) -> LocalTable:
    """A table of these rows, a file a partition."""
    table = LocalTable.create(str(folder), _SCHEMA, options(name, hoodie_bucket_index_num_buckets="1"))
    table.write("insert", rows_of_ranges())
    return table


def conditions(seed: int) -> Iterator[str]:
    """Conditions, for ever."""
    chance = random.Random(seed)
    while True:
        yield _drawn(chance, 2)


def _drawn(chance: random.Random, depth: int) -> str:
    choice = chance.random()
    if depth == 0 or choice < 0.45:
        return _leaf(chance)
    parts = _drawn(chance, depth - 1), _drawn(chance, depth - 1)
    return f"({parts[0]} OR {parts[1]})" if choice < 0.8 else f"NOT ({parts[0]} AND {parts[1]})"


def _leaf(chance: random.Random) -> str:
    op = chance.choice(("=", "<>", "<", "<=", ">", ">="))
    n, m = chance.randint(-400, 400), chance.randint(2, 9)
    word = chance.choice(_WORDS)
    text = word.replace("'", "''")
    day = dt.date(2019, 11, 1) + dt.timedelta(days=chance.randint(0, 1700))
    zone = chance.choice(("America/New_York", "UTC", "Asia/Kolkata"))
    forms = [
        f"i + {m} {op} {n}",
        f"i * {m} {op} {n * m}",
        f"{n} - i {op} {m}",
        f"-i {op} {n}",
        f"abs(i) {op} {abs(n)}",
        f"i / {m} {op} {n // m}",
        f"i % {m} = {n % m}",
        f"mod(l, {m}) {op} {m // 2}",
        f"CAST(i AS bigint) * 3 {op} {n * 3}",
        f"CAST(i AS double) {op} {n}.5e0",
        f"CAST(i AS decimal(12, 3)) {op} DECIMAL '{n}.125'",
        f"CAST(l AS double) {op} {n * 1_000_000_007}e0",
        f"CAST(l AS integer) {op} {n}" if chance.random() < 0.2 else f"TRY_CAST(l AS integer) {op} {n}",
        f"CAST(i AS varchar) LIKE '{n}%'",
        f"d + 0.5e0 {op} {n / 4}e0",
        f"d * 2e0 {op} {n / 2}e0",
        f"abs(d) {op} {abs(n) / 4}e0",
        f"NOT (d {op} {n / 4}e0)",
        f"NOT (d {op} {n / 4}e0 OR i = {n})",
        f"floor(d) {op} {n // 4}",
        f"dec + DECIMAL '1.25' {op} {n // 8}",
        f"dec * DECIMAL '2.5' {op} {n // 3}.25",
        f"dec % 3 {op} 1",
        f"dec / 2 {op} {n // 16}",
        f"floor(dec) {op} {n // 8}",
        f"ceil(dec) {op} {n // 8}",
        f"round(dec) {op} {n // 8}",
        f"CAST(dec AS integer) {op} {n // 8}",
        f"CAST(dec AS double) {op} {n / 8}e0",
        f"CAST(dec AS decimal(8, 1)) {op} {n // 8}.5",
        f"upper(s) {op} '{text.upper()}'",
        f"lower(s) {op} '{text.lower()}'",
        f"lower(s) LIKE '{text[:2].lower()}%'",
        f"s LIKE '%{text[1:3]}%'",
        f"s LIKE '{text[:1]}_%'",
        "s LIKE 'a\\%%' ESCAPE '\\'",
        f"s NOT LIKE '%{text[-1:]}'",
        f"starts_with(s, '{text[:2]}')",
        f"substring(s, 1, 2) {op} '{text[:2]}'",
        f"substr(s, 2) {op} '{text[1:]}'",
        f"substring(s, 2, 3) IN ('{text[1:4]}', 'zz')",
        f"length(s) {op} {m}",
        f"trim(t) {op} '{text.upper()}'",
        f"ltrim(t) = '{text.upper()}'",
        f"rtrim(t) = ' {text.upper()}'",
        f"reverse(s) {op} '{text[::-1]}'",
        f"replace(s, 'a', 'b') = '{text.replace('a', 'b')}'",
        f"strpos(s, '{text[1:2]}') {op} 2",
        f"regexp_like(s, '^{text[:1] if text[:1].isalpha() else 'a'}')",
        f"s || t {op} '{text}'",
        f"s || 'X' = '{text}X'",
        f"CAST(s AS varchar(2)) {op} '{text[:2]}'",
        f"CAST(s AS char(3)) {op} '{text[:2]}'",
        f"year(day) {op} {day.year}",
        f"month(day) {op} {day.month}",
        f"day_of_month(clock) {op} {day.day}",
        f"quarter(at) = {(day.month + 2) // 3}",
        f"week(day) {op} {day.isocalendar()[1]}",
        f"day_of_week(day) IN ({day.isoweekday()}, 7)",
        f"day_of_year(at) {op} {day.timetuple().tm_yday}",
        f"year_of_week(day) = {day.isocalendar()[0]}",
        f"hour(at) {op} {n % 24}",
        f"hour(at AT TIME ZONE '{zone}') {op} {n % 24}",
        f"minute(clock) {op} {n % 60}",
        f"second(clock) {op} {n % 60}",
        f"year(at AT TIME ZONE '{zone}') {op} {day.year}",
        f"date_trunc('month', at) {op} TIMESTAMP '{day.replace(day=1)} 00:00:00 UTC'",
        f"date_trunc('week', day) {op} DATE '{day}'",
        f"date_trunc('hour', clock) {op} TIMESTAMP '{day} {n % 24:02}:00:00'",
        f"CAST(at AS date) {op} DATE '{day}'",
        f"CAST(clock AS date) BETWEEN DATE '{day}' AND DATE '{day + dt.timedelta(days=m * 20)}'",
        f"CAST(at AS timestamp(6)) {op} TIMESTAMP '{day} 12:00:00'",
        f"CAST(clock AS timestamp(6) with time zone) {op} TIMESTAMP '{day} 12:00:00 UTC'",
        f"CAST(day AS timestamp(3)) {op} TIMESTAMP '{day} 00:00:00'",
        f"CAST(clock AS timestamp(0)) {op} TIMESTAMP '{day} 12:00:00'",
        f"day + INTERVAL '{m}' DAY {op} DATE '{day}'",
        f"date_add('day', -{m}, day) {op} DATE '{day}'",
        f"date_add('month', {m}, day) {op} DATE '{day}'",
        f"date_diff('day', day, DATE '{day}') {op} {n}",
        f"i {op} j",
        f"i + j {op} {n}",
        f"s {op} t",
        "i < j OR j IS NULL",
        f"i IS DISTINCT FROM j AND i + 0 {op} {n}",
        f"st.a {op} {n}",
        f"st.B {op} '{text}'",
        f"st.c.x + 1 {op} {n * 2}",
        f"upper(st.B) LIKE '{text[:1].upper()}%'",
        "st.a IS NULL",
        f"st.c.x IS NOT NULL AND st.a + 0 {op} {n}",
        f"st IS NULL OR i = {n}",
        f"flag OR i {op} {n}",
        f"NOT flag OR s = '{text}'",
        f"i = {n} OR s = '{text}' OR day = DATE '{day}'",
        f"(i, s) IN (({n}, '{text}'), ({n + 5}, 'banana1'))",
        f"i IN ({n}, {n + 3}, NULL) OR l {op} {n * 1_000_000_007}",
        f"nullif(i, {n}) {op} {n + 2}",
        f"coalesce(i, 0) {op} {n}",
        f"CASE WHEN i > {n} THEN s = '{text}' ELSE flag END",
        f"if(flag, i, j) {op} {n}",
        f"i + 1 IS NULL OR s {op} '{text}'",
        f"greatest(i, j) {op} {n}",
        f"sqrt(CAST(abs(i) AS double)) {op} {m}e0",
        f"part || '' = 'p0{m}' OR i = {n}",
        f"try(i / (i - {n})) {op} 1",
        f"contains(ARRAY[{n}, {n + 1}], i)",
    ]
    return chance.choice(forms)
