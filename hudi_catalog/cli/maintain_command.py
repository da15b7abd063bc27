"""The command `hudi-catalog maintain`: all services that a table, or each table of a warehouse, needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from catalog.catalog import Catalog, TableEntry
from catalog.concurrency.late_tables import DEFAULT_SECONDS, LateTables
from catalog.concurrency.workers import leave_if_hung
from hudi_catalog.cli.arguments import Config, WriterOptions, all_options, print_json
from hudi_catalog.cli.service_commands import DryRun
from hudi_catalog.metastore.commands import TableTimeout, each_table
from hudi_catalog.table import open_table
from table_format.config.table_config import require_writable
from table_format.errors import HudiError, LateTableError, OptionError, UnsupportedTableError, error_text
from table_writer.maintain import FAILED, NOTHING, SKIPPED, wanted_services
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.timeline.options import ProtocolOptions

if TYPE_CHECKING:
    from table_writer.maintain import MaintenanceReport

_THREADS = 2
_WRONG_USAGE = 2


@dataclass(frozen=True)
class _Outcome:
    """Result for one table.

    Attributes:
        path: of its folder.
        report: None where maintenance could not begin.
        problem: why it could not.
        skipped: why the table is none that is maintained, which is no failure under `--all`.
    """

    path: str
    report: MaintenanceReport | None = None
    problem: str | None = None
    skipped: str | None = None


def maintain(
    path: Annotated[str, typer.Argument(help="Folder or URI of a table; with --all of a warehouse.")],
    *,
    every: Annotated[bool, typer.Option("--all", help="All tables under the folder.")] = False,
    services: Annotated[
        str | None, typer.Option("--services", help="Only these, separated by commas, such as clean,archive.")
    ] = None,
    dry_run: DryRun = False,
    table_timeout: TableTimeout = DEFAULT_SECONDS,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For scripts: JSON on standard output, nothing else.")
    ] = False,
) -> None:
    """Do what a table needs by its policy: finish what was interrupted, expire, clean, archive.

    The exit code is 0 when every table is as it should be, 1 when something failed, 2 for wrong usage.
    """
    try:
        options = all_options(config, option)
        if services is not None:
            options[registry.MAINTENANCE.key] = services
        policy = WriteOptions.of_user(options)
        wanted_services(policy)
        ProtocolOptions.parse(policy.texts)
    except OptionError as error:
        sys.stderr.write(f"hudi-catalog: {error_text(error)}\n")
        raise typer.Exit(_WRONG_USAGE) from error
    late = LateTables(table_timeout)
    outcomes = _all(path, options, late, dry_run=dry_run) if every else iter([_one(path, options, dry_run=dry_run)])
    failed = False
    written: list[dict[str, Any]] = []
    for outcome in outcomes:
        written.append(_json(outcome))
        if not as_json:
            _print(outcome, dry_run=dry_run, reasons=dry_run or services is not None)
        bad = outcome.problem is not None or (outcome.skipped is not None and not every)
        failed |= bad or (outcome.report is not None and outcome.report.failed)
    if as_json:
        print_json(written if every else written[0])
    if len(late):
        leave_if_hung(1)
    if failed:
        raise typer.Exit(1)


def _one(path: str, options: dict[str, str], *, dry_run: bool) -> _Outcome:
    console = Console(stderr=True)
    with console.status("opening") as status:
        report = open_table(path).maintain(options, dry_run=dry_run, progress=status.update)
    return _Outcome(path, report)


def _all(warehouse: str, options: dict[str, str], late: LateTables, *, dry_run: bool) -> Iterator[_Outcome]:
    """Maintain each table of a warehouse; one table's failure or delay does not affect the others."""
    tables = Catalog(warehouse, late=late)
    entries = tables.tables()

    def attempt(entry: TableEntry) -> _Outcome:
        if entry.problem is not None:
            return _Outcome(entry.path, problem=entry.problem)
        try:
            with late.working(entry.name, tables.storage.full_path(entry.path)):
                table = open_table(entry.uri)
                try:
                    require_writable(table.config, entry.uri)
                except UnsupportedTableError as error:
                    return _Outcome(entry.path, skipped=str(error))
                return _Outcome(entry.path, table.maintain(options, dry_run=dry_run))
        except (HudiError, pa.ArrowException, OSError) as error:
            return _Outcome(entry.path, problem=error_text(error))

    for entry, outcome in each_table(entries, attempt, _THREADS, "hudi-maintain"):
        yield _Outcome(entry.path, problem=str(outcome)) if isinstance(outcome, LateTableError) else outcome


def _print(outcome: _Outcome, *, dry_run: bool, reasons: bool) -> None:
    """Print what became of a table; with `reasons` also why services were left out."""
    if outcome.report is None:
        reason = " ".join((outcome.problem or outcome.skipped or "").split())
        how = "" if outcome.problem else "skipped: "
        sys.stderr.write(f"hudi-catalog: {outcome.path}: {how}{reason}\n")
        return
    report = outcome.report
    title = " nothing to do" if report.idle else " would do" if dry_run else ""
    sys.stdout.write(f"{report.name}:{title}\n")
    for step in report.steps:
        if step.state == NOTHING or (step.state == SKIPPED and not reasons):
            continue
        prefix = {FAILED: "failed: ", SKIPPED: "skipped: "}.get(step.state, "")
        sys.stdout.write(f"  {step.service:<8} {prefix}{step.summary}\n")


def _json(outcome: _Outcome) -> dict[str, Any]:
    if outcome.report is None:
        return {"path": outcome.path, "problem": outcome.problem, "skipped": outcome.skipped}
    return {"path": outcome.path, **outcome.report.to_json()}
