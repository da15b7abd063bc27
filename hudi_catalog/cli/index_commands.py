"""The commands of the record index: `hudi-catalog index show | bootstrap | verify | resize`.

What they run is imported when they run: the other commands start without it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from hudi_catalog.option_groups import key_value, read_option_file
from table_format.config.option_keys import check_writer_options
from table_format.slices.table_client import TableClient

index_app = typer.Typer(
    help="Build, check and change the record index of a table: where each record key lies.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Path = Annotated[str, typer.Argument(help="Folder or URI of a table.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON on standard output, nothing else.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Option of the table's writers as key=value, such as those of its lock."),
]
Config = Annotated[str | None, typer.Option("--config", help="File of options, one key=value a line; flags win.")]


@index_app.callback()
def _index() -> None:
    """Build, check and change the record index of a table: where each record key lies."""


@index_app.command("show")
def index_show(path: Path, *, as_json: Json = False) -> None:
    """Tell what the record index of a table is: file groups, entries, sizes."""
    from hudi_catalog.cli.index_print import index_json, index_lines

    facts = index_json(TableClient.open(path))
    _print(facts, index_lines(facts), as_json=as_json)


@index_app.command("bootstrap")
def index_bootstrap(
    path: Path,
    *,
    groups: Annotated[
        int | None, typer.Option("--groups", min=1, help="File groups of the index; by the number of keys otherwise.")
    ] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for writes that are under way.")] = 60,
    option: Options = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Build the record index of a table from its data; an interrupted build goes on."""
    from hudi_catalog.cli.index_print import bootstrap_json, bootstrap_lines
    from hudi_catalog.cli.index_progress import ThreadsInView
    from table_writer.record_index.bootstrap import bootstrap_index

    options = _all_options(config, option)
    with ThreadsInView() as view:
        report = bootstrap_index(
            TableClient.open(path), options, groups=groups, wait_seconds=wait, mapper=view, tell=view.tell
        )
    _print(bootstrap_json(report), bootstrap_lines(report), as_json=as_json)


@index_app.command("verify")
def index_verify(
    path: Path,
    *,
    sample: Annotated[
        float | None, typer.Option("--sample", help="Share of the file slices to read, such as 0.01; all otherwise.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend the index by a commit without data.")] = False,
    option: Options = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Compare the record index of a table with its data; exit code 1 where they differ."""
    from hudi_catalog.cli.index_print import verify_json, verify_lines
    from hudi_catalog.cli.index_progress import ThreadsInView
    from table_writer.record_index.compare import DUPLICATE
    from table_writer.record_index.verify import verify_index

    options = _all_options(config, option)
    with ThreadsInView() as view:
        report = verify_index(
            TableClient.open(path), options, sample=sample, repair=repair, mapper=view, tell=view.tell
        )
    _print(verify_json(report), verify_lines(report), as_json=as_json)
    left = report.counts[DUPLICATE] if report.repaired else sum(report.counts.values())
    if left:
        raise typer.Exit(1)


@index_app.command("resize")
def index_resize(
    path: Path,
    groups: Annotated[int, typer.Argument(min=1, help="File groups that the index is to have.")],
    *,
    option: Options = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Spread the record index of a table over another number of file groups."""
    from hudi_catalog.cli.index_print import index_json, index_lines
    from hudi_catalog.cli.index_progress import ThreadsInView
    from table_writer.record_index.resize import resize

    client = TableClient.open(path)
    with ThreadsInView() as view:
        resize(client, groups, view, _all_options(config, option))
    facts = index_json(client)
    _print(facts, index_lines(facts), as_json=as_json)


def _all_options(config: str | None, option: Iterable[str] | None) -> dict[str, str]:
    stored = {} if config is None else read_option_file(config)
    options = {**stored, **dict(key_value(text) for text in option or [])}
    check_writer_options(options)
    return options


def _print(facts: Any, lines: Iterable[RenderableType], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(facts, ensure_ascii=False, indent=2) + "\n")
        return
    # Files and pipes get whole lines; a terminal its own width.
    console = Console(width=None if sys.stdout.isatty() else 1000, markup=False, highlight=False)
    for line in lines:
        console.print(line)
