"""The commands that read tables: `hudi-catalog tables | show | history | plan | explain | read | join`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import typer

from catalog.catalog import Catalog
from catalog.concurrency.late_tables import DEFAULT_SECONDS, LateTables
from catalog.concurrency.workers import leave_if_hung
from catalog.explain import explain as explain_plan
from catalog.explain import plan_json
from catalog.rows.json_rows import json_lines
from catalog.scan import Scan
from catalog.snapshots.incremental import EARLIEST
from catalog.snapshots.scan_options import BUCKET_COUNT
from catalog.table import READ_OPTIMIZED, SNAPSHOT, Table
from hudi_catalog.cli.arguments import Json, TablePath, all_options, print_json, stdout_console
from hudi_catalog.cli.html import plan_html
from hudi_catalog.cli.print import history_table, rows_table, show_json, show_lines, tables_json, tables_table
from hudi_catalog.joins import DEFAULT_MEMORY, Join
from hudi_catalog.joins import join as join_tables
from hudi_catalog.metastore.commands import TableTimeout
from table_format.errors import ArgumentError, OptionError
from table_format.storage import storage_errors

_PRINTED_ROWS = 50

Where = Annotated[
    str | None, typer.Option("--where", help="Condition in SQL, such as \"day = '2026-01-31' AND x > 5\".")
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="Earlier state: an instant, or an ISO time in the table's zone.")
]
Incremental = Annotated[
    str | None,
    typer.Option(
        "--incremental", help="Only rows written in a range begin..end of instants or times; either may be left out."
    ),
]
ReadOptimized = Annotated[
    bool, typer.Option("--read-optimized", help="Base files only, without the changes in log files.")
]
Sample = Annotated[
    str | None, typer.Option("--sample", help="Whole buckets of a bucketed table: 3/64 for 3 of every 64.")
]
Buckets = Annotated[
    int | None, typer.Option("--buckets", min=1, help="Bucket count, for tables that do not record it (Apache's).")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Scan option as key=value, such as hoodie.catalog.scan.threads=4; repeatable."),
]


def tables(
    warehouse: Annotated[str, typer.Argument(help="Folder or URI with tables.")],
    *,
    table_timeout: TableTimeout = DEFAULT_SECONDS,
    as_json: Json = False,
) -> None:
    """List the tables under a folder."""
    late = LateTables(table_timeout)
    entries = Catalog(warehouse, late=late).tables(newest=True)
    if as_json:
        print_json(tables_json(entries))
    else:
        stdout_console().print(tables_table(entries) if entries else "no Hudi tables here")
    if len(late):
        leave_if_hung(0)


def show(path: TablePath, *, as_of: AsOf = None, as_json: Json = False) -> None:
    """Show a table's keys, partitions, index, columns and size."""
    table = Table.open(path)
    if as_json:
        print_json(show_json(table, as_of))
        return
    console = stdout_console()
    for line in show_lines(table, as_of):
        console.print(line)


def history(
    path: TablePath,
    *,
    active: Annotated[bool, typer.Option("--active", help="Leave out what is archived, which is quicker.")] = False,
    as_json: Json = False,
) -> None:
    """Show what was done to a table, oldest first."""
    entries = Table.open(path).history(archived=not active)
    if as_json:
        print_json([entry.to_json() for entry in entries])
        return
    stdout_console().print(history_table(entries))


# typer reads a command's options from its signature, so that commands with the same options repeat them


