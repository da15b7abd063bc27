"""The commands that run table services: `hudi-catalog clean`, `archive`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.explain import bytes_text
from hudi_catalog.cli.arguments import (
    Config,
    Json,
    TablePath,
    WriterOptions,
    all_options,
    counted,
    print_json,
    stdout_console,
)
from hudi_catalog.table import open_table

if TYPE_CHECKING:
    from table_writer.archive.archive import ArchiveReport
    from table_writer.services.clean import CleanReport

DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")]


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
