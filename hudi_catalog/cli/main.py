"""The command line, `hudi-catalog`: its commands and exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from hudi_catalog.cli.arguments import HELP
from table_format.errors import HudiError, error_text

_COMMANDS: Final = {
    "tables": "hudi_catalog.cli.read_commands",
    "show": "hudi_catalog.cli.read_commands",
    "history": "hudi_catalog.cli.read_commands",
    "stats": "hudi_catalog.cli.stats_commands",
    "files": "hudi_catalog.cli.stats_commands",
    "partitions": "hudi_catalog.cli.stats_commands",
    "layout": "hudi_catalog.cli.clustering_commands",
    "plan": "hudi_catalog.cli.read_commands",
    "explain": "hudi_catalog.cli.read_commands",
    "read": "hudi_catalog.cli.read_commands",
    "join": "hudi_catalog.cli.read_commands",
    "create": "hudi_catalog.cli.write_commands",
    "write": "hudi_catalog.cli.write_commands",
    "delete": "hudi_catalog.cli.write_commands",
    "update": "hudi_catalog.cli.write_commands",
    "merge": "hudi_catalog.cli.write_commands",
    "maintain": "hudi_catalog.cli.maintain_command",
    "clean": "hudi_catalog.cli.service_commands",
    "repair": "hudi_catalog.cli.service_commands",
    "archive": "hudi_catalog.cli.service_commands",
    "cluster": "hudi_catalog.cli.clustering_commands",
    "resize": "hudi_catalog.cli.clustering_commands",
    "expire": "hudi_catalog.cli.service_commands",
    "restore": "hudi_catalog.cli.service_commands",
    "rollback": "hudi_catalog.cli.service_commands",
    "sync": "hudi_catalog.metastore.commands",
    "gateway": "hudi_catalog.cli.serve_commands",
    "metastore": "hudi_catalog.cli.serve_commands",
    "hive-jar": "hudi_catalog.hive.handler",
    "trino-plugin": "hudi_catalog.trino.connector.plugin",
    "serve": "hudi_catalog.cli.serve_commands:serve_app",
    "index": "hudi_catalog.cli.index_service_commands:index_app",
    "savepoint": "hudi_catalog.cli.service_commands:savepoint_app",
}
"""Modules of the commands, in the order of the help; the function has the command's name, unless another follows."""


class _Commands(Mapping[str, Any]):
    """The commands by name; a command's module is imported when it is looked up."""

    def __init__(self) -> None:
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            module, _, attribute = _COMMANDS[name].partition(":")
            target = getattr(importlib.import_module(module), attribute or name.replace("-", "_"))
            alone = typer.Typer(add_completion=False)
            alone.callback()(common_options)  # so that it is a group, of this one command
            if isinstance(target, typer.Typer):
                alone.add_typer(target, name=name)
            else:
                alone.command(name, context_settings=HELP)(target)
            self._imported[name] = vars(typer.main.get_command(alone))["commands"][name]
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _LazyGroup(TyperGroup):
    """A group whose commands are imported one by one, so that each starts without the libraries of the others."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # as in the class above
        return list(_COMMANDS)


app = typer.Typer(
    cls=_LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, context_settings=HELP
)


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
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not isinstance(error, (HudiError, OSError)) and not _is_of_arrow(error):
            raise
        sys.stderr.write(f"hudi-catalog: {error_text(error)}\n")
        sys.exit(1)


def _is_of_arrow(error: Exception) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(error, arrow.ArrowException)
