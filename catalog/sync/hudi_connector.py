"""The entry under which Trino's own Hudi connector reads a table.

That connector lists the table's folders itself, those of the partitions that the metastore names: of a partitioned
table without partitions in the metastore it silently reads nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.compute

from catalog.snapshot import Snapshot
from catalog.sync import entries
from catalog.sync.changes import ALTER, CREATE, DROP, Change
from catalog.sync.metastore import HUDI, HivePartition, HiveTable, Metastore
from pushdown.verdict import CannotPrune
from table_format.errors import UnsupportedTableError
from table_format.partition_values import DEFAULT_PARTITION

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


def hudi_entry(entry: HiveTable, snapshot: Snapshot, name: str, location: str) -> HiveTable:
    """The entry beside ours; partition columns stand apart from the others in it, for the connector asks for that.

    Args:
        entry: ours.
        snapshot: of the table.
        name: of the other entry.
        location: of the table, as the engine spells it.
    """
    fields = [field.lower() for field in snapshot.config.partition_fields]
    by_name = {column.name: column for column in entry.columns}
    parameters = {"EXTERNAL": "TRUE", entries.BASE_PATH: entry.parameters[entries.BASE_PATH], entries.TARGET: "hudi"}
    return replace(
        entry,
        name=name,
        columns=tuple(column for column in entry.columns if column.name not in fields),
        partition_columns=tuple(by_name[field] for field in fields),
        location=location,
        format=HUDI,
        parameters=parameters,
    )


def partitions_of(snapshot: Snapshot, location: str) -> list[HivePartition]:
    """The partitions of a table, with the values that their paths tell.

    Args:
        snapshot: of the table.
        location: of the table, as the engine spells it.

    Raises:
        UnsupportedTableError: a path does not tell the values, which the connector takes from the metastore.
    """
    fields = snapshot.config.partition_fields
    if not fields:
        return []
    told = snapshot.path_values()
    name = snapshot.config.name
    if isinstance(told, CannotPrune):
        raise UnsupportedTableError(f"{name}: cannot be registered for Trino's Hudi connector: {told.reason}")
    by_name = {column.lower(): values for column, values in told.values.items()}
    missing = [field for field in fields if field.lower() not in by_name]
    live = sorted({int(number) for number in snapshot.partition_index[snapshot.live_rows]})
    unknown = [snapshot.partitions[number] for number in live if not told.known[number]]
    if missing or unknown:
        what = f"partition column {missing[0]}" if missing else f"partition {unknown[0]!r}"
        raise UnsupportedTableError(
            f"{name}: cannot be registered for Trino's Hudi connector: paths do not tell the values of {what}"
        )
    texts = [pc.cast(by_name[field.lower()], "string").fill_null(DEFAULT_PARTITION).to_pylist() for field in fields]
    return [
        HivePartition(tuple(column[number] or DEFAULT_PARTITION for column in texts), f"{location}/{path}")
        for number in live
        for path in (snapshot.partitions[number],)
    ]


class PartitionChanges:
    """What makes a metastore's partitions those of a table.

    Args:
        metastore: to be changed.
        before: the entry as it is; None when there is none yet.
        after: as it should be.
        wanted: its partitions.
    """

    def __init__(
        self, metastore: Metastore, before: HiveTable | None, after: HiveTable, wanted: list[HivePartition]
    ) -> None:
        self._metastore = metastore
        self._table = after
        there = before is not None and before.partition_columns == after.partition_columns and after.partition_columns
        old = {one.values: one.location for one in metastore.partitions(after)} if there else {}
        self._put = [one for one in wanted if old.get(one.values) != one.location]
        self._drop = sorted(old.keys() - {one.values for one in wanted})
        self._old = old

    def changes(self) -> list[Change]:
        """As they are printed."""
        put = [
            Change(ALTER if one.values in self._old else CREATE, self._said(one.values), "", one.location)
            for one in self._put
        ]
        return put + [Change(DROP, self._said(values), self._old[values]) for values in self._drop]

    def make(self) -> None:
        """Make them."""
        if self._put:
            self._metastore.put_partitions(self._table, self._put)
        if self._drop:
            self._metastore.drop_partitions(self._table, self._drop)

    def _said(self, values: tuple[str, ...]) -> str:
        columns = self._table.partition_columns
        path = "/".join(f"{column.name}={value}" for column, value in zip(columns, values, strict=True))
        return f"partition {path} of {self._table.schema}.{self._table.name}"
