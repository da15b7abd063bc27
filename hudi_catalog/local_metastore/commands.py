"""The command `hudi-catalog metastore`: a Hive Metastore until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from table_format.errors import ServiceError

_LOOK_SECONDS = 1.0

TOLD = """\
a Hive Metastore, kept in {folder}
  register:  hudi-catalog sync --metastore {uri} --all WAREHOUSE
  Spark:     --conf spark.sql.catalogImplementation=hive --conf spark.hadoop.hive.metastore.uris={uri}
  Hive:      hive.metastore.uris={uri}
  Trino:     connector.name=hive, hive.metastore.uri={uri}
Ctrl-C stops it; what is registered stays.
"""


def metastore(
    *,
    folder: Annotated[
        str | None,
        typer.Option("--folder", help="Where it is kept; by default in the user's data folder. Made if missing."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of 127.0.0.1 to listen at; 0 for a free one.")
    ] = 9083,
) -> None:
    """Run a local Hive Metastore from PySpark's jars, for trying things; prints its URI."""
    from hudi_catalog.local_metastore.server import LocalMetastore

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    place = Path(folder) if folder else default_folder()
    with LocalMetastore(place, port=port) as server:
        sys.stdout.write(f"{server.uri}\n")
        sys.stdout.flush()
        sys.stderr.write(TOLD.format(folder=place, uri=server.uri))
        while not stopped.wait(_LOOK_SECONDS):
            if not server.running:
                raise ServiceError(f"the Hive Metastore ended of itself; see {server.log}")
    sys.stderr.write("hudi-catalog: stopped\n")


def default_folder() -> Path:
    """Folder of the local metastore where none is named, as the XDG base directories have it."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(base) / "hudi-catalog/metastore"
