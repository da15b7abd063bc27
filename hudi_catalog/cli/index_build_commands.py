"""All commands of indexes; here those that build and drop indexes of files: `hudi-catalog index build | drop`.

The writer is imported when a command runs: the other commands start without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from catalog.amounts import bytes_text
from hudi_catalog.cli import index_time_commands
from hudi_catalog.cli.arguments import Config, Json, TablePath, WriterOptions, counted
from hudi_catalog.cli.index_commands import ProgressThreads, grid, index_app, print_facts, writer_options
from table_format.table.client import TableClient

if TYPE_CHECKING:
    from table_writer.indexing import FileIndexReport


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


index_app.command("lookup")(index_time_commands.index_lookup)
index_app.command("changes")(index_time_commands.index_changes)


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
