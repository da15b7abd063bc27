"""A scan of few partitions of a table: only their files and statistics are read, whatever the size of the table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.slices.path_values import PartitionPaths, misplaces_rows, path_fields
from catalog.snapshots.snapshot import Snapshot, whole_schema
from catalog.stages.partition import matching_partitions
from pushdown.expression import HudiExpression
from pushdown.verdict import CannotPrune
from pushdown.walk import columns_of
from table_format.codecs.arrow_numpy import from_numpy
from table_format.metadata_table.reader import MetadataTable
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline

_ONE_OF = 8
"""Partitions are looked up one by one if at most one in this many is wanted; else the whole listing is as fast."""


@dataclass(frozen=True, eq=False)
class PinnedTable:
    """The state of a table that scans read, before its files are listed.

    Attributes:
        client: of the table.
        timeline: as loaded.
        metadata_table: as of the timeline; None if the table has none.
    """

    client: TableClient
    timeline: Timeline
    metadata_table: MetadataTable | None

    @classmethod
    def of(cls, client: TableClient) -> PinnedTable:
        """The newest state."""
        timeline = client.timeline()
        return cls(client, timeline, MetadataTable.open(client, timeline))

    @functools.cached_property
    def data_schema(self) -> pa.Schema:
        """The columns, without Hudi's meta columns."""
        return self.client.table_schema(self.timeline)

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return whole_schema(self.client, self.data_schema)

    def snapshot(
        self,
        statistics_limit: int,
        partitions: tuple[str, ...] | None = None,
        whole: Callable[[], Snapshot] | None = None,
    ) -> Snapshot:
        """The state with its files; arguments as of `Snapshot`."""
        return Snapshot(
            self.client,
            self.timeline,
            statistics_limit=statistics_limit,
            metadata_table=self.metadata_table,
            partitions=partitions,
            whole=whole,
        )

    def partitions_for(self, expression: HudiExpression) -> tuple[str, ...] | None:
        """The partitions in which rows can match a filter, if they are few; None if all files should be listed.

        A table with a record index is listed whole: only all its files show whether keys are unique.

        Args:
            expression: bound to the columns.
        """
        table = self.metadata_table
        if table is None or "record_index" in table.partitions or not self._names_partitions(expression):
            return None
        names: Any = self._paths.partitions
        values = self._paths.values()
        matching = None if isinstance(values, CannotPrune) else matching_partitions(expression, values, len(names))
        if matching is None or _ONE_OF * int(matching[0].sum()) > len(names):
            return None
        chosen: Any = pc.filter(names, from_numpy(matching[0]))
        return tuple(sorted(chosen.to_pylist()))

    def _names_partitions(self, expression: HudiExpression) -> bool:
        """Whether a filter names a partition column; else the partition paths needn't be read."""
        fields = path_fields(self.client.config)
        names = () if isinstance(fields, CannotPrune) else {field.name.casefold() for field in fields}
        return any(column.casefold() in names for column in columns_of(expression))

    @functools.cached_property
    def _paths(self) -> PartitionPaths:
        names: Any = [] if self.metadata_table is None else self.metadata_table.partition_paths()
        return PartitionPaths(self.client.config, self.data_schema, names, misplaces_rows(self.client))
