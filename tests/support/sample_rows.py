"""Rows of every Spark type with their edges, and filters over them; Spark's own answers are in tests/golden."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
UTC = dt.UTC


def sample_table() -> pa.Table:
    d = [Decimal("-99999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.50"), Decimal("2.00"), None]
    d += [Decimal("99999999.99"), Decimal("1.49")]
    wide = [Decimal(-(10**37)), Decimal(0), Decimal(1), None, Decimal(10**37), Decimal(2), Decimal(3), None]
    stamp = [
        dt.datetime(1901, 1, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.datetime(2020, 2, 29, 12, 30, 0, 123456, UTC),
        None,
        dt.datetime(2020, 3, 1, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        dt.datetime(2020, 2, 29, 0, 0, 0, 0, UTC),
    ]
    columns = {
        "b": pa.array([True, False, None, True, False, True, None, False]),
        "i8": pa.array([-128, 127, 0, 1, 2, None, 3, 5], pa.int8()),
        "i": pa.array([-(2**31), 2**31 - 1, 0, 1, 2, None, 3, 5], pa.int32()),
        "l": pa.array([-(2**63), 2**63 - 1, 0, 2**53 + 1, 2**53, None, 1, 2], pa.int64()),
        "f": pa.array([NAN, -INF, INF, -0.0, 0.0, None, 1.1, 16777216.0], pa.float32()),
        "d": pa.array([NAN, -INF, INF, -0.0, 0.0, None, 1.1, 9007199254740992.0]),
        "dec": pa.array(d, pa.decimal128(10, 2)),
        "wide": pa.array(wide, pa.decimal128(38, 0)),
        "s": pa.array(["", "a", "a_c", "abc", "ä", "\ue000", None, "😀"]),
        "t": pa.array(["a%b", "a\\b", "line\nbreak", "x" * 2000, "it's", 'say "x"', "A", None]),
        "bin": pa.array([b"", b"a", b"\xff", b"\x00", None, b"a\x00", b"ab", b"\x7f"], pa.binary()),
        "day": pa.array(
            [
                dt.date(1, 1, 1),
                dt.date(1969, 12, 31),
                dt.date(1970, 1, 1),
                dt.date(2020, 2, 29),
                None,
                dt.date(2020, 3, 1),
                dt.date(9999, 12, 31),
                dt.date(2020, 1, 1),
            ]
        ),
        "at": pa.array(stamp, pa.timestamp("us", "UTC")),
        "local": pa.array([None if x is None else x.replace(tzinfo=None) for x in stamp], pa.timestamp("us")),
        "st": pa.array(
            [{"a": 1, "n": {"z": "q"}}, {"a": None, "n": None}, None, {"a": 2, "n": {"z": None}}] * 2,
            pa.struct([("a", pa.int32()), ("n", pa.struct([("z", pa.string())]))]),
        ),
        "größe": pa.array([1, 2, 3, None, 5, 6, 7, 8], pa.int64()),
    }
    return pa.table(columns)


FILTERS = """
b
NOT b
b = true
b <> false
b > false
b IS TRUE
b IS NOT TRUE
b IN (true, NULL)
i8 = 127
i8 < 128
i8 > 127
i8 >= -128
i8 < -1000
i8 > 1000 OR i8 IS NULL
NOT (i8 > 1000)
i8 = 1000
NOT (i8 = 1000)
i8 <=> 1000
i8 IN (1, 2, 1000)
i8 NOT IN (1, 1000)
i8 NOT IN (1000, 2000)
i8 IN (1000)
i8 IN (1000, NULL)
i8 NOT IN (1000, NULL)
i = 1.5
i < 1.5
i <= 1.5
i > 1.5
i >= 1.5
i <> 1.5
i = 2.0
i IN (1.5, 2)
i BETWEEN 0.5 AND 2.5
i NOT BETWEEN 0 AND 2
i BETWEEN 3 AND 1
i < 1.5e0
i >= 2147483648
i = '1'
5 > i
1 <= i
i <=> NULL
i IS DISTINCT FROM 2
i IS NOT DISTINCT FROM NULL
i = NULL
i IN (1, NULL)
i NOT IN (1, NULL)
i IS NULL OR i > 2
i IS NOT NULL AND NOT i > 2
NOT (i > 1 AND d > 0)
i > 1 OR d > 0
i > 1 AND d > 0
l = 9007199254740992.0D
l = 9007199254740993.0D
l <> 9007199254740992.0D
l < 9007199254740992.0D
l <= 9007199254740992.0D
l > 9007199254740992.0D
l >= 9007199254740992.0D
l IN (9007199254740992.0D, 1)
l <=> 9007199254740992.0D
l > 1e300
l < 1e300
l = 9223372036854775808
l >= 9223372036854775807
l <= -9223372036854775808
l > 9223372036854775806.5
f = cast('NaN' as double)
f > 0
f >= cast('NaN' as float)
f < cast('NaN' as double)
f <= 0
f = 0
f = -0.0D
f < 0
f IN (0, 1)
f IN (cast('NaN' as float), 0.0D)
f NOT IN (cast('NaN' as double))
f = 1.1
f = 1.1D
f = 1.1F
f > 1.1
f >= 1.1
f < 1.1
f <= 1.1
f = 16777217
f = cast('Infinity' as double)
f < cast('-Infinity' as double)
d = cast('NaN' as double)
d <> cast('NaN' as double)
d > cast('Infinity' as double)
d <=> cast('NaN' as double)
d <=> NULL
d = 1.1
d > 1
d = 9007199254740993
d IN (1.1, 0)
d < 0.0
d <= -0.0D
d BETWEEN 0 AND 1.1
dec = 1.5
dec = 1.50
dec < 1.495
dec <= 1.495
dec = 1.495
dec > 1.495
dec >= 1.5e0
dec = 1.5e0
dec = 1.49D
dec < 1.49D
dec > 1e20
dec < 100000000
dec >= 99999999.99
dec > 99999999.990001
dec IN (1.5, 2, 3.001)
dec NOT IN (1.5, 2, 3.001)
dec = -0.01
dec = 2
wide > 9999999999999999999999999999999999999
wide = 1e37
wide < 1.5
wide IN (1, 2)
s = ''
s > 'a'
s < 'b'
s >= '\\ue000'
s > 'zzz'
s LIKE 'a%'
s LIKE 'a_c'
s LIKE 'a\\\\_c'
s LIKE 'a!_c' ESCAPE '!'
s NOT LIKE '%c'
s LIKE ''
s LIKE '%'
s LIKE '_'
s LIKE NULL
startswith(s, 'a')
NOT startswith(s, 'a')
startswith(s, '')
s IN ('a', 'abc', '')
s NOT IN ('a', NULL)
s BETWEEN 'a' AND 'b'
s <=> 'ä'
s = X'61'
t = 'it''s'
t = "it's"
t = 'it\\'s'
t LIKE 'line%break'
t LIKE 'a\\\\%b'
t LIKE 'a\\\\\\\\b'
t LIKE 'x%x'
t = 'say "x"'
bin = X'61'
bin > X'61'
bin < X'FF'
bin = 'a'
bin IN (X'', X'6100')
bin = X''
day = DATE '2020-02-29'
day < '2020-03-01'
day = '2020-2-29'
day >= TIMESTAMP '2020-02-29 00:00:00'
day > TIMESTAMP '2020-02-29 00:00:00'
day = TIMESTAMP '2020-02-29 10:00:00'
day < TIMESTAMP '2020-02-29 10:00:00'
day IN (DATE '1970-01-01', DATE '9999-12-31')
day BETWEEN '1970-01-01' AND '2020-02-29'
day <= DATE '0001-01-01'
at = TIMESTAMP '2020-02-29 12:30:00.123456'
at < TIMESTAMP '2020-02-29 14:30:00.123457+02:00'
at = TIMESTAMP '2020-02-29 14:30:00.123456+02:00'
at >= '2020-02-29'
at >= DATE '2020-02-29'
at = DATE '2020-02-29'
at < '1970-01-01'
at < '1970-01-01 00:00:00'
at IN (TIMESTAMP '1970-01-01 00:00:00', TIMESTAMP '2020-03-01 00:00:00')
at > TIMESTAMP_NTZ '2020-02-29 00:00:00'
local = TIMESTAMP_NTZ '2020-02-29 12:30:00.123456'
local >= TIMESTAMP '2020-02-29 00:00:00'
local >= DATE '2020-02-29'
local < '2020-02-29 12:30:00.2'
st IS NULL
st.a = 1
st.a IS NULL
st.n.z = 'q'
st.n.z IS NULL
st.n IS NULL
NOT (st.a > 1)
ST.N.Z = 'q'
`größe` >= 5
I > 1 AND B
1 = 1
1 = 0
NULL
i > 1 AND NULL
i > 1 OR NULL
NOT (i > 1 OR NULL)
""".strip().splitlines()
