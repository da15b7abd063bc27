"""What `make trino` and `make hive` share: a warehouse, our commands beside an engine, the wait for Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from catalog.catalog import Catalog
from table_format.errors import HudiError
from tools.engines.artifacts import EngineMissingError
from tools.engines.process import ServerProcess

WORK = Path(__file__).parents[2] / ".work"
SCHEMA = "tpch"
_START_SECONDS = 60.0
_PROGRAM = str(Path(sys.executable).with_name("hudi-catalog"))


@dataclass(frozen=True)
class Warehouse:
    """The tables that an engine shows.

    Attributes:
        folder: or URI, that has them.
        schema: that all of them are registered in; None for the database of each.
        table: one of them, `schema.name` as engines write it.
        rest: of a query after that name.
    """

    folder: str
    schema: str | None
    table: str
    rest: str

    def sync_arguments(self) -> tuple[str, ...]:
        """Of `hudi-catalog sync`."""
        return (*(() if self.schema is None else ("--schema", self.schema)), "--all", self.folder)


def warehouse_of(folder: str) -> Warehouse:
    """A warehouse of the user's.

    Raises:
        EngineMissingError: there is none, or it has no table.
    """
    try:
        tables = [entry for entry in Catalog(folder).tables() if entry.problem is None]
    except HudiError as error:
        raise EngineMissingError(f"WAREHOUSE={folder}: {error}") from error
    if not tables:
        raise EngineMissingError(f"WAREHOUSE={folder}: no Hudi table lies there; name the folder that has the tables")
    name = tables[0].name.lower()
    # the service runs in another folder
    place = folder if "://" in folder else os.path.abspath(folder)
    return Warehouse(place, None, name if "." in name else f"default.{name}", "LIMIT 10")


def tpch_warehouse(scale: str) -> Warehouse:
    """TPC-H as bucketed tables in the folder `tpch`; written once for each scale factor."""
    from tests.support.tpch_tables import build

    folder = WORK / f"warehouse-{scale}"
    if not folder.exists():
        print(f"writing TPC-H at scale factor {scale} …", flush=True)
        partial = folder.with_suffix(".part")
        build(partial / SCHEMA, WORK / f"generated-{scale}", scale)
        partial.rename(folder)
    return Warehouse(str(folder), SCHEMA, f"{SCHEMA}.orders", "WHERE o_orderkey = 7")


def serving(folder: Path, status: int, *arguments: str) -> ServerProcess:
    """One of our commands that serve, once it reports that it is ready.

    Args:
        folder: For its log; the last part names it.
        status: Port of its status page.
        arguments: Of `hudi-catalog`.

    Raises:
        EngineMissingError: It did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = ServerProcess(folder.name, [_PROGRAM, *arguments], folder)
    process.wait_until(lambda: _is_ready(status), _START_SECONDS)
    return process


def register(warehouse: Warehouse, *arguments: str) -> None:
    """Run `hudi-catalog sync` for all tables.

    Raises:
        EngineMissingError: It failed, and has said why; with a warehouse of the user's, the other tables are shown.
    """
    failed = subprocess.run([_PROGRAM, "sync", *arguments, *warehouse.sync_arguments()], check=False).returncode
    if failed and warehouse.schema is not None:
        raise EngineMissingError("hudi-catalog sync failed")


class Running(Protocol):
    """An engine with all that belongs to it."""

    def instructions(self) -> str:
        """How to connect."""

    def stop(self) -> None:
        """End all of it."""


def folder_of(engine: str, name: str) -> Path:
    """A folder for what one of an engine's programs writes."""
    folder = WORK / engine / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def until_interrupted(
    program: str, description: str | None, start: Callable[[int, Warehouse], Running], port: int, whose: str
) -> int:
    """Start an engine as the command line says, print how to use it, and stop it at Ctrl-C; gives the exit code.

    Args:
        program: Such as `make trino`.
        description: Of it, for `--help`.
        start: Starts the engine, given its port and the tables.
        port: By default.
        whose: What listens there.
    """
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--port", type=int, default=port, help=f"of {whose}; 0 for a free one")
    parser.add_argument("--warehouse", help="folder or URI of tables of your own")
    parser.add_argument("--scale", default="0.01", help="scale factor of the TPC-H tables, without --warehouse")
    asked = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        running = start(asked.port, warehouse_of(asked.warehouse) if asked.warehouse else tpch_warehouse(asked.scale))
    except EngineMissingError as error:
        print(error, file=sys.stderr)
        return 1
    print(running.instructions(), flush=True)
    stopped.wait()
    running.stop()
    return 0


def _is_ready(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2).close()
    except OSError:
        return False
    return True