def plan(
    path: TablePath,
    *,
    where: Where = None,
    as_of: AsOf = None,
    incremental: Incremental = None,
    read_optimized: ReadOptimized = False,
    sample: Sample = None,
    buckets: Buckets = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """List the files that may hold matching rows; with --json as splits, with each stage's counts."""
    arguments = _ScanArguments(where, as_of, incremental, read_optimized, sample, _options(buckets, option))
    planned = arguments.scan(path).plan()
    if as_json:
        print_json(plan_json(planned))
        return
    console = stdout_console()
    for split in planned.splits:
        for name in (split.path, *split.log_files):
            if name is not None:
                console.print(name, soft_wrap=True)
    console.print(f"{len(planned):,} of {planned.files_total:,} files", style="dim")


def explain(
    path: TablePath,
    *,
    where: Where = None,
    as_of: AsOf = None,
    incremental: Incremental = None,
    read_optimized: ReadOptimized = False,
    sample: Sample = None,
    buckets: Buckets = None,
    option: Options = None,
    html: Annotated[str | None, typer.Option("--html", help="Draw the plan into this HTML file.")] = None,
    as_json: Json = False,
) -> None:
    """Explain how each planning stage narrowed the files, and why; --html draws it."""
    arguments = _ScanArguments(where, as_of, incremental, read_optimized, sample, _options(buckets, option))
    planned = arguments.scan(path).plan()
    if html is not None:
        with storage_errors(f"--html {html}"), open(html, "w", encoding="utf-8") as stream:
            stream.write(plan_html(planned))
    if as_json:
        print_json({name: value for name, value in plan_json(planned).items() if name != "splits"})
        return
    console = stdout_console()
    for line in explain_plan(planned):
        console.print(line)
    if html is not None:
        console.print(f"drawn in {html}", style="dim")


def read(
    path: TablePath,
    *,
    where: Where = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names separated by commas; all columns by default.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Stop after this many rows; without --json 50 by default.")
    ] = None,
    as_of: AsOf = None,
    incremental: Incremental = None,
    read_optimized: ReadOptimized = False,
    sample: Sample = None,
    buckets: Buckets = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Print matching rows; with --json one object per row."""
    names = None if columns is None else _names(columns)
    arguments = _ScanArguments(where, as_of, incremental, read_optimized, sample, _options(buckets, option))
    _print_rows(arguments.scan(path, names), limit, as_json=as_json)


def join(
    left: Annotated[str, typer.Argument(help="Folder of the left table.")],
    right: Annotated[str, typer.Argument(help="Folder of the right table.")],
    *,
    on: Annotated[str, typer.Option("--on", help="Key columns, separated by commas; id=order_id where names differ.")],
    how: Annotated[str, typer.Option("--how", help="inner, left, right, full, semi or anti.")] = "inner",
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names of the result, separated by commas; all by default.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Stop after this many rows; without --json 50 by default.")
    ] = None,
    memory: Annotated[int, typer.Option("--memory", help="Bytes that the join takes, about.")] = DEFAULT_MEMORY,
    explain: Annotated[bool, typer.Option("--explain", help="Say how the tables would be joined, and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Join two tables, bucket by bucket where both have buckets by the keys; with --json one object per row."""
    pairs = [one.partition("=") for one in _names(on)]
    keys = {left.strip(): (right or left).strip() for left, _, right in pairs}
    if len(keys) < len(pairs):
        raise ArgumentError(f"--on names a column of the first table twice: {on}")
    names = None if columns is None else _names(columns)
    joined = join_tables(Table.open(left), Table.open(right), keys, how, columns=names, memory=memory)
    if explain:
        stdout_console().print(joined.explain(), soft_wrap=True)
        return
    _print_rows(joined, limit, as_json=as_json)


@dataclass(frozen=True)
class _ScanArguments:
    """The options that all scanning commands share."""

    where: str | None
    as_of: str | None
    incremental: str | None
    read_optimized: bool
    sample: str | None
    options: dict[str, str]

    def scan(self, path: str, columns: list[str] | None = None) -> Scan:
        return Table.open(path).scan(
            self.where,
            columns,
            as_of=self.as_of,
            incremental=None if self.incremental is None else _range(self.incremental),
            query_type=READ_OPTIMIZED if self.read_optimized else SNAPSHOT,
            sample=self.sample,
            options=self.options,
        )


def _range(text: str) -> tuple[str, str | None]:
    begin, dots, end = text.partition("..")
    if not dots:
        raise OptionError(f"--incremental {text}: write begin..end; earliest.. and ..latest are the defaults")
    return begin.strip() or EARLIEST, end.strip() or None


def _options(buckets: int | None, option: list[str] | None) -> dict[str, str]:
    options = all_options(None, option)
    return options if buckets is None else {**options, BUCKET_COUNT: str(buckets)}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _print_rows(source: Scan | Join, limit: int | None, *, as_json: bool) -> None:
    """Print the rows as a table, or as lines of JSON."""
    if as_json:
        _write_rows(source, limit)
        return
    shown = _PRINTED_ROWS if limit is None else limit
    rows = _first_rows(source, shown + 1)
    console = stdout_console()
    console.print(rows_table(rows.slice(0, shown)))
    if rows.num_rows > shown and limit is None:
        console.print(f"first {shown} rows; --limit shows more", style="dim")


def _write_rows(source: Scan | Join, limit: int | None) -> None:
    left = limit
    out = sys.stdout.buffer
    for batch in source.to_batches() if left != 0 else ():
        part = batch if left is None else batch.slice(0, left)
        for line in json_lines(part):
            out.write(line.encode() + b"\n")
        if left is not None:
            left -= part.num_rows
            if left <= 0:
                break
    out.flush()


def _first_rows(source: Scan | Join, count: int) -> pa.Table:
    batches, rows = [], 0
    for batch in source.to_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= count:
            break
    return pa.Table.from_batches(batches, source.schema).slice(0, count)
