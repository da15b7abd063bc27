"""Which entries a table gets for Hive and Spark, and how each reads it.

A copy-on-write table gets one. A merge-on-read table gets, as from Apache Hudi 0.14 on, `t_ro`, which reads base files
alone, and `t_rt` and `t`, which read the newest rows; or one of the two kinds alone, under the table's own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog.table import READ_OPTIMIZED, SNAPSHOT, Table
from hudi_catalog.metastore.options import ALL, READ_OPTIMIZED_ONLY, SyncOptions

DEFAULT_SCHEMA: Final = "default"
_READ_OPTIMIZED_SUFFIX: Final = "_ro"
_REAL_TIME_SUFFIX: Final = "_rt"


@dataclass(frozen=True)
class EntryName:
    """An entry to be.

    Attributes:
        name: in lower case.
        query_type: `snapshot` or `read_optimized`.
    """

    name: str
    query_type: str


def hive_schema(table: Table, options: SyncOptions) -> str:
    """The database of a table's entries: the options', else the table's own, in lower case."""
    return (options.database or table.config.database or DEFAULT_SCHEMA).lower()


def hive_names(table: Table, options: SyncOptions) -> tuple[EntryName, ...]:
    """The entries of a table.

    Args:
        table: to be registered.
        options: the name, if it is not the table's own; the strategy for merge-on-read tables.
    """
    name = (options.table or table.name).lower()
    hive = options.hive
    newest = EntryName(name, SNAPSHOT)
    if table.config.table_type == "COPY_ON_WRITE":
        return (newest,)
    if hive.strategy != ALL:
        return (EntryName(name, READ_OPTIMIZED) if hive.strategy == READ_OPTIMIZED_ONLY else newest,)
    real_time = EntryName(name + _REAL_TIME_SUFFIX, SNAPSHOT)
    if hive.skip_ro_suffix:
        return (EntryName(name, READ_OPTIMIZED), real_time)
    both = (EntryName(name + _READ_OPTIMIZED_SUFFIX, READ_OPTIMIZED), real_time)
    return (*both, newest) if hive.snapshot_name else both
