"""Further commands of indexes: `hudi-catalog index build | drop | lookup | changes`.

The writer is imported when a command runs: the other commands start without it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table as RichTable

from catalog.amounts import bytes_text
from hudi_catalog.cli.arguments import Config, Json, TablePath, WriterOptions, counted
from hudi_catalog.cli.index_commands import ProgressThreads, grid, index_app, print_facts, writer_options
from table_format.table.client import TableClient

if TYPE_CHECKING:
    import pyarrow as pa

    from table_writer.indexing import FileIndexReport

_SHOWN = 1000


@index_app.command("build")
def index_build(
    path: TablePath,
    index: Annotated[str, typer.Argument(metavar="INDEX", help="column_stats or bloom_filters.")],
    *,
    groups: Annotated[
        int | None,
        typer.Option("--groups", min=1, help="File groups of the index; by options and sizes if left out."),
    ] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for other tools' writes.")] = 60,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Build column statistics or bloom filters of all files, while writers go on; existing ones are replaced."""
    from table_writer.indexing import build_file_index

    options = writer_options(config, option)
    with ProgressThreads() as view:
        report = build_file_index(
            TableClient.open(path),
            index,
            options,
            groups=groups,
            wait_seconds=wait,
            mapper=view,
            progress=view.begin_step,
        )
    print_facts(dataclasses.asdict(report), build_lines(report), as_json=as_json)


@index_app.command("drop")
def index_drop(
    path: TablePath,
    index: Annotated[str, typer.Argument(metavar="INDEX", help="column_stats, bloom_filters or record_index.")],
    *,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take an index out of use and delete it, while writers go on."""
    from table_writer.indexing import drop_index

    client = TableClient.open(path)
    drop_index(client, index, writer_options(config, option))
    left: list[Any] = sorted(set(client.config.metadata_partitions) - {"files"})
    print_facts(
        {"dropped": index, "indexes": left},
        iter([f"dropped {index}; indexes of the table: {', '.join(left) or 'none'}"]),
        as_json=as_json,
    )


def build_lines(report: FileIndexReport) -> Iterator[RenderableType]:
    """Result of a build as lines to print."""
    yield grid(
        {
            "index": f"{report.index}, {'rebuilt' if report.replaced else 'new'}",
            "files": counted(report.files, "file"),
            "columns": ", ".join(report.columns),
            "size": f"{counted(report.groups, 'file group')}, {bytes_text(report.size)}",
            "time": f"{report.seconds:.1f} s",
        }
    )


@index_app.command("lookup")
def index_lookup(
    path: TablePath,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Record keys, as in _hoodie_record_key.")],
    *,
    as_of: Annotated[str | None, typer.Option("--as-of", help="Instant or time; now if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Show the file groups of record keys by the record index; exit code 1 if a key is not in the table."""
    from table_writer.record_index.key_changes import index_entries

    with ProgressThreads() as view:
        entries = index_entries(TableClient.open(path), keys, as_of, mapper=view, progress=view.begin_step)
    unknown = sorted(set(keys) - set(entries["key"].to_pylist()))
    print_facts({"entries": entries.to_pylist(), "unknown": unknown}, entry_lines(entries, unknown), as_json=as_json)
    if unknown:
        raise typer.Exit(1)


@index_app.command("changes")
def index_changes(
    path: TablePath,
    begin: Annotated[str, typer.Argument(metavar="BEGIN", help="Instant or time, not part of the range.")],
    *,
    end: Annotated[
        str | None, typer.Option("--end", help="Instant or time, part of the range; now if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the record keys that writes of a range inserted, moved to other files, or deleted."""
    from table_writer.record_index.key_changes import changed_entries

    with ProgressThreads() as view:
        changes = changed_entries(TableClient.open(path), begin, end, mapper=view, progress=view.begin_step)
    print_facts(changes.to_pylist() if as_json else None, change_lines(changes), as_json=as_json)


def entry_lines(entries: pa.Table, unknown: list[str]) -> Iterator[RenderableType]:
    """Entries of the index as lines to print."""
    if entries.num_rows:
        yield _table(entries.to_pylist(), ("key", "partition", "file_id"))
    for key in unknown:
        yield f"{key} is not in the table"


def change_lines(changes: pa.Table) -> Iterator[RenderableType]:
    """Changes of the index as lines to print; the first thousand."""
    counts = Counter(changes["change"].to_pylist())
    yield ", ".join(counted(counts[kind], kind) for kind in ("insert", "move", "delete"))
    if changes.num_rows:
        rows = changes.slice(0, _SHOWN).to_pylist()
        for row in rows:
            row["from"] = _place(row["old_partition"], row["old_file_id"])
            row["to"] = _place(row["partition"], row["file_id"])
        yield _table(rows, ("change", "key", "from", "to"))
    if changes.num_rows > _SHOWN:
        yield f"and {changes.num_rows - _SHOWN:,} more; --json gives all"


def _place(partition: str | None, file_id: str | None) -> str:
    return "-" if file_id is None else "/".join(filter(None, (partition, file_id)))


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[name]) for name in columns))
    return table
