"""Tables that are read by bucket, nodes of Spark's plan whose rows are placed by key, and their expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catalog.planner import Plan
from catalog.stages.placement import KeyPlacement
from spark_writer.filters import conjuncts
from spark_writer.read.file_index import NativeFiles
from spark_writer.read.file_order import runs_of
from spark_writer.read.jvm import Jvm, elements
from table_format.base_file.key_runs import Run

Keys = tuple[frozenset[int], ...]
Chosen: TypeAlias = tuple[Plan, NDArray[np.int64]]
#: Conditions that Spark adds to leave out rows early; the join itself leaves them out, too.
_OPTIONAL: Final = frozenset({"DynamicPruningSubquery", "BloomFilterMightContain"})
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(eq=False)
class BucketSource:
    """A leaf of Spark's logical plan that reads a table whose rows are placed by key.

    Attributes:
        leaf: Spark's LogicalRelation.
        identity: of the table's state.
        files: of the state.
        placement: of its rows.
        in_order: rows are read in the order of the hash field.
    """

    leaf: Any
    identity: str
    files: NativeFiles
    placement: KeyPlacement
    in_order: bool = False
    _chosen: Chosen | None = field(default=None, init=False)

    def chosen(self, jvm: Jvm, filters: Sequence[Any] = ()) -> Chosen:
        """The plan of the files that are read, and their rows in the state.

        Args:
            jvm: of the query's session.
            filters: conditions right above the leaf; those of the first call count.
        """
        if self._chosen is None:
            plan = self.files.plan(*jvm.conditions(filters))
            self._chosen = plan, plan.rows[np.isin(plan.rows, self.files.part.rows)]
        return self._chosen

    def runs(self, jvm: Jvm, filters: Sequence[Any], tasks: int) -> list[tuple[Run, ...]] | str:
        """For each file that is read its sorted parts; or why so many tasks do not read them in order."""
        rows = self.chosen(jvm, filters)[1]
        return runs_of(self.files, rows, self.placement.buckets.numbers[rows] % tasks)

    def largest(self, tasks: int) -> int:
        """Bytes of the files that the largest of so many tasks reads."""
        rows = self.files.part.rows
        sizes = self.files.scan.snapshot.sizes[rows].astype(np.float64)
        return int(np.bincount(self.placement.buckets.numbers[rows] % tasks, sizes, minlength=1).max())


@dataclass
class Group:
    """Sources that are read by equally many tasks."""

    sources: list[BucketSource]
    used: bool = False

    @property
    def tasks(self) -> int:
        """The least of the bucket counts."""
        return min(one.placement.buckets.count for one in self.sources)

    def why_not(self, other: Group) -> str | None:
        """Why sources of another group cannot be read by the tasks of this one; None if they can."""
        counts = sorted({one.placement.buckets.count for one in (*self.sources, *other.sources)})
        if any(count % counts[0] for count in counts):
            return f"bucket counts {' and '.join(map(str, counts))} do not divide each other"
        return None


@dataclass
class Placed:
    """Rows that are placed by key.

    Attributes:
        group: of the sources.
        keys: for each hash field, the numbers of the columns that hold its values.
    """

    group: Group
    keys: Keys


NOTHING: Final = "it reads no Hudi table"
OTHERS: Final = {"InMemoryRelation": "it reads rows that Spark has cached"}


@dataclass
class Node:
    """A node of Spark's plan.

    Attributes:
        plan: of Spark.
        kind: name of its class.
        children: its own.
        placed: how its rows are placed; or why that is not known.
        source: of a leaf that reads a table.
        by_bucket: whether the node works bucket by bucket.
        sorted: of a join, whether it sorts the rows of its sides.
        merged: of a join, whether it merges them in the order in which files have them.
        disorder: why its rows are not in the order of the hash field, or why they may not be read so; empty if they are
            wherever files are.
        conditions: of a filter.
    """

    plan: Any
    kind: str
    children: list[Node]
    placed: Placed | str = NOTHING
    source: BucketSource | None = None
    by_bucket: bool = False
    sorted: bool = False
    merged: bool = False
    disorder: str = ""
    conditions: list[Any] = field(default_factory=list)

    @property
    def inside(self) -> bool:
        """Whether it is part of what works by buckets."""
        return self.by_bucket or (self.kind in {"Filter", "Project"} and self.children[0].inside)

    def sources(self) -> Iterator[BucketSource]:
        """The sources below it."""
        return (source for source, _ in self.readings())

    def readings(self, above: Sequence[Any] = ()) -> Iterator[tuple[BucketSource, Sequence[Any]]]:
        """The sources below it, and the conditions right above each."""
        if self.source is not None:
            yield self.source, above
        for child in self.children:
            yield from child.readings(self.conditions)

    def joins(self) -> Iterator[Node]:
        """The joins by bucket that it has, itself included."""
        if self.kind == "Join" and self.by_bucket:
            yield self
        for child in self.children:
            yield from child.joins()


def column_of(expression: Any) -> Any:
    """The column of an expression that is one, or a wider integer of one."""
    kind = expression.getClass().getSimpleName()
    if kind == "Cast" and str(expression.dataType().simpleString()) in _INTEGERS:
        inner = column_of(expression.child())
        order = ("tinyint", "smallint", "int", "bigint")
        if inner is None or str(inner.dataType().simpleString()) not in _INTEGERS:
            return None
        before, after = (order.index(str(one.dataType().simpleString())) for one in (inner, expression))
        return inner if before <= after else None
    return expression if kind == "AttributeReference" else None


def alike(one: Any, other: Any) -> bool:
    """Whether equal values of two columns have equal texts in keys."""
    kinds = {str(side.dataType().simpleString()) for side in (one, other)}
    return len(kinds) == 1 or kinds <= _INTEGERS


def numbers_of(attributes: Any) -> frozenset[int]:
    """The numbers of a set of columns, by which Spark tells them apart."""
    return frozenset(int(one.exprId().id()) for one in elements(attributes.toSeq()))


def through(results: Any, placed: Placed | str) -> Placed | str:
    """How rows are placed after columns were renamed or left out."""
    if isinstance(placed, str):
        return placed
    keys: list[set[int]] = [set() for _ in placed.keys]
    for one in elements(results):
        inner = column_of(one.child() if one.getClass().getSimpleName() == "Alias" else one)
        if inner is not None:
            for number, held in enumerate(placed.keys):
                if inner.exprId().id() in held:
                    keys[number].add(int(one.exprId().id()))
    if not all(keys):
        return "a hash field is not among the columns that it reads"
    return Placed(placed.group, tuple(map(frozenset, keys)))


def needed(plan: Any) -> list[Any]:
    """The conditions of a filter, without those that Spark adds for speed."""
    return [one for one in conjuncts(plan.condition()) if str(one.getClass().getSimpleName()) not in _OPTIONAL]


def has_plan(condition: Any) -> bool:
    """Whether a condition has a subquery."""
    if condition.getClass().getSimpleName().endswith(("Subquery", "Exists")):
        return True
    return any(map(has_plan, elements(condition.children())))
