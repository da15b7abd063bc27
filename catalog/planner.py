"""Planning of a scan: the pruning stages in order, each of which narrows the files left by the one before."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.snapshots.incremental import InstantRange
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.splits.file_splits import Splits, SplitSource
from catalog.splits.residuals import Residuals
from catalog.splits.splitter import SplitRules, Splitter
from catalog.stages.bucket import keep_sample, prune_by_bucket
from catalog.stages.column_stats import prune_by_column_statistics
from catalog.stages.partition import prune_by_partition, prune_by_partition_statistics
from catalog.stages.record_key import prune_by_bloom_filter, prune_by_record_key
from catalog.stages.stage import FileRows, Stage, StageInput, StageResult
from catalog.statistics.indexed_column import IndexedColumn
from pushdown.expression import Constant, HudiExpression
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import columns_of, reasons_of
from table_format.codecs.arrow_numpy import from_numpy

KEPT, DEAD = -1, -2
"""Values of `Plan.dropped_by` beside positions of stages."""
STAGES: tuple[tuple[str, Stage], ...] = (
    ("partition", prune_by_partition),
    ("record key", prune_by_record_key),
    ("bucket", prune_by_bucket),
    ("partition statistics", prune_by_partition_statistics),
    ("column statistics", prune_by_column_statistics),
    ("bloom filter", prune_by_bloom_filter),
)
"""Cheapest first: stages that read paths and keys before stages that read an index of all files."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Which files a scan reads, and why; its length is the number of files.

    Attributes:
        snapshot: the table at the instant of the scan.
        expression: the bound filter; None for all rows.
        options: of the scan.
        results: what each stage did with the files of the snapshot, in order; see `stages`.
        rows: positions of the kept files in the snapshot's files.
        fully_matching: for each kept file, whether statistics prove that all its rows match.
        dropped_by: for each position of the snapshot, the position of the stage that dropped its files; `KEPT`; or
            `DEAD` for a slice that a refresh superseded.
        seconds: how long planning took.
    """

    snapshot: Snapshot
    expression: HudiExpression | None
    options: ScanOptions
    results: tuple[StageResult, ...]
    rows: FileRows
    fully_matching: NDArray[np.bool_]
    dropped_by: NDArray[np.int8]
    seconds: float

    def __len__(self) -> int:
        return len(self.rows)

    @functools.cached_property
    def splits(self) -> Splits:
        """The files or parts of files to read, made when iterated over."""
        snapshot, options = self.snapshot, self.options
        residuals = Residuals(self.expression, snapshot.path_statistics(), len(snapshot.partitions))
        source = SplitSource(
            snapshot=snapshot,
            rows=self.rows,
            fully_matching=self.fully_matching,
            row_counts=self.row_counts,
            residuals=residuals,
            split_size=options.split_size,
            splitter=Splitter(SplitRules(threads=options.threads)),
        )
        return Splits(len(self), source.make, residuals, one_a_file=options.split_size is None)

    @functools.cached_property
    def row_counts(self) -> Any:
        """Rows of each kept file, from statistics that planning has loaded; null where not known."""
        for column in columns_of(self.expression) if self.expression is not None else ():
            indexed = self.snapshot.cached_column(column)
            if isinstance(indexed, IndexedColumn):
                return indexed.row_count.take(from_numpy(self.rows))
        return pa.nulls(len(self), pa.int64())

    @property
    def files_total(self) -> int:
        """Files of the table at this instant."""
        return len(self.detailed.snapshot.live_rows)

    @property
    def bytes_total(self) -> int:
        """Bytes of the table's files at this instant."""
        return self.detailed.snapshot.live_bytes

    @property
    def stages(self) -> tuple[StageResult, ...]:
        """What each stage did with the files of the table, in order."""
        return self.detailed.results

    @functools.cached_property
    def detailed(self) -> Plan:
        """The plan over all files of the table: itself, unless only files of few partitions were listed."""
        if self.snapshot.whole is None:
            return self
        whole = self.snapshot.whole().with_block_size(self.snapshot.block_size)
        return make_plan(whole, self.expression, self.options)

    @property
    def bytes_kept(self) -> int:
        """Bytes of the kept files."""
        return int(self.snapshot.sizes[self.rows].sum())

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Parts of the filter that were not understood, and so narrowed the plan by nulls at most."""
        return () if self.expression is None else reasons_of(self.expression)


def make_plan(
    snapshot: Snapshot,
    expression: HudiExpression | None,
    options: ScanOptions,
    instants: InstantRange | None = None,
) -> Plan:
    """Run the stages on a snapshot.

    Args:
        snapshot: what is scanned.
        expression: a filter bound to the snapshot's schema and simplified; None for all rows.
        options: of the scan.
        instants: the writes whose rows are wanted; None for all. The expression has that condition too.

    Raises:
        OptionError: the options ask for a sample that the table's buckets do not give.
    """
    begin = time.perf_counter()
    count = len(snapshot)
    rows: FileRows = snapshot.live_rows
    matched = np.full(count, expression is None, np.bool_)
    live = snapshot.slices.live
    dropped_by = np.full(count, KEPT, np.int8) if live is None else np.where(live, np.int8(KEPT), np.int8(DEAD))
    results = []
    size = snapshot.live_bytes
    wanted = _wanted_stages(options, instants)
    condition = Constant(value=True) if expression is None else expression
    memo: dict[str, Any] = {}
    for position, (name, stage) in enumerate((*wanted, *STAGES)):
        started = time.perf_counter()
        before = len(rows), size
        verdict: Verdict = CannotPrune("there is no filter")
        if expression is not None or position < len(wanted):
            verdict = stage(StageInput(snapshot, condition, rows, options, memo))
        if not isinstance(verdict, CannotPrune):
            if verdict.matched is not None and verdict.matched.any():
                matched[rows[verdict.matched]] = True
            kept = np.flatnonzero(verdict.keep)
            if len(kept) < len(rows):
                dropped_by[dropped_by == KEPT] = position
                rows = rows[kept]
                dropped_by[rows] = KEPT
                size = int(snapshot.sizes[rows].sum())
        results.append(_result(name, before, (len(rows), size), verdict, started))
    return Plan(
        snapshot, expression, options, tuple(results), rows, matched[rows], dropped_by, time.perf_counter() - begin
    )


def _wanted_stages(options: ScanOptions, instants: InstantRange | None) -> tuple[tuple[str, Stage], ...]:
    """The stages that choose what a scan is of, before those that its filter narrows."""
    sample = options.sample
    sampled = () if sample is None else (("sample", functools.partial(keep_sample, sample=sample)),)
    return sampled if instants is None else (*sampled, ("instant range", instant_stage(instants)))


def _result(name: str, before: tuple[int, int], after: tuple[int, int], verdict: Verdict, begin: float) -> StageResult:
    return StageResult(
        name=name,
        files_in=before[0],
        files_out=after[0],
        bytes_in=before[1],
        bytes_out=after[1],
        pruned=not isinstance(verdict, CannotPrune),
        reason=verdict.reason,
        seconds=time.perf_counter() - begin,
    )


def instant_stage(instants: InstantRange) -> Stage:
    """The stage of an incremental scan: keeps file slices that commits of the range may have written to."""
    return functools.partial(_prune_by_instants, instants)


def _prune_by_instants(instants: InstantRange, stage_input: StageInput) -> Verdict:
    keep = instants.may_hold(stage_input.snapshot.slices.listed)[stage_input.rows]
    return Candidates(keep, f"{int(keep.sum()):,} files may hold rows written {instants.label}")
