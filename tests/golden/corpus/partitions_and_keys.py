"""Tables of the corpus with record keys and partition columns of each kind."""

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.engines.apache_tables import KEYGEN, NONPARTITIONED, ApacheTable
from tests.golden.corpus.rows import SMALL, WIDE
from tests.golden.corpus.steps import CLEANED, among, bucket, by, history, table, with_column

_COMPLEX = {"hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.ComplexKeyGenerator"}
_PART = with_column(SMALL, "part", pa.string())
_PLAIN = {
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
}


def partitions() -> list[ApacheTable]:
    """Partition paths: hive style with nulls, URL-encoded, values with slashes, dates."""
    return [
        table(
            "bkt_hive",
            {**by("part"), **bucket(3), **CLEANED},
            lambda r: history(r, 80),
            with_column(WIDE, "part", pa.string()),
            part=among("eu", "us west", "日本", None, "zz"),
        ),
        table(
            "bkt_urlenc",
            {**by("part"), **_PLAIN, **bucket(2), "hoodie.datasource.write.partitionpath.urlencode": "true"},
            lambda r: history(r, 40),
            _PART,
            part=among("a/b", "c:d", "50%", "x=y", "sp ace", "é"),
        ),
        table(
            "bkt_slash",
            {**by("part"), **_PLAIN, **bucket(2)},
            lambda r: history(r, 40),
            _PART,
            part=among("2023/12/31", "2024/01/02", "2024/01/03"),
        ),
        table(
            "bkt_datepart",
            {**by("part"), **bucket(2)},
            lambda r: history(r, 40),
            with_column(SMALL, "part", pa.date32()),
            part=among(dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(1999, 12, 31)),
        ),
    ]


def keys() -> list[ApacheTable]:
    """Record keys of several columns, of one by the complex generator, of other types than text."""
    numbers = list(SMALL)[1:]
    of_two = pa.schema([("ka", pa.int32()), ("kb", pa.string()), *list(WIDE)[1:]])
    typed = [
        ("kl", pa.int64()),
        ("kd", pa.date32()),
        ("kt", pa.timestamp("us", tz="UTC")),
        ("kdec", pa.decimal128(10, 2)),
        ("kb", pa.bool_()),
    ]
    names = ",".join(name for name, _ in typed)
    return [
        table(
            "bkt_complex",
            {
                **by("region,year"),
                **_PLAIN,
                **_COMPLEX,
                **bucket(4),
                **CLEANED,
                "hoodie.datasource.write.recordkey.field": "ka,kb",
                "hoodie.bucket.index.hash.field": "ka",
                "hoodie.metadata.index.column.stats.column.list": "ka,kb,i,d,dec18",
            },
            lambda r: history(r, 80),
            with_column(with_column(of_two, "region", pa.string()), "year", pa.int32()),
            ka=lambda number: number // 4 - 6,
            kb=lambda number: f"{('жA', 'hz', '-ｱ', 'bb🙂', 'a b')[number % 5]}{number}",
            region=among("eu", "na", "apé"),
            year=lambda number: 2020 + number // 3 % 2,
        ),
        table(
            "bkt_complex1",
            {**by("part"), **_COMPLEX, **bucket(4)},
            lambda r: history(r, 40),
            _PART,
            part=among("p", "q"),
        ),
        table(
            "bkt_keytypes",
            {
                **NONPARTITIONED,
                **bucket(4),
                "hoodie.datasource.write.recordkey.field": names,
                "hoodie.bucket.index.hash.field": names,
            },
            lambda r: history(r, 40),
            pa.schema([*typed, *numbers]),
            kl=lambda number: _chance(number).randrange(-(2**47), 2**47),
            kd=lambda number: dt.date(1965, 1, 1) + dt.timedelta(days=_chance(number).randrange(22_000)),
            kt=_moment,
            kdec=lambda number: Decimal(_chance(number).randrange(-(10**9), 10**9)).scaleb(-2),
            kb=lambda number: number % 3 == 0,
        ),
        table(
            "bkt_longkey",
            {**NONPARTITIONED, **bucket(8)},
            lambda r: history(r, 66),
            pa.schema([("id", pa.int64()), *numbers]),
            id=lambda number: number if number % 2 else _chance(number).randrange(-(2**31), 2**31),
        ),
    ]


def _chance(number: int) -> random.Random:
    return random.Random(number)


def _moment(number: int) -> Any:
    """A time, every second one of whole seconds."""
    micros = _chance(number).randrange(16 * 10**14)
    whole = micros - micros % 1_000_000
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=whole if number % 2 else micros)
