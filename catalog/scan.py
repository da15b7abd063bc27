"""A scan: a query on a table. It plans lazily, and reads only the planned files."""

from __future__ import annotations

import functools
import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.planner import Plan, make_plan
from catalog.rows.slice_rows import needed_columns, slice_rows
from catalog.snapshots.incremental import InstantRange, checkpoint_of
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.indexed_column import IndexedColumn
from pushdown.binding.bind import bind
from pushdown.columns import unknown_column
from pushdown.errors import InexactFilterError, RowCastError, UnknownColumnError
from pushdown.evaluation.rows import matches
from pushdown.expression import HudiExpression, all_of
from pushdown.simplify import simplify
from pushdown.walk import inexact_part
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, valid_mask
from table_format.errors import ArgumentError, MissingFileError, MissingPackageError, require
from table_format.meta_columns import RECORD_KEY

T = TypeVar("T")
_BATCH_ROWS = 65_536
_FEW_FILES = 100


@dataclass(frozen=True, eq=False)
class Scan:
    """A query on a table at one instant; made by `Table.scan`.

    Planning needs statistics only; rows are read by the other methods, each of which plans first. Log files are merged,
    and rows come in the table's current columns.

    Attributes:
        snapshot: the table's state.
        filter: as it was passed, not bound; None for all rows.
        columns: names of the columns wanted, in order; None for all.
        options: see `ScanOptions`.
        instants: the writes whose rows are wanted; None for all.
        case_sensitive: whether columns of the filter that differ in case are different ones.
        time_zone: of the filter's dates and clock times where they are compared with instants.
        expression: the condition on rows: the filter bound to the columns, and that a row is of those writes; None for
            all rows.

    Raises:
        ExpressionError: the filter does not fit the columns, or a wanted column does not exist or is named twice.
    """

    snapshot: Snapshot
    filter: HudiExpression | None
    columns: tuple[str, ...] | None
    options: ScanOptions
    instants: InstantRange | None = None
    case_sensitive: bool = False
    time_zone: str = "UTC"
    expression: HudiExpression | None = field(init=False)

    def __post_init__(self) -> None:
        conditions = [self.filter] if self.instants is None else [self.filter, self.instants.predicate()]
        schema = self.snapshot.schema
        bound = [
            bind(one, schema, case_sensitive=self.case_sensitive, time_zone=self.time_zone)
            for one in conditions
            if one is not None
        ]
        object.__setattr__(self, "expression", simplify(all_of(*bound)) if bound else None)
        _check_columns(self.columns, schema)

    def __reduce__(self) -> tuple[Any, ...]:
        # without the statistics that were loaded: a copy in another process reads what it needs of the same state
        question = (self.filter, self.columns, self.options, self.instants, self.case_sensitive, self.time_zone)
        return _scan_again, (self.snapshot.again(), *question)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        schema = self.snapshot.schema
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    @property
    def checkpoint(self) -> str | None:
        """Time at which the next incremental range begins, to go on after this scan without missing a row.

        The instant of the newest write that the scan sees, in layout 2 of the timeline the greatest completion time;
        "0" if it sees none. A write that is pending in layout 1 has an instant already, so that it is the newest one
        before that; rows of writes after it come again. None for a read-optimized scan, and for a past state in layout
        2, which is one by instants.
        """
        if self.instants is not None:
            return self.instants.checkpoint
        snapshot = self.snapshot
        if snapshot.read_optimized or (snapshot.timeline.layout > 1 and not snapshot.is_latest):
            return None
        return checkpoint_of(snapshot.timeline, snapshot.as_of)

    def plan(self) -> Plan:
        """Which files may hold matching rows, and why: `len` of it is their number, `splits` are the files to read.

        A part of the filter that is not understood narrows nothing; `Plan.unknowns` names it.

        Raises:
            CorruptFileError: the metadata table is damaged.
        """
        return make_plan(self.snapshot, self.expression, self.options, self.instants)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, file by file; as many files are in memory at a time as there are threads.

        Yields:
            Batches of 1 to 65,536 rows with the wanted columns, in the order of the plan.

        Raises:
            CorruptFileError: a data file cannot be read.
            InexactFilterError: a part of the filter was not understood, so rows cannot be selected.
            RowCastError: a row's result depends on a value that cannot be cast to the type of the comparison.
        """
        self.check_understood()
        return until_cleaned(read_plan(self.plan(), self.columns, self.options.threads))

    def to_batch_reader(self) -> pa.RecordBatchReader:
        """`to_batches` as a reader, which other libraries take as a stream; it can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The matching rows as one table, in the order of the plan; raises as `to_batches` does."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self, **arguments: Any) -> Any:
        """The matching rows as a pandas DataFrame.

        Args:
            arguments: for `pyarrow.Table.to_pandas`.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        require("to_pandas", "spark", "pandas", how="pip install pandas, or use to_arrow()")
        return self.to_arrow().to_pandas(**arguments)

    def to_duckdb(self, name: str = "hudi", connection: Any = None) -> Any:
        """The matching rows as a table of DuckDB, held in memory.

        Args:
            name: of the table there.
            connection: a connection of DuckDB; a new one in memory when None.

        Returns:
            The connection.

        Raises:
            MissingPackageError: DuckDB is not installed.
        """
        try:
            duckdb: Any = importlib.import_module("duckdb")
        except ImportError as error:
            raise MissingPackageError("to_duckdb needs duckdb: pip install duckdb, or use to_arrow()") from error
        target = duckdb.connect(":memory:") if connection is None else connection
        target.register(name, self.to_arrow())
        return target

    def count(self) -> int:
        """How many rows match; no row is read where statistics and footers give the exact count.

        Raises:
            InexactFilterError: a part of the filter was not understood, so rows cannot be selected.
            CorruptFileError: a data file cannot be read.
        """
        self.check_understood()
        return count_plan(self.plan(), self.options.threads)

    def check_understood(self) -> None:
        """Refuse to select rows by a filter that evaluation on rows cannot answer exactly.

        Raises:
            InexactFilterError: it has such a part.
        """
        reason = None if self.expression is None else inexact_part(self.expression)
        if reason is not None:
            raise InexactFilterError(
                f"rows cannot be selected by this filter: {reason}. Its plan is right: read the planned files with an "
                "engine that applies the filter to their rows, or take this part out of it"
            )


def _scan_again(snapshot: Callable[[], Snapshot], *question: Any) -> Scan:
    return Scan(snapshot(), *question)


def _check_columns(columns: tuple[str, ...] | None, schema: pa.Schema) -> None:
    for position, name in enumerate(columns or ()):
        if not isinstance(name, str):
            raise ArgumentError(f"names of columns are texts, which {name!r} is not")
        if name not in schema.names:
            root = name.split(".", 1)[0]
            if root in schema.names:
                raise UnknownColumnError(f"{name} is a field of column {root}: name the whole column {root}")
            raise unknown_column(name, schema)
        if name in (columns or ())[:position]:
            raise UnknownColumnError(f"column {name} is named twice; name each column once")


def until_cleaned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; a file of theirs that is gone is explained.

    Raises:
        MissingFileError: there is such a file.
    """
    try:
        yield from batches
    except MissingFileError as error:
        raise MissingFileError(
            f"{error}; a clean, or a rollback, has deleted it since this state of the table was read: refresh the "
            "table, and scan it again"
        ) from error


