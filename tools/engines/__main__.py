"""`make trino`: Trino 476 over a small warehouse, with the service and the gateway beside it, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tools.engines.artifacts import EngineMissingError
from tools.engines.process import ServerProcess, free_port
from tools.engines.trino import TrinoServer

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".work/trino"
SCHEMA = "tpch"
START_SECONDS = 60.0

TOLD = """
Trino {version} is running: {trino} (user: any, no password; log: {log})

  {service_catalog}.{schema}   through the service at port {service}
  hive.{schema}           through the gateway: connect to port {gateway} instead of {port}
  hudi.{schema}           through Trino's own Hudi connector (tables <name>_hudi)

  trino --server http://127.0.0.1:{gateway} --execute "SELECT * FROM hive.{schema}.orders WHERE o_orderkey = 7"
  queries seen: http://127.0.0.1:{service_http} and http://127.0.0.1:{gateway_http}

Ctrl-C stops it all.
"""


def main() -> int:
    """Start everything, say how to connect, and wait."""
    parser = argparse.ArgumentParser(prog="make trino", description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="of Trino; 0 for a free one")
    parser.add_argument("--scale", default="0.01", help="scale factor of the TPC-H tables")
    asked = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        running = Running(asked.port, asked.scale)
    except EngineMissingError as error:
        print(error, file=sys.stderr)
        return 1
    print(running.told(), flush=True)
    stopped.wait()
    running.stop()
    return 0


class Running:
    """A warehouse, Trino, the service and the gateway."""

    def __init__(self, port: int, scale: str) -> None:
        warehouse = _warehouse(scale)
        metastore = FOLDER / "metastore"
        metastore.mkdir(parents=True, exist_ok=True)
        self.service, self.service_http, self.gateway, self.gateway_http = (free_port() for _ in range(4))
        print("starting the service, Trino and the gateway …", flush=True)
        ports = ("--port", str(self.service), "--http-port", str(self.service_http))
        self.processes = [self._command("service", self.service_http, "serve", "trino", str(warehouse), *ports)]
        self.trino = TrinoServer(_folder("trino"), port=port, service=f"127.0.0.1:{self.service}", metastore=metastore)
        stored = ("--metastore", metastore.as_uri())
        names = ("--schema", SCHEMA, "--also-hudi", "--all")
        command = [*_PROGRAM, "sync", "--target", "trino", *stored, *names, str(warehouse)]
        subprocess.run(command, check=True)
        ports = ("--port", str(self.gateway), "--http-port", str(self.gateway_http))
        self.processes.append(self._command("gateway", self.gateway_http, "gateway", self.trino.uri, *stored, *ports))

    def _command(self, name: str, status: int, *arguments: str) -> ServerProcess:
        """One of our commands, once it says that it is ready."""
        process = ServerProcess(name, [*_PROGRAM, *arguments], _folder(name))
        process.wait_until(lambda: _is_ready(status), START_SECONDS)
        return process

    def told(self) -> str:
        """How to connect."""
        return TOLD.format(
            version="476",
            trino=self.trino.uri,
            log=self.trino.process.log,
            service_catalog="hudi_catalog",
            schema=SCHEMA,
            service=self.service,
            service_http=self.service_http,
            gateway=self.gateway,
            gateway_http=self.gateway_http,
            port=self.trino.port,
        )

    def stop(self) -> None:
        """End all of it."""
        for process in reversed(self.processes):
            process.stop()
        self.trino.stop()


_PROGRAM: Sequence[str] = (str(Path(sys.executable).with_name("hudi-catalog")),)


def _folder(name: str) -> Path:
    made = FOLDER / name
    made.mkdir(parents=True, exist_ok=True)
    return made


def _warehouse(scale: str) -> Path:
    """TPC-H as bucketed tables; written once for each scale factor."""
    from tests.engines.tpch_tables import build

    warehouse = FOLDER / f"warehouse-{scale}"
    if not warehouse.exists():
        print(f"writing TPC-H at scale factor {scale} …", flush=True)
        partial = warehouse.with_suffix(".part")
        build(partial / SCHEMA, FOLDER / f"generated-{scale}", scale)
        partial.rename(warehouse)
    return warehouse


def _is_ready(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
