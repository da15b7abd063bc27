"""The command line: `hudi-catalog tables | show | history | plan | explain | read | index | sync | serve | …`."""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from catalog.catalog import Catalog
from catalog.explain import explain as explain_plan
from catalog.explain import plan_json
from catalog.late_tables import DEFAULT_SECONDS, LateTables
from catalog.scan import Scan
from catalog.snapshot.incremental import EARLIEST
from catalog.snapshot.scan_options import BUCKET_COUNT
from catalog.splits.json_rows import json_lines
from catalog.table import READ_OPTIMIZED, SNAPSHOT, Table
from catalog.workers import leave_if_hung
from hudi_catalog.cli.html import plan_html
from hudi_catalog.cli.index_commands import index_app
from hudi_catalog.cli.print import history_table, rows_table, show_json, show_lines, tables_json, tables_table
from hudi_catalog.cli.serve_commands import gateway, serve_app
from hudi_catalog.hive.handler import hive_jar
from hudi_catalog.local_metastore.commands import metastore
from hudi_catalog.metastore.commands import TableTimeout
from hudi_catalog.metastore.commands import sync as sync_command
from hudi_catalog.option_groups import key_value
from table_format.errors import HudiError, OptionError

_PRINTED_ROWS = 50

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Path = Annotated[str, typer.Argument(help="Folder or URI of a table.")]
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
    bool, typer.Option("--read-optimized", help="Base files alone, without the log files that changed them since.")
]
Buckets = Annotated[
    int | None, typer.Option("--buckets", min=1, help="Bucket count, for tables that do not record it (Apache's).")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Scan option as key=value, such as hoodie.catalog.scan.threads=4; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON on standard output, nothing else.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"hudi-catalog {installed_version('hudi-catalog')}\n")
        raise typer.Exit


@app.callback()
def common_options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Apache Hudi tables: what they hold, which files a filter needs, and why."""


@app.command()
def tables(
    warehouse: Annotated[str, typer.Argument(help="Folder or URI under which tables lie.")],
    *,
    table_timeout: TableTimeout = DEFAULT_SECONDS,
    as_json: Json = False,
) -> None:
    """List the tables under a folder."""
    late = LateTables(table_timeout)
    entries = Catalog(warehouse, late=late).tables()
    if as_json:
        _print_json(tables_json(entries))
    else:
        _console().print(tables_table(entries) if entries else "no Hudi tables here")
    if len(late):
        leave_if_hung(0)


@app.command()
def show(path: Path, *, as_of: AsOf = None, as_json: Json = False) -> None:
    """Show what a table is: keys, partitions, index, columns, size."""
    table = Table.open(path)
    if as_json:
        _print_json(show_json(table, as_of))
        return
    console = _console()
    for line in show_lines(table, as_of):
        console.print(line)


@app.command()
def history(path: Path, *, as_json: Json = False) -> None:
    """Show what was done to a table, oldest first."""
    entries = Table.open(path).history()
    if as_json:
        _print_json([entry.to_json() for entry in entries])
        return
    _console().print(history_table(entries))


@app.command()
def plan(
    path: Path,
    *,
    where: Where = None,
    as_of: AsOf = None,
    incremental: Incremental = None,
    read_optimized: ReadOptimized = False,
    buckets: Buckets = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """List the files that may hold matching rows; with --json as splits, with each stage's counts."""
    question = _Question(where, as_of, incremental, read_optimized, _options(buckets, option))
    planned = question.scan(path).plan()
    if as_json:
        _print_json(plan_json(planned))
        return
    console = _console()
    for split in planned.splits:
        for name in (split.path, *split.log_files):
            if name is not None:
                console.print(name, soft_wrap=True)
    console.print(f"{len(planned):,} of {planned.files_total:,} files", style="dim")


