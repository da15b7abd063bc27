"""Partitions as a metastore holds them: which a table has, and what makes the metastore's those.

All partitions are compared with each sync, whatever was synced before: one that was missed is found, and one that was
dropped and written again between two syncs is not lost.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pyarrow.compute

from catalog.snapshot import Snapshot
from catalog.sync.changes import ALTER, CREATE, DROP, Change
from catalog.sync.metastore import HivePartition, HiveTable, Metastore
from pushdown.verdict import CannotPrune
from table_format.errors import UnsupportedTableError
from table_format.partition_values import DEFAULT_PARTITION

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


def live_partitions(snapshot: Snapshot) -> list[str]:
    """Paths of the partitions that hold files, in order."""
    live = pc.unique(pyarrow.array(snapshot.partition_index[snapshot.live_rows]))
    numbers: list[Any] = live.to_pylist()
    return sorted(snapshot.partitions[number] for number in numbers)


def partitions_of(snapshot: Snapshot, location: str, reader: str) -> dict[str, HivePartition]:
    """The partitions of a table by their paths, with the values that the paths tell.

    Args:
        snapshot: of the table.
        location: of the table, as the engine spells it.
        reader: who is to read them, for messages.

    Raises:
        UnsupportedTableError: a path does not tell the values, which the reader takes from the metastore.
    """
    fields = snapshot.config.partition_fields
    if not fields:
        return {}
    told = snapshot.path_values()
    name = snapshot.config.name
    if isinstance(told, CannotPrune):
        raise UnsupportedTableError(f"{name}: cannot be registered for {reader}: {told.reason}")
    by_name = {column.lower(): values for column, values in told.values.items()}
    missing = [field for field in fields if field.lower() not in by_name]
    live = {path: number for number, path in enumerate(snapshot.partitions)}
    live = {path: live[path] for path in live_partitions(snapshot)}
    unknown = [path for path, number in live.items() if not told.known[number]]
    if missing or unknown:
        what = f"partition column {missing[0]}" if missing else f"partition {unknown[0]!r}"
        raise UnsupportedTableError(
            f"{name}: cannot be registered for {reader}: paths do not tell the values of {what}"
        )
    texts = [pc.cast(by_name[field.lower()], "string").fill_null(DEFAULT_PARTITION).to_pylist() for field in fields]
    return {
        path: HivePartition(tuple(column[number] or DEFAULT_PARTITION for column in texts), f"{location}/{path}")
        for path, number in live.items()
    }


class PartitionChanges:
    """What makes a metastore's partitions those of a table.

    Args:
        metastore: to be changed.
        before: the entry as it is; None when there is none yet.
        after: as it should be.
        wanted: its partitions.
    """

    def __init__(
        self, metastore: Metastore, before: HiveTable | None, after: HiveTable, wanted: Collection[HivePartition]
    ) -> None:
        self._metastore = metastore
        self._table = after
        old = {one.values: one for one in registered(metastore, before, after)}
        self._put = [one for one in wanted if not _is_same(old.get(one.values), one, after)]
        self._drop = sorted(old.keys() - {one.values for one in wanted})
        self._old = old

    def changes(self) -> list[Change]:
        """As they are printed."""
        put = [self._change(one) for one in self._put]
        return put + [Change(DROP, self._said(values), self._old[values].location) for values in self._drop]

    def make(self) -> None:
        """Make them."""
        if self._put:
            self._metastore.put_partitions(self._table, self._put)
        if self._drop:
            self._metastore.drop_partitions(self._table, self._drop)

    def _change(self, one: HivePartition) -> Change:
        old = self._old.get(one.values)
        if old is None:
            return Change(CREATE, self._said(one.values), "", one.location)
        if old.location != one.location:
            return Change(ALTER, self._said(one.values), old.location, one.location)
        return Change(ALTER, f"columns of {self._said(one.values)}")

    def _said(self, values: tuple[str, ...]) -> str:
        columns = self._table.partition_columns
        path = "/".join(f"{column.name}={value}" for column, value in zip(columns, values, strict=True))
        return f"partition {path} of {self._table.schema}.{self._table.name}"


def registered(metastore: Metastore, before: HiveTable | None, after: HiveTable) -> list[HivePartition]:
    """The partitions that an entry has and keeps: none where the columns that they go by change.

    Args:
        metastore: with the entry.
        before: the entry as it is; None when there is none yet.
        after: as it should be.
    """
    if before is None or not after.partition_columns or _keys(before) != _keys(after):
        return []
    return metastore.partitions(before)


def _keys(table: HiveTable) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in table.partition_columns]


def _is_same(old: HivePartition | None, new: HivePartition, table: HiveTable) -> bool:
    """Whether a partition is as it should be, in the metastore's eyes too, which keeps columns of each."""
    if old is None or old.location != new.location:
        return False
    typed = [(column.name, column.type) for column in old.columns or table.columns]
    classes = replace(old.format or table.format, serde_parameters={})
    return typed == [(column.name, column.type) for column in table.columns] and classes == replace(
        table.format, serde_parameters={}
    )
