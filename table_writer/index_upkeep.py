"""Indexes that the options of a table's writers name, and that it lacks: what maintenance builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from table_format.metadata_table import layout
from table_format.metadata_table.record_index import is_private
from table_format.table.client import TableClient
from table_writer.execution.executor import Executor
from table_writer.indexing import FileIndexReport, build_file_index
from table_writer.metadata.column_statistics import COLUMN_LIST
from table_writer.metadata.statistics_repair import are_left_out
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.record_index.bootstrap import BootstrapReport, bootstrap_index
from table_writer.timeline.options import ProtocolOptions

_RECORD_KINDS: Final = ("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX")


@dataclass(frozen=True, slots=True)
class NeededIndex:
    """An index to build.

    Attributes:
        index: `record_index`, `column_stats` or `bloom_filters`.
        reason: in a few words.
    """

    index: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexUpkeep:
    """What became of indexes.

    Attributes:
        needs: indexes that were built, or would be.
        reports: of those that were built.
    """

    needs: tuple[NeededIndex, ...] = ()
    reports: tuple[BootstrapReport | FileIndexReport, ...] = ()


def needed_indexes(client: TableClient, options: WriteOptions) -> tuple[NeededIndex, ...]:
    """The indexes that a table should have and that are missing, lack files, or have other columns.

    An index of files is one that the options name, since defaults hold for new tables only; the record index, of a
    table whose writers find records by it.

    Args:
        client: the table.
        options: of the table's writers.
    """
    timeline = client.timeline()
    if not options.flag(registry.METADATA) or not timeline.writes:
        return ()
    listed, needs = client.config.metadata_partitions, []
    by_record = (client.config.index_type or "").upper() in _RECORD_KINDS
    if by_record and layout.RECORD_INDEX not in listed and not is_private(client.config):
        needs.append(NeededIndex(layout.RECORD_INDEX, "missing, and writers find records by it"))
    named = options.is_set(registry.COLUMN_STATS_LIST) or options.is_set(registry.COLUMN_STATS)
    if named and options.flag(registry.COLUMN_STATS) and (reason := _statistics_needed(client, options)):
        needs.append(NeededIndex(layout.COLUMN_STATS, reason))
    if ProtocolOptions.parse(options.texts).bloom_filters and layout.BLOOM_FILTERS not in listed:
        needs.append(NeededIndex(layout.BLOOM_FILTERS, "missing"))
    return tuple(needs)


def _statistics_needed(client: TableClient, options: WriteOptions) -> str:
    if layout.COLUMN_STATS not in client.config.metadata_partitions:
        return "missing"
    wanted = options.names(registry.COLUMN_STATS_LIST)
    present = {name.strip() for name in client.config.raw.get(COLUMN_LIST, "").split(",")}
    if wanted and set(wanted) != present:
        return f"columns are {', '.join(wanted)} by the options"
    left_out = are_left_out(client, client.timeline(), options.texts)
    return "a restore by another tool left files out" if left_out else ""


def build_needed(client: TableClient, options: WriteOptions, executor: Executor) -> IndexUpkeep:
    """Build what `needed_indexes` names, while writers go on.

    Args:
        client: the table.
        options: of the table's writers.
        executor: runs the tasks.

    Raises:
        OptionError: columns that an index cannot have.
        TransactionError: a write of another tool is under way and does not end.
        UnsupportedTableError: an index that a table of this kind cannot get.
    """
    needs = needed_indexes(client, options)
    reports: list[BootstrapReport | FileIndexReport] = []
    for need in needs:
        if need.index == layout.RECORD_INDEX:
            reports.append(bootstrap_index(client, options.texts, mapper=executor.map))
        else:
            reports.append(build_file_index(client, need.index, options.texts, mapper=executor.map))
        client.reload()
    return IndexUpkeep(needs, tuple(reports))
