"""The commands that run table services: `hudi-catalog clean | expire | savepoint | …`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.amounts import bytes_text
from hudi_catalog.cli.arguments import (
    HELP,
    Config,
    Json,
    TablePath,
    WriterOptions,
    all_options,
    counted,
    print_json,
    print_lines,
    stdout_console,
)
from hudi_catalog.table import open_table

if TYPE_CHECKING:
    from table_writer.archive.archive import ArchiveReport
    from table_writer.partition_ttl import ExpiryReport
    from table_writer.repair import RepairReport
    from table_writer.services.clean import CleanReport
    from table_writer.services.savepoint import Savepoint
    from table_writer.services.undo import UndoReport

DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")]
OfInstant = Annotated[str, typer.Argument(metavar="INSTANT", help="Instant of a write, as `history` lists it.")]

savepoint_app = typer.Typer(
    help="Keep states of a table, which cleaning and archiving then leave.",
    no_args_is_help=True,
    context_settings=HELP,
)


Commits = Annotated[int | None, typer.Option(help="Keep the states after this many newest commits.")]
Hours = Annotated[int | None, typer.Option(help="Keep the states of this many hours.")]
Versions = Annotated[int | None, typer.Option(help="Keep this many versions of each file group.")]


def clean(
    path: TablePath,
    *,
    commits: Commits = None,
    hours: Hours = None,
    versions: Versions = None,
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Delete data files that only old states of a table need."""
    report = open_table(path).clean(
        all_options(config, option), commits=commits, hours=hours, versions=versions, dry_run=dry_run
    )
    if as_json:
        print_json({**dataclasses.asdict(report), "dry_run": dry_run})
    else:
        stdout_console().print(clean_text(report, dry_run=dry_run))


def clean_text(report: CleanReport, *, dry_run: bool) -> str:
    """The result of a clean in a line."""
    if not report.files:
        return "nothing to clean"
    since = f"; states from {report.earliest} on stay readable" if report.earliest else ""
    verb, frees = ("would delete", "free") if dry_run else ("deleted", "freed")
    return (
        f"{verb} {counted(report.files, 'file')} of {counted(report.partitions, 'partition')}, "
        f"{frees} {bytes_text(report.bytes)}{since}"
    )


Minutes = Annotated[int | None, typer.Option(help="Leave files alone that changed in this many last minutes.")]


