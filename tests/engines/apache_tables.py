"""Tables that Apache Hudi itself writes for the tests: what each is for, with which options, write by write."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.engines.edges import EDGES, EDGES_LATER, edge_rows, row_group_rows
from tests.engines.kinds import FLAT, NESTED, Row, flat_row, nested_row
from tests.support.apache_hudi_client import ApacheHudi

KEYGEN = "org.apache.hudi.keygen"
#: Of what Apache writes alike in tables of versions 8 and 9.
OLDEST_AND_NEWEST = ("0.15.0", "1.2.0")
#: The table version that each release writes by itself.
NATIVE_VERSION = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}

FLAT_BY_PARTITION = {
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.SimpleKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
NONPARTITIONED = {"hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.NonpartitionedKeyGenerator"}
ROW_GROUPS = {"hoodie.parquet.block.size": "4096"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
NO_COMPACTION = {"hoodie.compact.inline": "false"}
EVENT_TIME = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}


def bucket_index(buckets: int) -> dict[str, str]:
    """Options of a table with buckets."""
    return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(buckets)}


def record_index(groups: int) -> dict[str, str]:
    """Options of a table with a record index of as many file groups."""
    return {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": str(groups),
        "hoodie.metadata.record.index.max.filegroup.count": str(groups),
    }


#: Ordering values: null counts as 1970-01-01.
ORDERED = (None, dt.date(1934, 2, 23), dt.date(1970, 1, 1), dt.date(2000, 1, 1))
BUCKET = bucket_index(3)
RECORD_INDEX = record_index(3)


@dataclass(frozen=True)
class Write:
    """One write by Apache: operation, rows, further options."""

    operation: str
    rows: list[Row] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    schema: pa.Schema | None = None


@dataclass(frozen=True)
class Statements:
    """SQL that Apache runs on the table, which is `it`."""

    texts: list[str]
    settings: dict[str, str] = field(default_factory=dict)

    def run(self, apache: ApacheHudi, path: Path) -> None:
        prepare = ["DROP TABLE IF EXISTS it", f"CREATE TABLE it USING hudi LOCATION '{path}'"]
        try:
            for text in [*(f"SET {key}={value}" for key, value in self.settings.items()), *prepare, *self.texts]:
                apache.sql(text)
        finally:
            for text in ["DROP TABLE IF EXISTS it", *(f"RESET {key}" for key in self.settings)]:
                apache.sql(text)


@dataclass(frozen=True)
class ApacheTable:
    """A table of Apache's.

    Attributes:
        name: of the table.
        options: of every write.
        writes: one after the other.
        schema: of the rows.
        releases: which releases can write it.
        apache_reads_with: options that Apache's reader needs.
        formatted_columns: columns for which Apache's Spark reader gives what the partition path says instead of what
            the files hold.
    """

    name: str
    options: dict[str, str]
    writes: list[Write | Statements]
    schema: pa.Schema = FLAT
    releases: tuple[str, ...] = ("0.15.0", "1.0.2", "1.2.0")
    formatted_columns: tuple[str, ...] = ()
    apache_reads_with: dict[str, str] = field(default_factory=dict)

    @property
    def read_options(self) -> dict[str, str]:
        """What our scans are told: Apache records neither the bucket count nor the size of row groups."""
        simple = self.options.get("hoodie.index.bucket.engine") != "CONSISTENT_HASHING"
        names = {*ROW_GROUPS, "hoodie.bucket.index.num.buckets"} if simple else set(ROW_GROUPS)
        return {key: value for key, value in self.options.items() if key in names}

    def write(self, apache: ApacheHudi, path: Path) -> Path:
        """Make the table."""
        common = {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.write.table.version": str(NATIVE_VERSION[apache.version]),
            "hoodie.clean.automatic": "false",
            **self.options,
        }
        if apache.version == "0.15.0":
            del common["hoodie.write.table.version"]
        for position, write in enumerate(self.writes):
            if isinstance(write, Statements):
                write.run(apache, path)
                continue
            options = {**common, "hoodie.datasource.write.operation": write.operation, **write.options}
            rows = pa.Table.from_pylist(write.rows, write.schema or self.schema) if write.rows else None
            apache.write(path, rows, options, "append" if position else "overwrite")
        return path


def _history(row: Callable[..., Row], **extra: str) -> list[Write | Statements]:
    """Insert, updates (some of them late), a delete, and keys that come back."""
    return [
        Write("insert", [row(n, 5) for n in range(60)]),
        Write("upsert", [row(n, 6 if n % 3 else 2) | {"l": -n} for n in range(40, 80)], dict(extra)),
        Write("delete", [row(n, 7) for n in range(0, 60, 7)]),
        Write("upsert", [row(n, 8) for n in range(0, 90, 9)]),
    ]


def apache_tables() -> dict[str, ApacheTable]:
    """All of them, by name."""
    return {table.name: table for table in [*_copy_on_write(), *_merge_on_read(), *_indexed(), *_by_sql()]}


def _by_sql() -> list[ApacheTable]:
    """What only SQL makes: records that hold some columns, renamed and dropped columns."""
    by_name = {
        "hoodie.schema.on.read.enable": "true",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    }
    simple = {**NONPARTITIONED, "hoodie.index.type": "SIMPLE"}
    merged = {**MERGE_ON_READ, **NO_COMPACTION}
    renaming = Statements(
        [
            "ALTER TABLE it RENAME COLUMN s TO label",
            "ALTER TABLE it DROP COLUMN bin",
            "UPDATE it SET label = 'new', ts = 9 WHERE id = 'k00001'",
        ],
        by_name,
    )
    inserted = Write("insert", [flat_row(n, 5) for n in range(40)])
    source = "SELECT 'k00003' AS id, 9L AS ts, 'changed' AS s", "SELECT 'k00004' AS id, 9L AS ts, 7 AS i"
    into = "MERGE INTO it USING ({}) src ON it.id = src.id WHEN MATCHED THEN UPDATE SET ts = src.ts, {}"
    merging = Statements([into.format(source[0], "s = src.s"), into.format(source[1], "i = src.i")])
    return [
        ApacheTable("cow_renamed", simple, [inserted, renaming], releases=OLDEST_AND_NEWEST, apache_reads_with=by_name),
        ApacheTable("mor_renamed", {**simple, **merged}, [inserted, renaming], apache_reads_with=by_name),
        ApacheTable("mor_partial", {**simple, **merged}, [inserted, merging], releases=("1.0.2", "1.2.0")),
    ]


def _copy_on_write() -> list[ApacheTable]:
    evolved = FLAT.append(pa.field("note", pa.string())).set(2, pa.field("i", pa.int64()))
    return [
        edge_table(),
        row_group_table(),
        ApacheTable(
            "cow_types", {**NONPARTITIONED, **BUCKET}, _history(nested_row), NESTED, releases=OLDEST_AND_NEWEST
        ),
        ApacheTable("cow_hive", {**FLAT_BY_PARTITION, **BUCKET}, _history(flat_row), releases=OLDEST_AND_NEWEST),
        ApacheTable(
            "cow_replaced",
            {**FLAT_BY_PARTITION, "hoodie.index.type": "SIMPLE"},
            [
                Write("bulk_insert", [flat_row(n, 5) for n in range(60)]),
                Write("insert_overwrite", [flat_row(n, 6) for n in range(100, 130) if n % 4 == 0]),
                Write("upsert", [flat_row(n, 7) for n in range(90, 140)]),
            ],
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "cow_clustered",
            {
                **NONPARTITIONED,
                "hoodie.index.type": "SIMPLE",
                "hoodie.clustering.inline": "true",
                "hoodie.clustering.inline.max.commits": "2",
                # 0.15 cannot cluster decimals
            },
            [
                Write(op, [_without_decimal(flat_row(n, ts)) for n in numbers])
                for op, ts, numbers in (
                    ("insert", 5, range(40)),
                    ("insert", 6, range(40, 80)),
                    ("upsert", 7, range(30, 50)),
                )
            ],
            FLAT.remove(FLAT.get_field_index("dec")),
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "cow_evolved",
            {**FLAT_BY_PARTITION, **BUCKET},
            [
                Write("insert", [flat_row(n, 5) for n in range(40)]),
                Write(
                    "upsert", [flat_row(n, 6) | {"note": f"n{n}", "i": 10**10 + n} for n in range(30, 50)], {}, evolved
                ),
            ],
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "cow_timestamped",
            {
                "hoodie.datasource.write.partitionpath.field": "l",
                "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.TimestampBasedKeyGenerator",
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
                "hoodie.keygen.timebased.timezone": "UTC",
                **BUCKET,
            },
            [Write("insert", [flat_row(n, 5) | {"l": 1_700_000_000_000 + n * 20_000_000} for n in range(40)])],
            releases=OLDEST_AND_NEWEST,
            formatted_columns=("l",),
        ),
    ]


def edge_table() -> ApacheTable:
    """One file per write, each with values whose statistics need care."""
    one_file_each = {"hoodie.index.type": "SIMPLE", "hoodie.parquet.small.file.limit": "0"}
    writes: list[Write | Statements] = [
        Write("insert", rows, {}, EDGES_LATER if "note" in rows[0] else EDGES) for rows in edge_rows()
    ]
    return ApacheTable("cow_edges", {**NONPARTITIONED, **one_file_each}, writes, EDGES)


def row_group_table() -> ApacheTable:
    """One file of several row groups; Parquet looks at their size every hundred rows."""
    options = {"hoodie.index.type": "SIMPLE", **ROW_GROUPS, "hoodie.parquet.page.size": "1024"}
    return ApacheTable(
        "cow_row_groups",
        {**NONPARTITIONED, **options},
        [Write("insert", row_group_rows())],
        EDGES,
        releases=OLDEST_AND_NEWEST,
    )


def _merge_on_read() -> list[ApacheTable]:
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    plan_only = {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    return [
        ApacheTable(
            "mor_types",
            {**NONPARTITIONED, **BUCKET, **MERGE_ON_READ, **NO_COMPACTION},
            _history(nested_row),
            NESTED,
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "mor_event_time",
            {**FLAT_BY_PARTITION, **BUCKET, **MERGE_ON_READ, **NO_COMPACTION, **EVENT_TIME},
            _history(flat_row),
        ),
        ApacheTable(
            "mor_compacted", {**FLAT_BY_PARTITION, **BUCKET, **MERGE_ON_READ, **compacting}, _history(flat_row)
        ),
        ApacheTable(
            "mor_pending",
            {**NONPARTITIONED, **BUCKET, **MERGE_ON_READ, **NO_COMPACTION, **plan_only},
            _history(flat_row),
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "mor_parquet_blocks",
            {
                **FLAT_BY_PARTITION,
                **BUCKET,
                **MERGE_ON_READ,
                **NO_COMPACTION,
                "hoodie.logfile.data.block.format": "parquet",
            },
            _history(flat_row),
        ),
        ApacheTable(
            "mor_log_compacted",
            {
                **NONPARTITIONED,
                **BUCKET,
                **MERGE_ON_READ,
                **NO_COMPACTION,
                "hoodie.log.compaction.inline": "true",
                "hoodie.log.compaction.blocks.threshold": "2",
                "hoodie.log.compaction.enable": "true",
            },
            _history(flat_row),
        ),
        ApacheTable(
            "mor_duplicates",
            {**FLAT_BY_PARTITION, "hoodie.index.type": "SIMPLE", **MERGE_ON_READ, **NO_COMPACTION, **EVENT_TIME},
            [
                # inserts do not look for keys, so that base files have two rows of some
                Write("insert", [flat_row(n, 5) for n in range(40)]),
                Write("insert", [flat_row(n, 7) | {"l": -n} for n in range(10, 40)]),
                # newer than the first of two rows, older than the second
                Write("upsert", [flat_row(n, 6) | {"l": 100 + n} for n in range(20)]),
                Write("upsert", [flat_row(n, 8) | {"l": 200 + n} for n in range(15, 30)]),
                Write("delete", [flat_row(n, 9) for n in range(0, 40, 5)]),
            ],
            releases=("1.0.2", "1.2.0"),
        ),
        ApacheTable(
            "mor_nested_order",
            {
                **NONPARTITIONED,
                "hoodie.index.type": "SIMPLE",
                **MERGE_ON_READ,
                **NO_COMPACTION,
                **EVENT_TIME,
                "hoodie.datasource.write.precombine.field": "st.a",
            },
            _history(lambda n, ts: nested_row(n, ts) | {"st": {"a": ts, "b": f"{n} at {ts}", "c": None}}),
            NESTED,
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "mor_null_dates",
            {
                **NONPARTITIONED,
                "hoodie.index.type": "SIMPLE",
                **MERGE_ON_READ,
                **NO_COMPACTION,
                **EVENT_TIME,
                "hoodie.datasource.write.precombine.field": "dt",
            },
            # each key has one of all triples of dates, null among them
            [
                Write(operation, [flat_row(n, number) | {"dt": ORDERED[n // 4**number % 4]} for n in range(64)])
                for number, operation in enumerate(("insert", "upsert", "upsert"))
            ],
            releases=("1.2.0",),
        ),
    ]


def _indexed() -> list[ApacheTable]:
    rules = {
        "hoodie.bucket.index.partition.rule.type": "regex",
        # below the count of other partitions, so that only keys tell that it does not hold
        "hoodie.bucket.index.partition.expressions": "eu,2;us.*,1",
    }
    return [
        ApacheTable(
            "cow_record_index", {**FLAT_BY_PARTITION, **RECORD_INDEX}, _history(flat_row), releases=OLDEST_AND_NEWEST
        ),
        ApacheTable(
            "mor_record_index",
            {**FLAT_BY_PARTITION, **RECORD_INDEX, **MERGE_ON_READ, **NO_COMPACTION},
            _history(flat_row),
        ),
        ApacheTable(
            "cow_bloom",
            {
                **NONPARTITIONED,
                "hoodie.index.type": "BLOOM",
                "hoodie.bloom.index.use.metadata": "true",
                "hoodie.metadata.index.bloom.filter.enable": "true",
                "hoodie.parquet.small.file.limit": "0",
            },
            [Write("insert", [flat_row(n, 5) for n in range(start, start + 20)]) for start in (0, 20, 40)],
            releases=OLDEST_AND_NEWEST,
        ),
        ApacheTable(
            "mor_consistent_hashing",
            {
                **FLAT_BY_PARTITION,
                "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
                "hoodie.bucket.index.num.buckets": "4",
                **MERGE_ON_READ,
                **NO_COMPACTION,
            },
            _history(flat_row),
        ),
        ApacheTable(
            "cow_partition_buckets", {**FLAT_BY_PARTITION, **BUCKET, **rules}, _history(flat_row), releases=("1.2.0",)
        ),
    ]


def _without_decimal(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "dec"}
