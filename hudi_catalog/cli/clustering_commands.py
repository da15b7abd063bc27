"""The commands of a table's layout: `hudi-catalog cluster | resize | layout`."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table

from catalog.layout import ColumnLayout
from hudi_catalog.cli.arguments import (
    Config,
    Json,
    TablePath,
    WriterOptions,
    all_options,
    print_json,
    print_lines,
)
from hudi_catalog.table import open_table
from table_format.errors import OptionError
from table_writer.clustering.report import ClusteringReport, ResizeReport

SortBy = Annotated[str, typer.Option("--sort-by", help="Columns, up to 8, separated by commas; none merges files.")]
Strategy = Annotated[str | None, typer.Option("--strategy", help="How they order rows: linear, z-order or hilbert.")]
Partitions = Annotated[
    list[str] | None, typer.Option("--partition", help="Path of a partition, * for any text; repeatable.")
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Put the plan on the timeline, and do not run it.")]
Run = Annotated[bool, typer.Option("--run", help="Run what is planned, and plan nothing.")]
Instant = Annotated[str | None, typer.Option("--instant", help="With --run: only the plan of this instant.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be planned, and change nothing.")]


def cluster(
    path: TablePath,
    *,
    sort_by: SortBy = "",
    strategy: Strategy = None,
    partition: Partitions = None,
    plan_only: PlanOnly = False,
    run: Run = False,
    instant: Instant = None,
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Merge small files and sort their rows anew."""
    options, table = all_options(config, option), open_table(path)
    if sum((plan_only, run, dry_run)) > 1 or (instant is not None and not run):
        raise OptionError("give one of --plan-only, --run and --dry-run; --instant belongs to --run")
    if run:
        if sort_by or strategy or partition:
            raise OptionError("--run takes what was planned: leave --sort-by, --strategy and --partition out")
        reports = table.run_clustering(instant, options)
    else:
        names = [name.strip() for name in sort_by.split(",") if name.strip()]
        reports = [
            table.cluster(
                names, strategy, partitions=partition or (), options=options, plan_only=plan_only, dry_run=dry_run
            )
        ]
    if as_json:
        print_json([dataclasses.asdict(report) for report in reports])
    else:
        print_lines([line for report in reports for line in report_lines(report)] or ["no clustering is planned"])


def report_lines(report: ClusteringReport) -> list[str]:
    """The result of a clustering, line by line."""
    after = dict(report.kept_after)
    return [
        str(report),
        *(
            f"a range of 1 % of {name} keeps {100 * after[name]:.1f} % of the files, {100 * before:.1f} % before"
            for name, before in report.kept_before
            if name in after
        ),
    ]


Buckets = Annotated[int | None, typer.Option("--buckets", help="Buckets of each partition afterwards.")]
Auto = Annotated[bool, typer.Option("--auto", help="Choose a multiple or divisor by hoodie.parquet.max.file.size.")]
SomePartitions = Annotated[
    list[str] | None,
    typer.Option("--partition", help="Only these, by path, * for any text; repeatable. Unset: the whole table."),
]
Acknowledge = Annotated[
    bool,
    typer.Option(
        "--acknowledge-fixed-writers",
        help="Jobs of Apache Hudi that write this table are stopped or get the new number; at the old one they would "
        "write second rows of keys.",
    ),
]
ResizeDryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")]


def resize(
    path: TablePath,
    *,
    buckets: Buckets = None,
    auto: Auto = False,
    partition: SomePartitions = None,
    acknowledge_fixed_writers: Acknowledge = False,
    dry_run: ResizeDryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Change the number of buckets of a table with the bucket index."""
    if auto == (buckets is not None):
        raise typer.BadParameter("give one of --buckets N and --auto")
    report = open_table(path).resize(
        buckets,
        auto=auto,
        partitions=partition or (),
        acknowledge_fixed_writers=acknowledge_fixed_writers,
        options=all_options(config, option),
        dry_run=dry_run,
    )
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        print_lines(_resize_lines(report))


def _resize_lines(report: ResizeReport) -> list[str]:
    if report.state != "completed":
        return [str(report)]
    if report.rules:
        newer = "jobs of Apache Hudi 1.1 and later follow the table's new rules; older ones must not write it"
        return [str(report), newer]
    jobs = "jobs of Apache Hudi that write this table need"
    return [str(report), f"{jobs} hoodie.bucket.index.num.buckets={report.after} from now on"]


Columns = Annotated[str, typer.Option("--columns", help="Columns, separated by commas; unset: all with statistics.")]
Share = Annotated[float, typer.Option("--share", help="Share of the rows that a range holds.")]
AsOf = Annotated[str | None, typer.Option("--as-of", help="An instant or a time; now if not set.")]


def layout(
    path: TablePath, *, columns: Columns = "", share: Share = 0.01, as_of: AsOf = None, as_json: Json = False
) -> None:
    """Report how well each column prunes: the share of the files that a random range keeps."""
    names = [name.strip() for name in columns.split(",") if name.strip()]
    layouts = open_table(path).layout(names or None, share=share, as_of=as_of)
    if as_json:
        print_json([dataclasses.asdict(one) for one in layouts])
    elif not layouts:
        print_lines(["no column has statistics in the metadata table"])
    else:
        print_lines([_layout_table(layouts, share)])


def _layout_table(layouts: list[ColumnLayout], share: float) -> Table:
    table = Table("column", box=None, pad_edge=False)
    table.add_column(f"files that a range of {100 * share:g} % keeps", justify="right")
    table.add_column("")
    for one in layouts:
        unknown = f"{one.unknown:,} without statistics" if one.unknown else ""
        table.add_row(one.column, f"{100 * one.kept:.1f} % of {one.files:,}", one.reason or unknown)
    return table
