"""Arguments, options and printing that commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_catalog.option_groups import key_value, read_option_file

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

HELP = {"help_option_names": ["-h", "--help"]}

TablePath = Annotated[str, typer.Argument(metavar="PATH", help="Folder or URI of a table.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON on standard output, nothing else.")]
WriterOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Option of the table's writers as key=value, such as those of its lock."),
]
Config = Annotated[str | None, typer.Option("--config", help="File of options, one key=value per line; flags win.")]


def all_options(config: str | None, option: Iterable[str] | None) -> dict[str, str]:
    """The options of a file and of the command line; the latter win.

    Raises:
        OptionError: the file cannot be read, or a text has no equals sign.
    """
    stored = {} if config is None else read_option_file(config)
    return {**stored, **dict(key_value(text) for text in option or [])}


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_lines(lines: Iterable[RenderableType]) -> None:
    """Print text and tables on standard output."""
    console = stdout_console()
    for line in lines:
        console.print(line)


def stdout_console() -> Console:
    """Standard output; lines are wrapped only on a terminal."""
    from rich.console import Console  # most of the time that --version would take

    return Console(width=None if sys.stdout.isatty() else 1000, markup=False, highlight=False)