def repair(
    path: TablePath,
    *,
    minutes: Minutes = None,
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Remove what crashes left: dead writers' writes, their markers, data files that no instant knows."""
    report = open_table(path).repair(all_options(config, option), minutes=minutes, dry_run=dry_run)
    if as_json:
        files = [{**dataclasses.asdict(file), "reason": file.reason.value} for file in report.files]
        print_json({**dataclasses.asdict(report), "files": files, "bytes": report.bytes, "dry_run": dry_run})
    else:
        print_lines(repair_lines(report, dry_run=dry_run))


def repair_lines(report: RepairReport, *, dry_run: bool) -> list[str]:
    """What a repair removed, line by line."""
    would = "would be " if dry_run else ""
    lines = [f"{time}: {would}rolled back, its writer died" for time in report.rolled_back]
    lines += [f"{time}: {would}finished, a clean that was interrupted" for time in report.cleans]
    lines += [f"{time}: markers and heartbeat {would}deleted, the write has ended" for time in report.leftovers]
    lines += [f"{file.path}: {would}deleted ({bytes_text(file.size)}), {file.reason.value}" for file in report.files]
    if report.files:
        verb, frees = ("would delete", "free") if dry_run else ("deleted", "freed")
        lines.append(f"{verb} {counted(len(report.files), 'file')}, {frees} {bytes_text(report.bytes)}")
    if report.young:
        lines.append(f"{counted(report.young, 'file')} of no instant left alone, too young: see --minutes")
    if report.unclear:
        lines.append(f"{counted(report.unclear, 'file')} left alone, older than what timeline and archive know")
    if report.unlisted:
        lines.append(f"{counted(len(report.unlisted), 'file')} of commits missing in the metadata table")
    return lines or ["nothing to repair"]


def archive(
    path: TablePath,
    *,
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Move the oldest instants of a table from its active timeline to the archive."""
    report = open_table(path).archive(all_options(config, option), dry_run=dry_run)
    if as_json:
        print_json({**dataclasses.asdict(report), "dry_run": dry_run})
    else:
        stdout_console().print(archive_text(report, dry_run=dry_run))


def archive_text(report: ArchiveReport, *, dry_run: bool) -> str:
    """The result of an archiving run in a line."""
    if not report.files:
        return "nothing to archive"
    span = f" from {report.instants[0]} to {report.instants[-1]}" if report.instants else ""
    verb = "would archive" if dry_run else "archived"
    return (
        f"{verb} {len(report.instants):,} instants{span}, and {report.metadata_instants:,} of the metadata table; "
        f"{report.files:,} files leave the timelines"
    )


Days = Annotated[int | None, typer.Option("--days", help="Days that partitions live; the option's by default.")]


def expire(
    path: TablePath,
    *,
    days: Days = None,
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Delete partitions that nobody has written to for some days."""
    report = open_table(path).expire_partitions(all_options(config, option), days=days, dry_run=dry_run)
    if as_json:
        print_json({**dataclasses.asdict(report), "dry_run": dry_run})
    else:
        print_lines(expiry_lines(report, dry_run=dry_run))


def expiry_lines(report: ExpiryReport, *, dry_run: bool) -> list[str]:
    """Expired partitions, line by line."""
    if not report.partitions:
        return ["nothing has expired"]
    verb = "would delete" if dry_run else "deleted"
    files = f"{counted(report.files, 'file group')}, {bytes_text(report.bytes)}"
    left = f"; {report.left:,} more left to the next run" if report.left else ""
    return [*report.partitions, f"{verb} {counted(len(report.partitions), 'partition')} of {files}{left}"]


@savepoint_app.command("create")
def savepoint_create(
    path: TablePath,
    *,
    instant: Annotated[str | None, typer.Option("--instant", help="Instant of a write; the newest by default.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Name to note; yours by default.")] = None,
    comments: Annotated[str, typer.Option("--comments", help="Text to note.")] = "",
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Keep the table's state after a write."""
    table = open_table(path)
    saved = table.savepoint(instant, user=user, comments=comments, options=all_options(config, option))
    if as_json:
        print_json(dataclasses.asdict(saved))
    else:
        stdout_console().print(f"savepoint {saved.instant} keeps {counted(saved.files, 'file')}")


@savepoint_app.command("list")
def savepoint_list(path: TablePath, *, as_json: Json = False) -> None:
    """List a table's savepoints, oldest first."""
    savepoints = open_table(path).savepoints()
    if as_json:
        print_json([dataclasses.asdict(saved) for saved in savepoints])
    elif savepoints:
        print_lines(savepoint_text(saved) for saved in savepoints)
    else:
        stdout_console().print("no savepoints")


@savepoint_app.command("delete")
def savepoint_delete(
    path: TablePath, instant: OfInstant, *, option: WriterOptions = None, config: Config = None
) -> None:
    """Give up a savepoint; the next clean may delete its files."""
    open_table(path).delete_savepoint(instant, all_options(config, option))
    stdout_console().print(f"savepoint {instant} is deleted")


def restore(
    path: TablePath,
    *,
    to: Annotated[str, typer.Option("--to", metavar="INSTANT", help="Instant of a write, such as a savepoint's.")],
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take back all writes after one."""
    report = open_table(path).restore(to, all_options(config, option), dry_run=dry_run)
    _print_undo(report, dry_run=dry_run, as_json=as_json)


def rollback(
    path: TablePath,
    instant: OfInstant,
    *,
    dry_run: DryRun = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Roll back one write: a pending one, or the newest completed one."""
    report = open_table(path).rollback(instant, all_options(config, option), dry_run=dry_run)
    _print_undo(report, dry_run=dry_run, as_json=as_json)


def savepoint_text(saved: Savepoint) -> str:
    """A savepoint in a line."""
    created = dt.datetime.fromtimestamp(saved.created_ms / 1000, dt.UTC).isoformat(" ", "seconds")
    noted = f": {saved.comments}" if saved.comments else ""
    return f"{saved.instant}  {counted(saved.files, 'file')}, by {saved.user or 'nobody'} at {created}{noted}"


def undo_text(report: UndoReport, *, dry_run: bool) -> str:
    """The result of a restore or rollback in a line."""
    if not report.undone:
        return "nothing to take back"
    verb, frees = ("would take back", "free") if dry_run else ("took back", "freed")
    span = report.undone[0] if len(report.undone) == 1 else f"{report.undone[-1]} to {report.undone[0]}"
    left = f"{report.target} is the newest write" if report.target else "no write is left"
    return (
        f"{verb} {counted(len(report.undone), 'write')} ({span}), {frees} {bytes_text(report.bytes)} in "
        f"{counted(report.files, 'file')}; {left}"
    )


def _print_undo(report: UndoReport, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({**dataclasses.asdict(report), "dry_run": dry_run})
    else:
        stdout_console().print(undo_text(report, dry_run=dry_run))
