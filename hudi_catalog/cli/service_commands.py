"""The commands that run table services: `hudi-catalog archive`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_catalog.cli.arguments import Config, Json, TablePath, WriterOptions, all_options, print_json, stdout_console
from hudi_catalog.table import open_table

if TYPE_CHECKING:
    from table_writer.archive.archive import ArchiveReport

DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")]


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
