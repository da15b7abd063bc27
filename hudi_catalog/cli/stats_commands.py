"""The commands that describe a table by its metadata: `hudi-catalog stats | files | partitions`."""

from __future__ import annotations

import datetime as dt
import shlex
from typing import Annotated

import pyarrow as pa
import typer
from rich.table import Table

from catalog.amounts import bytes_text
from catalog.table_stats import FILE_TARGET, SMALL_FILE, FileStats, SkewStats, TableStats, TimelineStats, table_stats
from hudi_catalog.cli.arguments import Json, TablePath, counted, print_json, print_lines
from table_format.table.client import TableClient

Orphans = Annotated[bool, typer.Option("--orphans", help="List the storage, too, for files that no instant knows.")]
Small = Annotated[int, typer.Option(min=0, help="Bytes below which a file group counts as small.")]


def stats(path: TablePath, *, small: Small = SMALL_FILE, orphans: Orphans = False, as_json: Json = False) -> None:
    """Describe a table's files, timelines and services, from its metadata."""
    client = TableClient.open(path)  # a `Table` would import all that plans and writes
    statistics = table_stats(client, small_limit=small)
    if orphans:
        from table_writer.repair import with_orphans

        statistics = with_orphans(client, statistics)
    if as_json:
        print_json(statistics.to_json())
    else:
        print_lines([f"{statistics.name}  {statistics.uri}", stats_table(statistics)])


AsOf = Annotated[str | None, typer.Option(help="An instant or a time; now if not set.")]


def files(path: TablePath, *, as_of: AsOf = None, as_json: Json = False) -> None:
    """List the file groups of a table."""
    from hudi_catalog.table import open_table

    _print_rows(open_table(path).files(as_of=as_of), as_json=as_json)


def partitions(path: TablePath, *, as_of: AsOf = None, as_json: Json = False) -> None:
    """List the partitions of a table."""
    from hudi_catalog.table import open_table

    _print_rows(open_table(path).partitions(as_of=as_of), as_json=as_json)


def _print_rows(rows: pa.Table, *, as_json: bool) -> None:
    if as_json:
        print_json(rows.to_pylist())
        return
    table = Table(*rows.column_names, box=None, pad_edge=False)
    for row in rows.to_pylist():
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    print_lines([table])


def stats_table(statistics: TableStats) -> Table:
    """The statistics of a table, a line for each kind."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in _lines(statistics):
        table.add_row(label, text)
    return table


def _lines(statistics: TableStats) -> list[tuple[str, str]]:
    files, services = statistics.files, statistics.services
    since = counted(services.metadata_deltacommits, "deltacommit")
    lines = [
        ("kind", f"{statistics.type}, version {statistics.version}"),
        ("files", _files(statistics)),
        ("file groups", _sizes(files)),
        ("older files", f"{counted(files.older_files, 'file')}, {bytes_text(files.older_bytes)}"),
    ]
    if statistics.skew is not None:
        skew = statistics.skew
        text = f"{skew.buckets:,}; the fullest, {skew.largest_bucket}, has {skew.ratio:g} times the mean"
        lines.append(("buckets", text + _advice(skew)))
    lines.append(("timeline", _timeline(statistics.timeline)))
    if statistics.metadata_timeline is not None:
        lines.append(("metadata table", _timeline(statistics.metadata_timeline)))
    lines += [
        ("last clean", services.clean or "never"),
        ("last archiving", services.archive or "never"),
        ("last compaction of the metadata table", f"{services.metadata_compaction or 'never'}, {since} since"),
        ("savepoints", ", ".join(statistics.savepoints) or "none"),
    ]
    if statistics.orphans is not None:
        kept = f", and {statistics.orphans.young:,} that are too young to tell" if statistics.orphans.young else ""
        text = f"{counted(statistics.orphans.files, 'file')}, {bytes_text(statistics.orphans.bytes)}{kept}"
        lines.append(("of no instant", text))
    return lines


def _advice(skew: SkewStats) -> str:
    """What `resize` would do about files of another size than wanted; nothing for tables that fit into a file."""
    if skew.count is None or skew.advised is None or skew.advised in (1, skew.count):
        return ""
    size = "larger" if skew.advised > skew.count else "smaller"
    one = "" if skew.partition is None else f" --partition {shlex.quote(skew.partition)}"
    whose = "" if skew.partition is None else f" of partition {skew.partition}"
    command = f"resize to {skew.advised:,} (hudi-catalog resize PATH --auto{one})"
    return f"; files{whose} are {size} than {bytes_text(FILE_TARGET)}: {command}"


def _files(statistics: TableStats) -> str:
    files = statistics.files
    logs = f", {counted(files.log_files, 'log file')} among them" if files.log_files else ""
    where = f"{counted(statistics.partitions, 'partition')}, listed by the {files.listed_by}"
    return f"{counted(files.files, 'file')}, {bytes_text(files.bytes)}{logs}; {where}"


def _sizes(files: FileStats) -> str:
    if files.smallest is None or files.median is None or files.largest is None:
        return "none"
    span = f"{bytes_text(files.smallest)} to {bytes_text(files.largest)}, median {bytes_text(files.median)}"
    return f"{files.groups:,}: {span}; {files.small:,} below {bytes_text(files.small_limit)}"


def _timeline(timeline: TimelineStats) -> str:
    archive = f"{timeline.archived:,} archived in {counted(timeline.archive_files, 'file')}"
    text = f"{counted(timeline.active, 'instant')} active, {archive}, {bytes_text(timeline.archive_bytes)}"
    if timeline.oldest_seconds is not None:
        text += f"; the oldest is {_age(timeline.oldest_seconds)} old"
    if timeline.pending:
        age = timeline.oldest_pending_seconds
        text += f"; {timeline.pending:,} pending" + ("" if age is None else f", for {_age(age)}")
    return text


def _age(seconds: int) -> str:
    """An age in its largest units.

    >>> _age(59), _age(3_700), _age(200_000)
    ('59 s', '1 h 1 min', '2 d 7 h')
    """
    days, rest = divmod(dt.timedelta(seconds=seconds), dt.timedelta(days=1))
    hours, minutes = divmod(rest // dt.timedelta(minutes=1), 60)
    if days:
        return f"{days:,} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
