"""The command line, `hudi-catalog`: its commands and exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version as installed_version
from typing import Annotated, Final

import pyarrow as pa
import typer

from hudi_catalog.cli import read_commands, service_commands, write_commands
from hudi_catalog.cli.arguments import HELP
from hudi_catalog.cli.index_commands import index_app
from hudi_catalog.cli.serve_commands import gateway, metastore, serve_app
from hudi_catalog.cli.stats_commands import files, partitions, stats
from hudi_catalog.hive.handler import hive_jar
from hudi_catalog.metastore.commands import sync
from table_format.errors import HudiError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, context_settings=HELP)


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
    """Apache Hudi tables: make, write, plan and read them, and serve them to engines."""


_COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    read_commands.tables,
    read_commands.show,
    read_commands.history,
    stats,
    files,
    partitions,
    read_commands.plan,
    read_commands.explain,
    read_commands.read,
    write_commands.create,
    write_commands.write,
    write_commands.delete,
    service_commands.clean,
    service_commands.repair,
    service_commands.archive,
    service_commands.restore,
    service_commands.rollback,
    sync,
    gateway,
    metastore,
    hive_jar,
)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(serve_app, name="serve")
app.add_typer(index_app, name="index")
app.add_typer(service_commands.savepoint_app, name="savepoint")


class _NoPandas:
    """Keeps pandas out: pyarrow imports it wherever it is installed, which takes longer than any command."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002  # a protocol
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used by this command line", name=name)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"hudi-catalog: warning: {message}\n")


def main() -> None:
    """Run the command line: exit code 1 with a one-line error, 2 for wrong usage."""
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
