"""The tables of the corpus: what each holds, write by write."""

import uuid

import pyarrow as pa

from tests.engines.apache_tables import MERGE_ON_READ, NONPARTITIONED, ApacheTable, Write
from tests.golden.corpus.partitions_and_keys import keys, partitions
from tests.golden.corpus.rows import EDGES, NESTED, SMALL, WIDE, Rows, edge_rows
from tests.golden.corpus.steps import (
    ARCHIVED,
    CLEANED,
    LOGS_ONLY,
    NOT_COMPACTED,
    Crash,
    Restore,
    Savepoint,
    Step,
    among,
    bucket,
    by,
    history,
    record_index,
    table,
    with_column,
)

#: By the start of a table's name: the release that writes it, and options of its writes.
FAMILIES: dict[str, tuple[str, dict[str, str]]] = {
    "v6_0150": ("0.15.0", {}),
    "v6_1200": ("1.2.0", {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}),
    "v8_1020": ("1.0.2", {}),
    "v9_1200": ("1.2.0", {}),
    "v9up_1200": ("1.2.0", {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}),
}

#: What the last write of a table of `v9up_1200` says, which the restore before it upgraded.
UPGRADED = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}

_STRUCT = pa.struct([("u", pa.int32()), ("v", pa.string())])


def tables() -> dict[str, ApacheTable]:
    """All of them, by name without the family."""
    made = [
        *partitions(),
        *keys(),
        *_types(),
        *_histories(),
        *_indexed(),
        *_merge_on_read(),
        *_long_logs(),
        *_edges(),
    ]
    return {table.name: table for table in made}


def _types() -> list[ApacheTable]:
    """Columns of each type; a first commit by the row writer; no metadata table."""
    four = {**NONPARTITIONED, **bucket(4)}
    return [
        table("bkt_np_types", {**four, **CLEANED}, lambda r: history(r, 80), NESTED),
        table("bkt_np_bulk", four, lambda r: history(r, 80, "bulk_insert"), NESTED),
        table(
            "nomdt",
            {
                **four,
                **CLEANED,
                "hoodie.metadata.enable": "false",
                "hoodie.metadata.index.column.stats.enable": "false",
            },
            lambda r: history(r, 53),
            WIDE,
        ),
    ]


def _histories() -> list[ApacheTable]:
    """Evolution, rollbacks, restores, archives, no meta columns."""
    small = {**NONPARTITIONED, **bucket(2)}
    added = with_column(SMALL, "added_s", pa.string()).set(4, pa.field("n", pa.int64()))
    added_twice = with_column(with_column(added, "added_d", pa.date32()), "added_st", _STRUCT)

    def evolve(rows: Rows) -> list[Step]:
        later, last = Rows("bkt_evolve", added), Rows("bkt_evolve", added_twice)
        return [
            Write("insert", rows(range(60), 1)),
            Write("upsert", later(range(50, 70), 2), {}, added),
            Write("upsert", last(range(64, 79), 3), {}, added_twice),
            Write("delete", last(range(0, 20, 4), 4), {}, added_twice),
        ]

    def roll_back(rows: Rows) -> list[Step]:
        return [
            Write("insert", rows(range(50), 1)),
            Write("upsert", rows(range(40, 60), 2)),
            Write("upsert", rows(range(55, 70), 3)),
            Crash([]),
            Write("upsert", rows(range(45, 65), 4)),
            Savepoint([]),
            Write("delete", rows(range(0, 40, 10), 5)),
            Write("upsert", rows(range(30, 45), 6)),
            Crash([]),
        ]

    def restore(rows: Rows) -> list[Step]:
        return [
            Write("insert", rows(range(40), 1)),
            Write("upsert", rows(range(30, 50), 2)),
            Savepoint([]),
            Write("upsert", rows(range(45, 60), 3)),
            Write("delete", rows(range(0, 10, 2), 4)),
            Restore([]),
            Write("upsert", rows(range(50, 53), 5)),
        ]

    def many(rows: Rows) -> list[Step]:
        steps: list[Step] = [Write("insert", rows(range(40), 1))]
        for ts in range(2, 14):
            if ts % 4 == 1:
                steps.append(Write("delete", rows(rows.some(range(40), 3), ts)))
            else:
                steps.append(Write("upsert", rows([*rows.some(range(40), 5), *range(36 + 2 * ts, 39 + 2 * ts)], ts)))
        return steps

    nometa = SMALL.remove(SMALL.get_field_index("name")).append(pa.field("name", pa.string()))
    return [
        table("bkt_evolve", {**NONPARTITIONED, **bucket(4)}, evolve),
        table("bkt_rollback", {**NONPARTITIONED, **bucket(4), **NOT_COMPACTED}, roll_back),
        table("rli_rollback", {**NONPARTITIONED, **record_index(2), **NOT_COMPACTED}, roll_back),
        table("bkt_restore", small, restore),
        table("bkt_archive", {**small, **ARCHIVED}, many),
        table("rli_archive", {**NONPARTITIONED, **record_index(2), **ARCHIVED}, many),
        table(
            "nometa",
            {**by("name"), **bucket(4), "hoodie.populate.meta.fields": "false"},
            lambda r: history(r, 33, "bulk_insert"),
            nometa,
            name=among("m", "n"),
        ),
    ]


