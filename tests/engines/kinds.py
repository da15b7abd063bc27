"""The kinds of tables that interop is tested on: how each is written by our writer, batch by batch."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC
Row = dict[str, Any]

FLAT = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("dec", pa.decimal128(12, 3)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("tm", pa.timestamp("us", tz="UTC")),
        ("bin", pa.binary()),
        ("part", pa.string()),
        ("all_null", pa.string()),
    ]
)
NESTED = FLAT.append(
    pa.field("st", pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("x", pa.float64())]))]))
)
NESTED = NESTED.append(pa.field("arr", pa.list_(pa.string()))).append(pa.field("mp", pa.map_(pa.string(), pa.int64())))
PARTS = ("eu", "us west", "日本", None)


def flat_row(n: int, ts: int = 1) -> Row:
    """A row with every type, nulls here and there, and values that need care."""
    return {
        "id": f"k{n:05d}" + ("é" if n % 5 == 0 else ""),
        "ts": ts,
        "i": n * 7919 % 1000 - 500 if n % 11 else None,
        "l": n * 10**12,
        "f": n / 4,
        "d": -n / 3,
        "dec": Decimal(n) / 8 * (-1) ** n,
        "s": ("x" * (n % 7) + "ｱ한é𝄞"[n % 4]) if n % 6 else "",
        "b": n % 2 == 0,
        "dt": dt.date(1950, 1, 1) + dt.timedelta(days=n * 97),
        "tm": dt.datetime(2020, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=n * 10**9 + n),
        "bin": bytes([n % 256, 255]),
        "part": PARTS[n % 4],
        "all_null": None,
    }


def nested_row(n: int, ts: int = 1) -> Row:
    return flat_row(n, ts) | {
        "st": {"a": n, "b": f"b{n}", "c": {"x": n / 2} if n % 3 else None} if n % 4 else None,
        "arr": [f"a{n}", None, "z"] if n % 3 else [],
        "mp": [("k", n), ("m", None)] if n % 2 else None,
    }


@dataclass
class Step:
    """One write: the operation and its rows."""

    operation: str
    rows: list[Row] = field(default_factory=list)
    schema: pa.Schema | None = None
    partitions: Sequence[str] = ()

    def table(self, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_pylist(self.rows, self.schema or schema)


@dataclass
class Kind:
    """A kind of table: its options, schema, history of writes, and filters worth trying."""

    name: str
    options: dict[str, str]
    schema: pa.Schema
    steps: list[Step]
    filters: list[str]
    key: tuple[str, ...] = ("id",)
    #: A column for which Apache's Spark reader gives what the partition path says, not what the file holds.
    path_column: str | None = None

    @property
    def several_groups(self) -> bool:
        """Whether a bucket may have several file groups, which Apache's writers refuse."""
        return "hoodie.catalog.bucket.max.file.size" in self.options

    def all_options(self) -> dict[str, str]:
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.recordkey.field": ",".join(self.key),
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.bucket.index.hash.field": ",".join(self.key),
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
            **self.options,
        }


def history(row: Any) -> list[Step]:
    """Insert, two upserts, a delete, an upsert that brings deleted keys back."""
    return [
        Step("insert", [row(n) for n in range(60)]),
        Step("upsert", [row(n, 2) | {"l": -n} for n in range(40, 80)]),
        Step("delete", [row(n, 3) for n in range(0, 60, 7)]),
        Step("upsert", [row(n, 4) for n in range(0, 90, 9)]),
    ]


NONPARTITIONED = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}
SIMPLE = {
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
}
FILTERS = [
    "i > 300",
    "d BETWEEN -12.5 AND -3",
    "dec >= 4.125 AND s <> ''",
    "dt < DATE '1955-06-01'",
    "tm >= TIMESTAMP '2020-01-01 12:00:00'",
    "id = 'k00042'",
    "id IN ('k00005é', 'k00063', 'nowhere') OR l < -70",
    "all_null IS NOT NULL",
    "i IS NULL",
]


def kinds() -> dict[str, Kind]:
    clean = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    hive = {**SIMPLE, "hoodie.datasource.write.hive_style_partitioning": "true"}
    with_note = FLAT.append(pa.field("note", pa.string()))
    promoted = with_note.set(2, pa.field("i", pa.int64()))
    all_kinds = [
        Kind("types", NONPARTITIONED | clean, NESTED, history(nested_row), FILTERS),
        Kind("hive", hive, FLAT, history(flat_row), [*FILTERS, "part = 'eu' AND b", "part IS NULL"]),
        # room for two rows or so
        Kind("groups", hive | {"hoodie.catalog.bucket.max.file.size": "200"}, FLAT, history(flat_row), FILTERS),
        Kind(
            "encoded",
            hive | {"hoodie.datasource.write.partitionpath.urlencode": "true"},
            FLAT,
            history(lambda n, ts=1: flat_row(n, ts) | {"part": ("a/b", "c:d", "50%", "e=f g")[n % 4]}),
            ["part = 'a/b'", "part = '50%' AND i > 0"],
        ),
        Kind(
            "complex",
            {
                "hoodie.datasource.write.partitionpath.field": "part,b",
                "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
                "hoodie.bucket.index.hash.field": "id",
            },
            FLAT,
            history(flat_row),
            ["id = 'k00010é'", "b AND part = 'eu'"],
            key=("id", "l"),
        ),
        Kind(
            "timestamped",
            {
                "hoodie.datasource.write.partitionpath.field": "ts_ms",
                "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
                "hoodie.keygen.timebased.timezone": "UTC",
            },
            FLAT.append(pa.field("ts_ms", pa.int64())),
            history(lambda n, ts=1: flat_row(n, ts) | {"ts_ms": 1_700_000_000_000 + n % 5 * 86_400_000}),
            ["ts_ms > 1700200000000", "i > 300"],
            path_column="ts_ms",
        ),
        Kind(
            "evolved",
            hive,
            FLAT,
            [
                Step("insert", [flat_row(n) for n in range(40)]),
                Step("upsert", [flat_row(n, 2) | {"note": f"n{n}"} for n in range(30, 50)], with_note),
                Step("upsert", [flat_row(n, 3) | {"note": None, "i": 10**10 + n} for n in range(45, 60)], promoted),
            ],
            ["note = 'n31'", "note IS NULL", "i > 10000000000", "i < 0"],
        ),
        Kind(
            "replaced",
            hive,
            FLAT,
            [
                Step("bulk_insert", [flat_row(n) for n in range(60)]),
                Step("insert_overwrite", [flat_row(n, 2) for n in range(100, 130) if n % 4 == 0]),
                Step("delete_partition", partitions=("part=us west",)),
                Step("upsert", [flat_row(n, 3) for n in range(90, 140)]),
            ],
            ["part = 'eu'", "part = 'us west'", "l >= 100000000000000"],
        ),
    ]
    return {kind.name: kind for kind in all_kinds}
