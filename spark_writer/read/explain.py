"""What Spark's planner asked for, and which files it got: the reports of `file_index` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from rich.console import Console

from catalog.explain import explain
from catalog.planner import Plan
from spark_writer.read.bucket_scan import BucketScan, BucketWork, bucket_work
from spark_writer.read.file_index import PlannedScan, ScanLog, scan_log
from spark_writer.read.jvm import elements
from spark_writer.read.shuffle_free import report_of
from table_format.errors import ArgumentError, UnsupportedTableError

_SCAN: Final = "FileSourceScanExec"
_ROWS: Final = "RDDScanExec"
_CACHED: Final = "InMemoryTableScanExec"
_LOCAL: Final = "LocalTableScanExec"
_WIDTH: Final = 160


def explain_scan(df: DataFrame) -> str:
    """Explain which files a DataFrame's scans of Hudi tables read, and why; nothing is read.

    Each scan is planned as the query would be: its conditions as Spark has them, the files that each stage drops, what
    of the conditions was not understood. What a join or a subquery leaves of the partitions is known only when the
    query runs. Below are earlier scans of the same state, newest first.

    Of `HudiTable.join` and `group_by`, `without_shuffle` and queries of `hudi_catalog.sql`, the first lines say which
    joins and group-bys work bucket by bucket, and why others shuffle.

    Args:
        df: made from `HudiTable.to_df` or `Table.to_spark`, in a classic session.

    Raises:
        ArgumentError: it is not a DataFrame of Spark.
        UnsupportedTableError: it is of Spark Connect, or has no scan that is planned by a table's index.
    """
    if not hasattr(df, "sparkSession"):
        raise ArgumentError(f"explain_scan takes a Spark DataFrame, not {type(df).__name__}")
    try:
        plan: Any = df._jdf.queryExecution().sparkPlan()  # noqa: SLF001 - PySpark has no other way
    except (PySparkException, AttributeError) as error:
        if isinstance(error, PySparkException) and not isinstance(error, AttributeError):
            raise
        raise UnsupportedTableError("explain_scan needs a classic session: Spark Connect shows no plan") from error
    leaves = [*elements(plan.collectLeaves())]
    parts = [text for leaf in leaves if (text := _of_leaf(leaf))]
    report = dict.fromkeys(line for leaf in leaves for line in _report(leaf)) or dict.fromkeys(report_of(df))
    if report:
        parts = ["\n".join(report), *parts]
    return "\n\n".join(parts) if parts else _without_scan(leaves)


def _without_scan(leaves: Sequence[Any]) -> str:
    """What is said of a plan without a scan of ours.

    Raises:
        UnsupportedTableError: it reads something else.
    """
    if all(_is_empty(leaf) for leaf in leaves):
        return "nothing is read: no row can fulfil the conditions, or the table has no files"
    if any(leaf.getClass().getSimpleName() == _CACHED for leaf in leaves):
        raise UnsupportedTableError(
            "this DataFrame reads rows that Spark has cached, for itself or for another DataFrame with this plan: "
            "unpersist() that one to see which files are read"
        )
    raise UnsupportedTableError(
        "this DataFrame has no scan of a Hudi table that each query plans: it reads files that were chosen when it was "
        "made, or something else"
    )


def _is_empty(leaf: Any) -> bool:
    kind = leaf.getClass().getSimpleName()
    return kind == "EmptyRelationExec" or (kind == _LOCAL and bool(leaf.rows().isEmpty()))


def _of_leaf(leaf: Any) -> str | None:
    work = _bucket_work(leaf)
    if work is not None:
        return "\n\n".join(map(_by_bucket, work.scans))
    if leaf.getClass().getSimpleName() != _SCAN:
        return None
    identity = str(leaf.relation().location().toString())
    log = scan_log(identity)
    if log is None:
        return None
    earlier = [*log.scans]
    leaf.selectedPartitions()  # Spark asks the index now
    return "\n".join([*_current(identity, log), *_earlier(earlier)])


def _bucket_work(leaf: Any) -> BucketWork | None:
    return bucket_work(int(leaf.rdd().id())) if leaf.getClass().getSimpleName() == _ROWS else None


def _report(leaf: Any) -> tuple[str, ...]:
    work = _bucket_work(leaf)
    return () if work is None else work.report


def _by_bucket(scan: BucketScan) -> str:
    asked = " AND ".join(scan.filters) or "all rows"
    read = f"{scan.kept:,} file{'' if scan.kept == 1 else 's'} by bucket in {scan.tasks:,} tasks"
    return "\n".join([f"scan    {scan.identity}", f"asked   {asked}", *_shown(scan.plan), read])


def _current(identity: str, log: ScanLog) -> Iterator[str]:
    scan = log.scans[-1]
    yield f"scan    {identity}"
    yield f"asked   {_conditions(scan)}"
    if scan.plan is None:
        yield scan.error
        return
    yield from _shown(scan.plan)
    if scan.kept < len(scan.plan):
        yield f"{scan.kept:,} of these files are of this part of the table and of partitions that Spark left"


def _shown(plan: Plan) -> Iterator[str]:
    console = Console(width=_WIDTH, markup=False, highlight=False, color_system=None, force_terminal=False)
    with console.capture() as captured:
        for part in explain(plan, splits=0):
            console.print(part)
    yield from (line.rstrip() for line in captured.get().splitlines())


def _earlier(scans: list[PlannedScan]) -> Iterator[str]:
    if scans:
        yield "earlier scans of this state:"
    for scan in reversed(scans):
        if scan.plan is None:
            yield f"  {scan.error}"
        else:
            unknown = f"; not understood: {'; '.join(scan.plan.unknowns)}" if scan.plan.unknowns else ""
            yield f"  {scan.kept:,} of {scan.plan.files_total:,} files: {_conditions(scan)}{unknown}"


def _conditions(scan: PlannedScan) -> str:
    return " AND ".join(scan.filters) or "all rows"