@app.command()
def explain(
    path: Path,
    *,
    where: Where = None,
    as_of: AsOf = None,
    incremental: Incremental = None,
    read_optimized: ReadOptimized = False,
    buckets: Buckets = None,
    option: Options = None,
    html: Annotated[str | None, typer.Option("--html", help="Draw the plan into this HTML file.")] = None,
    as_json: Json = False,
) -> None:
    """Tell how each planning stage narrowed the files, and why; --html draws it."""
    question = _Question(where, as_of, incremental, read_optimized, _options(buckets, option))
    planned = question.scan(path).plan()
    if html is not None:
        with open(html, "w", encoding="utf-8") as stream:
            stream.write(plan_html(planned))
    if as_json:
        _print_json({name: value for name, value in plan_json(planned).items() if name != "splits"})
        return
    console = _console()
    for line in explain_plan(planned):
        console.print(line)
    if html is not None:
        console.print(f"drawn in {html}", style="dim")


@app.command()
def read(
    path: Path,
    *,
    where: Where = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names with commas between; all columns by default.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Stop after this many rows; without --json 50 by default.")
    ] = None,
    as_of: AsOf = None,
    incremental: Incremental = None,
    read_optimized: ReadOptimized = False,
    buckets: Buckets = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Print matching rows; with --json one object a row."""
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    question = _Question(where, as_of, incremental, read_optimized, _options(buckets, option))
    scan = question.scan(path, names)
    if as_json:
        _write_rows(scan, limit)
        return
    shown = _PRINTED_ROWS if limit is None else limit
    rows = _first_rows(scan, shown + 1)
    console = _console()
    console.print(rows_table(rows.slice(0, shown)))
    if rows.num_rows > shown and limit is None:
        console.print(f"first {shown} rows; --limit shows more", style="dim")


# What comes with the other commands is imported when they run.
app.command(name="sync")(sync_command)
app.add_typer(serve_app, name="serve")
app.add_typer(index_app, name="index")
app.command()(gateway)
app.command()(metastore)
app.command()(hive_jar)


@dataclass(frozen=True)
class _Question:
    """What the commands that scan have in common."""

    where: str | None
    as_of: str | None
    incremental: str | None
    read_optimized: bool
    options: dict[str, str]

    def scan(self, path: str, columns: list[str] | None = None) -> Scan:
        return Table.open(path).scan(
            self.where,
            columns,
            as_of=self.as_of,
            incremental=None if self.incremental is None else _range(self.incremental),
            query_type=READ_OPTIMIZED if self.read_optimized else SNAPSHOT,
            options=self.options,
        )


def _range(text: str) -> tuple[str, str | None]:
    begin, dots, end = text.partition("..")
    if not dots:
        raise OptionError(f"--incremental {text}: write begin..end; earliest.. and ..latest are the defaults")
    return begin.strip() or EARLIEST, end.strip() or None


def _options(buckets: int | None, option: list[str] | None) -> dict[str, str]:
    options = dict(key_value(text) for text in option or [])
    return options if buckets is None else {**options, BUCKET_COUNT: str(buckets)}


def _write_rows(scan: Scan, limit: int | None) -> None:
    left = limit
    out = sys.stdout.buffer
    for batch in scan.to_batches() if left != 0 else ():
        part = batch if left is None else batch.slice(0, left)
        for line in json_lines(part):
            out.write(line.encode() + b"\n")
        if left is not None:
            left -= part.num_rows
            if left <= 0:
                break
    out.flush()


def _first_rows(scan: Scan, count: int) -> pa.Table:
    batches, rows = [], 0
    for batch in scan.to_batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= count:
            break
    return pa.Table.from_batches(batches, scan.schema).slice(0, count)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _console() -> Console:
    # Files and pipes get whole lines; a terminal its own width.
    return Console(width=None if sys.stdout.isatty() else 1000, markup=False, highlight=False)


class _NoPandas:
    """Keeps pandas out: pyarrow imports it wherever it is installed, which takes longer than any command here."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002  # a protocol
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used by this command line", name=name)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"hudi-catalog: warning: {message}\n")


def main() -> None:
    """Run the command line: exit code 1 with one line for what went wrong, 2 for wrong usage."""
    warnings.showwarning = _show_warning
    sys.meta_path.insert(0, _NoPandas())
    try:
        app()
    except BrokenPipeError:
        # The reader of a pipe, such as head, has seen enough; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (HudiError, pa.ArrowException, OSError) as error:
        message = " ".join(str(error).split())
        sys.stderr.write(f"hudi-catalog: {message}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
