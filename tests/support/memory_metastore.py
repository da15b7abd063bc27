"""A metastore in memory, which may die at any step, before it or when it is done.

It is as strict as a Hive Metastore: partitions keep columns and classes of their own, a table whose partition columns
change loses its partitions, and what a client sends is cut off from what it holds.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hudi_catalog.metastore.metastore import ColumnStatistics, HivePartition, HiveTable
from table_format.errors import MetastoreError

_Key = tuple[str, str]


class KilledError(MetastoreError):
    """The step at which a metastore was to die."""


class MemoryMetastore:
    """A dictionary with the methods of a metastore.

    Attributes:
        die_at: the step, counted from 0, at which calls begin to fail; None for never.
        half_done: whether that step is still carried out.
        steps: that were taken; each partition that is put or dropped is one.
        statistics: of columns, by entry and values of a partition.
        accurate: what a Hive Metastore has marked as accurate, likewise.
    """

    uri = "memory:"
    keeps_statistics = True

    def __init__(self) -> None:
        self.databases = {"default"}
        self.folders: dict[str, list[str]] = {}
        self.held: dict[_Key, HiveTable] = {}
        self.parts: dict[_Key, dict[tuple[str, ...], HivePartition]] = {}
        self.statistics: dict[tuple[_Key, tuple[str, ...]], list[ColumnStatistics]] = {}
        self.accurate: set[tuple[_Key, tuple[str, ...]]] = set()
        self.die_at: int | None = None
        self.half_done = False
        self.steps = 0

    @contextmanager
    def _step(self, *, reads: bool = False) -> Iterator[None]:
        dies = self.die_at is not None and self.steps >= self.die_at
        self.steps += 1
        if dies and not (self.half_done and self.steps == (self.die_at or 0) + 1 and not reads):
            raise KilledError("memory: killed")
        yield
        if dies:
            raise KilledError("memory: killed when it was done")

    def schemas(self) -> list[str]:
        with self._step(reads=True):
            return sorted(self.databases)

    def create_schema(self, name: str) -> bool:
        with self._step():
            new = name not in self.databases
            self.databases.add(name)
            return new

    def schema_folders(self, name: str) -> list[str]:
        return self.folders.get(name, [])

    def tables(self, schema: str) -> list[str]:
        with self._step(reads=True):
            return sorted(name for database, name in self.held if database == schema)

    def table(self, schema: str, name: str) -> HiveTable | None:
        with self._step(reads=True):
            return copy.deepcopy(self.held.get((schema, name)))

    def put_table(self, table: HiveTable) -> None:
        key = (table.schema, table.name)
        before = self.held.get(key)
        if before is not None and _is_refused(before, table):
            with self._step():  # as a Hive Metastore must have it: dropped, and recreated
                del self.held[key]
                self._forget(key)
        with self._step():
            assert table.schema in self.databases, "no such database"
            self.accurate.discard((key, ()))  # the mark is one of the parameters, which are replaced
            self.held[key] = copy.deepcopy(table)
            self.parts.setdefault(key, {})

    def drop_table(self, schema: str, name: str) -> bool:
        with self._step():
            self._forget((schema, name))
            return self.held.pop((schema, name), None) is not None

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        with self._step(reads=True):
            return list(self.parts[table.schema, table.name].values())

    def partition_values(self, table: HiveTable) -> set[tuple[str, ...]]:
        with self._step(reads=True):
            return set(self.parts[table.schema, table.name])

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        held = self.parts[table.schema, table.name]
        for one in partitions:
            with self._step():
                assert len(one.values) == len(table.partition_columns)
                form = copy.deepcopy(table.format)
                held[one.values] = replace(one, columns=table.columns, format=form)

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        for one in values:
            with self._step():
                self._forget((table.schema, table.name), one)

    def put_statistics(
        self, table: HiveTable, statistics: Mapping[tuple[str, ...], Sequence[ColumnStatistics]]
    ) -> None:
        key = (table.schema, table.name)
        for values, columns in statistics.items():
            assert key in self.held, "no such table"
            assert (values == () and not table.partition_columns) or values in self.parts[key], "no such partition"
            if not columns:
                continue
            with self._step():
                self.statistics[key, values] = list(columns)
                self.accurate.add((key, values))
            with self._step():
                self.accurate.remove((key, values))

    def _forget(self, key: _Key, partition: tuple[str, ...] | None = None) -> None:
        for gone in [partition] if partition is not None else [(), *self.parts.get(key, ())]:
            self.statistics.pop((key, gone), None)
            self.accurate.discard((key, gone))
        if partition is None:
            self.parts.pop(key, None)
        else:
            self.parts[key].pop(partition, None)

    def close(self) -> None:
        """Nothing is held."""


def _is_refused(before: HiveTable, after: HiveTable) -> bool:
    """Whether a Hive Metastore would not alter one into the other: it guards Hive's own files."""
    types = {column.name: column.type for column in after.columns}
    changed = any(types.get(column.name, column.type) != column.type for column in before.columns)
    return changed or before.partition_columns != after.partition_columns