def _indexed() -> list[ApacheTable]:
    """Record indexes, bloom filters, clustering."""
    part = with_column(SMALL, "part", pa.string())

    def replace(rows: Rows) -> list[Step]:
        return [
            Write("insert", rows(range(40), 1)),
            Write("upsert", rows(range(30, 50), 2)),
            Write("insert_overwrite", [row | {"part": "x"} for row in rows(range(50, 55), 3)]),
            Write("delete_partition", rows([1], 4), {"hoodie.datasource.write.partitions.to.delete": "part=y"}),
            Write("upsert", rows(range(36, 51, 3), 5)),
        ]

    def move(rows: Rows) -> list[Step]:
        return [*history(rows, 80), Write("upsert", [row | {"part": "moved"} for row in rows(range(10), 9)])]

    def ids(number: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))

    return [
        table(
            "rli_uuid",
            {**NONPARTITIONED, **record_index(4), "hoodie.parquet.small.file.limit": "0"},
            lambda r: history(r, 80),
            id=ids,
        ),
        table(
            "rli_part",
            {**by("part"), **record_index(3), "hoodie.record.index.update.partition.path": "true"},
            move,
            with_column(WIDE, "part", pa.string()),
            part=among("x", "y", "ü"),
        ),
        table(
            "bloom_replace",
            {**by("part"), "hoodie.index.type": "BLOOM", "hoodie.metadata.index.bloom.filter.enable": "true"},
            replace,
            part,
            part=among("x", "y", "z"),
        ),
        table(
            "cluster",
            {
                **NONPARTITIONED,
                "hoodie.index.type": "SIMPLE",
                "hoodie.parquet.small.file.limit": "0",
                "hoodie.clustering.inline": "true",
                "hoodie.clustering.inline.max.commits": "2",
                "hoodie.clustering.plan.strategy.sort.columns": "id",
                "hoodie.clustering.plan.strategy.small.file.limit": "10000000",
                "hoodie.clustering.plan.strategy.target.file.max.bytes": "20000000",
            },
            lambda r: history(r, 40),
        ),
    ]


def _merge_on_read() -> list[ApacheTable]:
    two = {**NONPARTITIONED, **bucket(2)}

    def longer(rows: Rows) -> list[Step]:
        # 1.0.2 cannot merge a key that one log block deletes and another writes again
        return [
            *history(rows, 80, back=0),
            Write("upsert", rows(range(80, 100), 5)),
            Write("delete", rows(range(100, 106), 6)),
            Write("upsert", rows(range(106, 116), 7)),
        ]

    # 1.0.2 cannot read a key that one log block deletes and another writes again
    def crashed(rows: Rows) -> list[Step]:
        return [*history(rows, 80, "upsert", back=0, more=5), Crash([])]

    def pending(rows: Rows) -> list[Step]:
        return history(rows, 40, back=0, more=9)

    def one_more(rows: Rows) -> list[Step]:
        return [*history(rows, 40), Write("upsert", rows(range(1, 50, 6), 9))]

    compacted = {**MERGE_ON_READ, "hoodie.compact.inline": "true"}
    return [
        table(
            "mor_bkt",
            {**by("part"), **bucket(2), **compacted, "hoodie.compact.inline.max.delta.commits": "4"},
            longer,
            with_column(NESTED, "part", pa.string()),
            part=among("x", "yé"),
        ),
        table("mor_log", {**two, **LOGS_ONLY}, crashed, WIDE),
        table(
            "mor_pending",
            {
                **two,
                **LOGS_ONLY,
                "hoodie.compact.schedule.inline": "true",
                "hoodie.compact.inline.max.delta.commits": "3",
            },
            pending,
        ),
        table(
            "mor_rli",
            {
                **NONPARTITIONED,
                **record_index(2),
                **compacted,
                "hoodie.compact.inline.max.delta.commits": "3",
            },
            one_more,
        ),
    ]


def _long_logs() -> list[ApacheTable]:
    """Merge-on-read without metadata tables: archived instants of logs, replaced groups and a planned clustering."""
    options = {
        **MERGE_ON_READ,
        **by("part"),
        "hoodie.index.type": "SIMPLE",
        "hoodie.metadata.enable": "false",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.compact.inline": "false",
    }
    schema = with_column(SMALL, "part", pa.string())
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    planning = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    deleted = {"hoodie.datasource.write.partitions.to.delete": "part=y"}

    def archived(rows: Rows) -> list[Step]:
        return [
            Write("insert", rows(range(8), 1)),
            *(Write("upsert", rows(range(8), ts), compacting) for ts in (2, 3)),
            Write("upsert", rows([0], 4)),
            *(Write("upsert", rows(range(1, 8, 2), ts)) for ts in range(5, 13)),
        ]

    def overwritten(rows: Rows) -> list[Step]:
        return [
            Write("insert", rows(range(12), 1)),
            Write("upsert", rows(range(12), 2)),
            Write("insert_overwrite", rows(range(12, 21, 3), 3)),
            Write("delete_partition", rows([1], 4), deleted),
            Write("upsert", rows([12, 15, 2, 5], 5), planning),
        ]

    return [
        table("archived", {**options, **ARCHIVED}, archived, schema, part=among("x", "y")),
        table("overwritten", options, overwritten, schema, part=among("x", "y", "z")),
    ]


def _edges() -> list[ApacheTable]:
    """Values at the edges of their types."""

    def edges(_: Rows) -> list[Step]:
        return [
            Write("insert", edge_rows(range(24), 1)),
            Write("upsert", edge_rows(range(20, 40), 2)),
            Write("upsert", edge_rows(range(40, 60), 3)),
            Write("delete", edge_rows(range(0, 60, 4), 4)),
        ]

    return [
        table("edge_stats", {**NONPARTITIONED, **bucket(8)}, edges, EDGES),
    ]
