"""Joins of two tables in this process: bucket by bucket where both hash the join's keys, by DuckDB under a limit."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from catalog.planner import Plan
from catalog.rows.slice_rows import needed_columns, slice_batches
from catalog.scan import Scan, read_plan, until_cleaned
from catalog.stages.bucket import CountedBuckets, simple_buckets
from catalog.stages.named_keys import HashFields, uncertain_keys
from catalog.table import Table
from pushdown.columns import unknown_column
from pushdown.evaluation.rows import matches
from pushdown.verdict import CannotPrune
from table_format.errors import ArgumentError, HudiError, SchemaError, did_you_mean, require
from table_format.keys.java_hash import buckets_of_hashes, list_hash_of
from table_format.keys.key_generator import KeyFields
from table_format.meta_columns import META_COLUMNS
from table_writer.execution.spill_folder import SpillFolder

Keys: TypeAlias = "str | Sequence[str] | Mapping[str, str]"
JOINS: Final = ("inner", "left", "right", "full", "semi", "anti")
DEFAULT_MEMORY: Final = 1 << 30
_LEAST_MEMORY: Final = 64 << 20
_FLIPPED: Final = {"inner": "inner", "left": "right", "right": "left", "full": "full"}
_MATTERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "inner": lambda left, right: left > 0 and right > 0,
    "semi": lambda left, right: left > 0 and right > 0,
    "left": lambda left, _: left > 0,
    "anti": lambda left, _: left > 0,
    "right": lambda _, right: right > 0,
    "full": lambda left, right: left > 0 or right > 0,
}
"""Whether a join has rows, by the numbers of files on the left and on the right."""
_DECODED: Final = 8
"""Bytes in memory of a byte of a compressed file, with what Arrow's reader needs besides; an upper estimate."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of the sides of a join.

    Attributes:
        scan: its rows.
        names: the columns that are read, the keys among them.
        keys: names of the join's keys here.
    """

    scan: Scan
    names: tuple[str, ...]
    keys: tuple[str, ...]

    @functools.cached_property
    def plan(self) -> Plan:
        """The files of the scan."""
        return self.scan.plan()

    @property
    def name(self) -> str:
        """The table's name."""
        return self.scan.snapshot.config.name

    def type_of(self, name: str) -> pa.DataType:
        """The type of a column."""
        kind: pa.DataType = self.scan.snapshot.schema.field(name).type
        return kind

    @functools.cached_property
    def buckets(self) -> Buckets | CannotPrune:
        """Which bucket each file is of, where rows of equal keys are surely in the same one."""
        snapshot, options = self.scan.snapshot, self.scan.options
        hashed = simple_buckets(snapshot, options, by_partition=True)
        if isinstance(hashed, CannotPrune):
            return hashed
        fields, counted = hashed
        strange = [name for name in fields.hashed if name not in self.keys]
        if strange:
            return CannotPrune(f"its buckets are by {', '.join(fields.hashed)}, and {strange[0]} is no key of the join")
        doubt = uncertain_keys(snapshot, fields)
        if doubt is not None:
            return CannotPrune(doubt)
        buckets = Buckets(fields, counted)
        if all(_is_number(self.type_of(name)) for name in fields.key_fields if name in snapshot.schema.names):
            return buckets
        stray = self._stray_text(buckets)  # commas and colons in texts change the bucket, differently by release
        return buckets if stray is None else CannotPrune(stray)

    def _stray_text(self, buckets: Buckets) -> str | None:
        count = buckets.counted.count
        for number in range(count):
            plan = self.part(buckets, count, number)
            for batch in until_cleaned(read_plan(plan, buckets.fields.hashed, self.scan.options.threads)):
                stray = buckets.stray(batch, count, number)
                if stray is not None:
                    return stray
        return None

    def part(self, buckets: Buckets, count: int, number: int) -> Plan:
        """The plan of the files whose bucket is `number` modulo `count`."""
        at = np.flatnonzero(buckets.counted.numbers[self.plan.rows] % count == number)
        return replace(self.plan, rows=self.plan.rows[at], fully_matching=self.plan.fully_matching[at])

    def read(self, plan: Plan, memory: int) -> Iterator[pa.RecordBatch]:
        """The rows of a plan; files are read at once as far as they fit into `memory` bytes, large ones by parts."""
        return until_cleaned(self._read(plan, memory))

    def _read(self, plan: Plan, memory: int) -> Iterator[pa.RecordBatch]:
        largest = int(plan.snapshot.sizes[plan.rows].max(initial=1)) * _DECODED
        if largest <= memory:
            yield from read_plan(plan, self.names, max(1, min(self.scan.options.threads, memory // largest - 1)))
            return
        needed = needed_columns(plan.snapshot.schema, self.names, plan.expression)
        for one in plan.snapshot.file_slices(plan.rows):
            for _, rows in slice_batches(plan.snapshot, one, needed, expression=plan.expression):
                kept = rows if plan.expression is None else rows.filter(matches(plan.expression, rows))
                yield from kept.select(list(self.names)).combine_chunks().to_batches()


@dataclass(frozen=True, eq=False)
class Buckets:
    """The buckets of a side.

    Attributes:
        fields: what is hashed.
        counted: how many there are, and the one of each file.
    """

    fields: HashFields
    counted: CountedBuckets

    def stray(self, batch: pa.RecordBatch, count: int, number: int) -> str | None:
        """A row whose key does not hash to `number` modulo `count`, in words; None if there is none."""
        hashed = KeyFields(batch, self.fields.hashed)
        hashes = list_hash_of([hashed.hashes(name) for name in self.fields.hashed])
        wrong = np.flatnonzero(buckets_of_hashes(hashes, count) != number)
        if not len(wrong):
            return None
        row = batch.select(list(self.fields.hashed)).slice(int(wrong[0]), 1).to_pylist()[0]
        return f"the row with {row} is not in the bucket of its key"


@dataclass(frozen=True, eq=False)
class Join:
    """The join of two tables; nothing is read until rows are asked for. It is an Arrow stream, too.

    Attributes:
        left: the left side.
        right: the right side.
        how: one of `JOINS`.
        output: for each column of the result its name, the side (0 or 1) that it is from, and its name there.
        schema: of the result.
        memory: bytes that the join takes at most, about; DuckDB uses temporary files beyond its half.
        by_buckets: False joins all rows at once in any case.
    """

    left: Side
    right: Side
    how: str
    output: tuple[tuple[str, int, str], ...]
    schema: pa.Schema
    memory: int
    by_buckets: bool = True

    @functools.cached_property
    def steps(self) -> int | CannotPrune:
        """How many joins of buckets it takes; or why all rows are joined at once."""
        if not self.by_buckets:
            return CannotPrune("by_buckets is False")
        sizes = []
        for side in (self.left, self.right):
            buckets = side.buckets
            if isinstance(buckets, CannotPrune):
                return CannotPrune(f"{side.name}: {buckets.reason}")
            sizes.append(buckets)
        paired = dict(zip(self.left.keys, self.right.keys, strict=True))
        if [paired[name] for name in sizes[0].fields.hashed] != [*sizes[1].fields.hashed]:
            hashed = " and ".join(", ".join(one.fields.hashed) for one in sizes)
            return CannotPrune(f"the tables hash different keys: {hashed}")
        for left, right in paired.items():
            kinds = self.left.type_of(left), self.right.type_of(right)
            if left in sizes[0].fields.hashed and not _hash_alike(*kinds):
                return CannotPrune(f"{left} is a {kinds[0]}, and {right} a {kinds[1]}, which hash differently")
        counts = sizes[0].counted.count, sizes[1].counted.count
        if max(counts) % min(counts):
            return CannotPrune(f"neither of the numbers of buckets, {counts[0]} and {counts[1]}, divides the other")
        return math.gcd(*counts)

    def explain(self) -> str:
        """How the rows are joined, in a line."""
        steps = self.steps
        files = f"{len(self.left.plan):,} files of {self.left.name} and {len(self.right.plan):,} of {self.right.name}"
        if isinstance(steps, CannotPrune):
            return f"{self.how} join of all rows at once, {files}: {steps.reason}"
        return f"{self.how} join by buckets, in {steps:,} steps, {files}"

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the result, in no order.

        Raises:
            MissingPackageError: DuckDB is not installed.
            HudiError: a file cannot be read, or DuckDB cannot join the rows.
        """
        require("a join", "sql", "duckdb")
        import duckdb

        for side in (self.left, self.right):
            side.scan.check_understood()
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(SpillFolder())
            config: dict[str, Any] = {"memory_limit": f"{self.memory // 2}B", "temp_directory": folder.path}
            connection = stack.enter_context(contextlib.closing(duckdb.connect(config=config)))
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")  # it would print among the rows
            # it knows no sizes of streams; the side that is held in memory is chosen here
            connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
            for pair in self._pairs():
                yield from self._joined(connection, pair, duckdb.Error)

    def to_batch_reader(self) -> pa.RecordBatchReader:
        """`to_batches` as a reader, which can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The rows of the result as one table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader: Any = self.to_batch_reader()
        return reader.__arrow_c_stream__(requested_schema)

    def _pairs(self) -> Iterator[tuple[_Rows, _Rows]]:
        """The rows to join with each other, of each step."""
        steps, share = self.steps, self.memory // 4
        if isinstance(steps, CannotPrune):
            yield _Rows(self.left, self.left.plan, share), _Rows(self.right, self.right.plan, share)
            return
        for number in range(steps):
            rows = []
            for side in (self.left, self.right):
                buckets = side.buckets
                assert not isinstance(buckets, CannotPrune)  # noqa: S101  # `steps` has seen to it
                rows.append(_Rows(side, side.part(buckets, steps, number), share, (buckets, steps, number)))
            if _MATTERS[self.how](len(rows[0].plan), len(rows[1].plan)):
                yield rows[0], rows[1]

    def _joined(
        self, connection: Any, pair: tuple[_Rows, _Rows], duckdb_error: type[Exception]
    ) -> Iterator[pa.RecordBatch]:
        failures: list[BaseException] = []
        for letter, rows in zip("lr", pair, strict=True):
            connection.register(letter, rows.reader(letter, failures))
        try:
            result = pa.RecordBatchReader.from_stream(connection.sql(self._sql(pair)))
            for batch in result:
                if batch.num_rows:
                    renamed = pa.Table.from_batches([batch]).rename_columns(self.schema.names)
                    yield from renamed.cast(self.schema).combine_chunks().to_batches()
        except (duckdb_error, pa.ArrowException, OSError) as error:
            if failures:
                raise failures[0] from error
            reason = str(error).partition("\n")[0]
            raise HudiError(f"{self.left.name} and {self.right.name} cannot be joined: {reason}") from error
        for letter in "lr":
            connection.unregister(letter)

    def _sql(self, pair: tuple[_Rows, _Rows]) -> str:
        places = [
            {name: f"{letter}{at}" for at, name in enumerate(side.names)}
            for letter, side in zip("lr", (self.left, self.right), strict=True)
        ]
        paired = dict(zip(self.left.keys, self.right.keys, strict=True))
        columns = []
        for _, side, name in self.output:
            text = places[side][name]
            if side == 0 and name in paired and self.how in {"right", "full"}:
                text = f"coalesce({text}, {places[1][paired[name]]})"
            columns.append(text)
        on = " AND ".join(f"{places[0][left]} = {places[1][right]}" for left, right in paired.items())
        kind, tables = self.how, "lr"
        if pair[0].nbytes < pair[1].nbytes and kind in _FLIPPED:
            kind, tables = _FLIPPED[kind], "rl"  # DuckDB holds the second in memory
        return f"SELECT {', '.join(columns)} FROM {tables[0]} {kind.upper()} JOIN {tables[1]} ON {on}"  # noqa: S608


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a side that are joined in one step; `check` tells the bucket that they have to be of."""

    side: Side
    plan: Plan
    memory: int
    check: tuple[Buckets, int, int] | None = None

    @property
    def nbytes(self) -> int:
        return self.plan.bytes_kept

    def reader(self, letter: str, failures: list[BaseException]) -> pa.RecordBatchReader:
        """The rows for DuckDB, under names that it takes as they are."""
        names = [f"{letter}{at}" for at in range(len(self.side.names))]
        schema = pa.schema(
            [pa.field(new, self.side.type_of(name)) for new, name in zip(names, self.side.names, strict=True)]
        )

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for batch in self.side.read(self.plan, self.memory):
                    self._refuse_strays(batch)
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            except BaseException as error:
                failures.append(error)  # DuckDB would raise its own, with the text of this one
                raise

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _refuse_strays(self, batch: pa.RecordBatch) -> None:
        if self.check is None:
            return
        buckets, count, number = self.check
        stray = buckets.stray(batch, count, number)
        if stray is not None:
            uri = self.plan.snapshot.client.storage.uri
            raise SchemaError(f"{uri}: {stray}: join with by_buckets=False, and check the table's bucket count")


def join(
    left: Table | Scan,
    right: Table | Scan,
    on: Keys,
    how: str = "inner",
    *,
    columns: Sequence[str] | None = None,
    suffix: str = "_right",
    memory: int = DEFAULT_MEMORY,
    by_buckets: bool = True,
) -> Join:
    """Join two tables; nothing is read yet.

    Where both tables have simple buckets by keys of the join, as many of them or a multiple, and hash them alike, rows
    of equal keys are in buckets of the same number, and one bucket after the other is joined. Otherwise DuckDB joins
    all rows at once, with temporary files where they exceed the memory; `Join.explain` tells the reason.

    Args:
        left: a table, or a scan of one.
        right: likewise.
        on: the columns whose values are equal in rows that match: a name, names, or a dict from names of the left side
            to those of the right one. Nulls match nothing.
        how: `inner`, `left`, `right` or `full`, or the rows of the left side that have a match (`semi`) or none
            (`anti`).
        columns: names of the result's columns that are wanted, in order; None for all: the left side's, then the right
            one's without keys. Keys have the left side's names, and the right side's values where there is no left row.
            Hudi's meta columns are not among them.
        suffix: is added to names of the right side that the left one has, too.
        memory: bytes that the join takes at most, about; at least 64 MiB.
        by_buckets: False joins all rows at once in any case.

    Raises:
        ArgumentError: an argument is not one of those above.
        ExpressionError: there is no such column.
    """
    if how not in JOINS:
        raise ArgumentError(f"how={how!r}: give one of {', '.join(JOINS)}{did_you_mean(str(how), JOINS)}")
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < _LEAST_MEMORY:
        raise ArgumentError(f"memory={memory!r}: give {_LEAST_MEMORY:,} bytes or more")
    pairs = _key_pairs(on)
    scans = [one if isinstance(one, Scan) else _scan(one) for one in (left, right)]
    known = [_columns(scan) for scan in scans]
    for scan, names, keys in zip(scans, known, (pairs, pairs.values()), strict=True):
        for key in keys:
            if key not in names:
                raise unknown_column(key, pa.schema([scan.snapshot.schema.field(name) for name in names]))
    output = _output(known, pairs, how, suffix)
    if columns is not None:
        by_name = {entry[0]: entry for entry in output}
        for name in columns:
            if name not in by_name:
                raise ArgumentError(
                    f"the join has no column {name!r}{did_you_mean(name, by_name)}: it has {[*by_name]}"
                )
        output = [by_name[name] for name in dict.fromkeys(columns)]
    sides = []
    for number, (scan, keys) in enumerate(zip(scans, (tuple(pairs), tuple(pairs.values())), strict=True)):
        wanted = tuple(dict.fromkeys((*keys, *(name for _, side, name in output if side == number))))
        sides.append(Side(replace(scan, columns=wanted), wanted, keys))
    schema = _schema(sides, output, pairs, how)
    return Join(sides[0], sides[1], how, tuple(output), schema, memory, by_buckets=by_buckets)


def _scan(table: Any) -> Scan:
    if not isinstance(table, Table):
        raise ArgumentError(f"join takes tables and scans of them, not {type(table).__name__}")
    return table.scan()


def _key_pairs(on: Keys) -> dict[str, str]:
    """The keys of the left side, each with that of the right side."""
    if isinstance(on, Mapping):
        pairs = dict(on)
    else:
        names = [on] if isinstance(on, str) or not isinstance(on, Iterable) else [*on]
        pairs = dict(zip(names, names, strict=True))
    if not pairs or not all(isinstance(name, str) for name in (*pairs, *pairs.values())):
        raise ArgumentError("join needs on: a column, or a list of columns, or a dict from left to right columns")
    return pairs


def _columns(scan: Scan) -> list[str]:
    if scan.columns is not None:
        return [*scan.columns]
    return [name for name in scan.snapshot.schema.names if name not in META_COLUMNS]


def _output(
    known: Sequence[Sequence[str]], pairs: Mapping[str, str], how: str, suffix: str
) -> list[tuple[str, int, str]]:
    output = [(name, 0, name) for name in known[0]]
    if how in {"semi", "anti"}:
        return output
    taken = {*known[0]}
    for name in known[1]:
        if name in pairs.values():
            continue
        label = name + suffix if name in taken else name
        if label in taken:
            raise ArgumentError(f"both sides have a column {name!r}, and there is a {label!r}: give another suffix")
        taken.add(label)
        output.append((label, 1, name))
    return output


def _schema(
    sides: Sequence[Side], output: Sequence[tuple[str, int, str]], pairs: Mapping[str, str], how: str
) -> pa.Schema:
    fields = []
    for label, side, name in output:
        kind = sides[side].type_of(name)
        if side == 0 and name in pairs and how in {"right", "full"}:
            other = sides[1].type_of(pairs[name])
            if kind != other:
                if not (pa.types.is_integer(kind) and pa.types.is_integer(other)):
                    raise ArgumentError(
                        f"{name} is a {kind} on the left and a {other} on the right; a {how} join needs one type"
                    )
                kind = pa.int64()
        fields.append(pa.field(label, kind))
    return pa.schema(fields)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_date32(kind))


def _hash_alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether equal values have equal texts in keys."""
    return left == right or bool(pa.types.is_signed_integer(left) and pa.types.is_signed_integer(right))