def read_plan(plan: Plan, columns: tuple[str, ...] | None, threads: int) -> Iterator[pa.RecordBatch]:
    """The rows of the planned files that make the filter true.

    Args:
        plan: what to read.
        columns: the columns wanted; None for all.
        threads: files read at once.

    Yields:
        Non-empty batches with the wanted columns, in the order of the plan.
    """
    wanted = tuple(plan.snapshot.schema.names) if columns is None else columns
    needed = needed_columns(plan.snapshot.schema, wanted, plan.expression)
    for table in _read_ahead(lambda at: _matching(plan, at, needed).select(list(wanted)), range(len(plan)), threads):
        if table.num_rows:
            yield from table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)


def count_plan(plan: Plan, threads: int) -> int:
    """How many rows of the planned files make the filter true.

    Files of which every row matches are counted by statistics or footers, unless log files change them.

    Args:
        plan: what to count.
        threads: files read at once.
    """
    plain = plan.fully_matching & ~plan.snapshot.has_logs[plan.rows]
    known = _known_counts(plan, int(plain.sum()))
    certain = plain & valid_mask(known)
    total = int(pc.sum(known.filter(from_numpy(certain))).as_py() or 0)
    for count, mask in ((_footer_count, plain & ~certain), (_row_count, ~plain)):
        positions: list[int] = np.flatnonzero(mask).tolist()
        total += sum(_read_ahead(functools.partial(count, plan), positions, threads))
    return total


def _read_ahead(work: Callable[[int], T], positions: Iterable[int], threads: int) -> Iterator[T]:
    """Results in order, with a bounded number of items worked on ahead of the consumer."""
    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="hudi-read") as pool:
        try:
            for position in positions:
                pending.append(pool.submit(work, position))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _matching(plan: Plan, position: int, needed: list[str]) -> pa.Table:
    row = int(plan.rows[position])
    table = slice_rows(plan.snapshot, row, needed, plan.expression)
    if plan.expression is None:
        return table
    try:
        return table.filter(matches(plan.expression, table))
    except RowCastError as error:
        raise RowCastError(f"{plan.snapshot.path(row)}: {error}") from None


def _row_count(plan: Plan, position: int) -> int:
    return _matching(plan, position, needed_columns(plan.snapshot.schema, (), plan.expression)).num_rows


def _footer_count(plan: Plan, position: int) -> int:
    path = plan.snapshot.path(int(plan.rows[position]))
    return footer(plan.snapshot.client.storage, str(path)).row_count


def _known_counts(plan: Plan, files: int) -> Any:
    """Rows of each kept file by statistics; for many files the record key's statistics are loaded."""
    snapshot = plan.snapshot
    counts = plan.row_counts
    if files <= _FEW_FILES or counts.null_count < len(counts) or RECORD_KEY not in snapshot.schema.names:
        return counts
    keys = snapshot.indexed_column(RECORD_KEY, pa.string())
    return keys.row_count.take(from_numpy(plan.rows)) if isinstance(keys, IndexedColumn) else counts
