"""Random tables: commits to write one after another, and what the table must hold after them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from catalog import Table
from tests.support.local_writes import LocalTable
from tests.support.table_values import BY_NAME, FAMILIES, PARTITION_VALUES, partition_column

ROW = "row_number"
_KEY_TEXTS = ["k{}", "a,b{}", "x:{}", "id:{},z", "ключ{}", "😀{}", "{}"]
_KEYS = ("text", "int", "long", "date", "composite")
_LATER = ["upsert", "upsert", "upsert", "delete", "insert_overwrite", "insert_overwrite_table", "delete_partition"]


@dataclass(frozen=True)
class Commit:
    """One write: rows, or what to delete."""

    operation: str
    rows: pa.Table | None


@dataclass(frozen=True)
class TablePlan:
    """A table to write.

    Attributes:
        options: of its creation and of each write.
        keys: key columns.
        partitions: partition columns.
        commits: in order.
    """

    options: Mapping[str, Any]
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    commits: tuple[Commit, ...] = field(repr=False)

    def __repr__(self) -> str:
        shown = [(commit.operation, None if commit.rows is None else commit.rows.schema) for commit in self.commits]
        return f"TablePlan({dict(self.options)}, {shown})"

    @contextmanager
    def empty(self) -> Iterator[Written]:
        """The table in its own folder, before the first commit."""
        with TemporaryDirectory(prefix="hudi-catalog-") as folder:
            path = f"{folder}/table"
            yield Written(LocalTable.create(path, None, self.options), path)

    @contextmanager
    def written(self) -> Iterator[Written]:
        """The table in its own folder, after all commits."""
        with self.empty() as written:
            for commit in self.commits:
                self.write(written, commit)
            yield written

    def write(self, written: Written, commit: Commit) -> None:
        if commit.operation == "delete_partition":
            present = sorted({partition for partition, _ in written.rows})
            if present:
                written.table.write("delete_partition", partitions=[present[0].replace("*", "?")])
                written.rows = {slot: row for slot, row in written.rows.items() if slot[0] != present[0]}
            return
        rows = commit.rows
        assert rows is not None
        if commit.operation == "delete":
            rows = rows.select([*self.keys, *self.partitions])
        written.table.write(commit.operation, rows)
        written.apply(commit.operation, rows, self)


@dataclass
class Written:
    """A table that was written, and the number of each row that it must hold, by partition path and key."""

    table: LocalTable
    path: str
    rows: dict[tuple[str, tuple[Any, ...]], int] = field(default_factory=dict)

    def open(self) -> Table:
        return Table.open(self.path)

    def apply(self, operation: str, rows: pa.Table, plan: TablePlan) -> None:
        generator = self.key_generator()
        places = generator.partition_paths(rows).to_pylist()
        keys = zip(*(map(repr, rows.column(name).to_pylist()) for name in plan.keys), strict=True)
        slots = list(zip(places, keys, strict=True))
        if operation == "delete":
            for slot in slots:
                self.rows.pop(slot, None)
            return
        if operation == "insert_overwrite":
            self.rows = {slot: row for slot, row in self.rows.items() if slot[0] not in set(places)}
        elif operation == "insert_overwrite_table":
            self.rows = {}
        numbers: list[Any] = rows.column(ROW).to_pylist()
        self.rows |= dict(zip(slots, numbers, strict=True))

    def key_generator(self) -> Any:
        from table_format.keys.key_generator import from_table_config

        return from_table_config(self.table.client.config)


@st.composite
def table_plans(draw: st.DrawFn, families: tuple[str, ...] = tuple(BY_NAME), most_commits: int = 4) -> TablePlan:
    """Tables of up to six columns besides key, partition and row number."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    key = draw(st.sampled_from(_KEYS))
    partitions = draw(st.lists(st.sampled_from(list(PARTITION_VALUES)), max_size=2, unique=True))
    columns = draw(st.lists(st.sampled_from(families), min_size=1, max_size=6))
    commits = draw(st.integers(1, most_commits))
    operations = [draw(st.sampled_from(["upsert", "bulk_insert", "insert"]))]
    operations += [draw(st.sampled_from(_LATER)) for _ in range(commits - 1)]
    names = [f"c{place}" for place in range(len(columns))]
    made = []
    begun: set[str] = set()
    for number, operation in enumerate(operations):
        if operation == "delete_partition":
            made.append(Commit(operation, None))
            continue
        size = draw(st.integers(1, 25))
        batch = _key_columns(key, size, chance)
        batch |= {f"p{place}": partition_column(kind, size, chance) for place, kind in enumerate(partitions)}
        batch[ROW] = pa.array([number * 1000 + row for row in range(size)], pa.int64())
        # Columns come later, and stay away again; the last one of few is always there.
        for place, (name, family) in enumerate(zip(names, columns, strict=True)):
            if place == 0 or draw(st.integers(0, 3)) > 0:
                chosen = 0 if BY_NAME[family].fixed and name not in begun else draw(st.integers(0, 3))
                batch[name] = BY_NAME[family].column(chosen, size, chance.randrange(2**32))
                begun.add(name)
        made.append(Commit(operation, pa.table(batch)))
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": ",".join(_key_names(key)),
        "hoodie.datasource.write.partitionpath.field": ",".join(f"p{place}" for place in range(len(partitions))),
        "hoodie.bucket.index.num.buckets": draw(st.integers(1, 5)),
        "hoodie.datasource.write.hive_style_partitioning": draw(st.booleans()),
        "hoodie.datasource.write.partitionpath.urlencode": draw(st.booleans()),
        "hoodie.metadata.compact.max.delta.commits": draw(st.sampled_from([1, 2, 10])),
        "hoodie.cleaner.commits.retained": draw(st.sampled_from([1, 10])),
    }
    if draw(st.booleans()):
        options["hoodie.catalog.bucket.max.file.size"] = draw(st.sampled_from([1, 100_000]))
    if key == "composite" and draw(st.booleans()):
        options["hoodie.bucket.index.hash.field"] = draw(st.sampled_from(["k", "k2"]))
    return TablePlan(options, _key_names(key), tuple(f"p{place}" for place in range(len(partitions))), tuple(made))


def _key_names(kind: str) -> tuple[str, ...]:
    return ("k", "k2") if kind == "composite" else ("k",)


def _key_columns(kind: str, size: int, chance: random.Random) -> dict[str, Any]:
    numbers = chance.sample(range(40), size)
    if kind in {"text", "composite"}:
        texts = pa.array([_KEY_TEXTS[number % len(_KEY_TEXTS)].format(number) for number in numbers], pa.string())
        second = pa.array([None if number % 7 == 3 else number // 2 for number in numbers], pa.int64())
        return {"k": texts, "k2": second} if kind == "composite" else {"k": texts}
    if kind == "date":
        return {"k": pa.array(numbers, pa.int32()).cast(pa.date32())}
    return {"k": pa.array(numbers, pa.int32() if kind == "int" else pa.int64())}


assert len(BY_NAME) == len(FAMILIES)
