"""`make trino`: Trino 476 over a small warehouse, with the service and the gateway beside it, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.engines import programs
from tools.engines.process import free_port
from tools.engines.programs import SCHEMA
from tools.engines.trino import TrinoServer

FOLDER = programs.WORK / "trino"

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

    def start() -> tuple[str, Running]:
        running = Running(asked.port, asked.scale)
        return running.told(), running

    return programs.until_interrupted(start)


class Running:
    """A warehouse, Trino, the service and the gateway."""

    def __init__(self, port: int, scale: str) -> None:
        warehouse = str(programs.warehouse(scale))
        metastore = _folder("metastore")
        self.service, self.service_http, self.gateway, self.gateway_http = (free_port() for _ in range(4))
        print("starting the service, Trino and the gateway …", flush=True)
        ports = ("--port", str(self.service), "--http-port", str(self.service_http))
        self.processes = [programs.serving(FOLDER / "service", self.service_http, "serve", "trino", warehouse, *ports)]
        self.trino = TrinoServer(_folder("trino"), port=port, service=f"127.0.0.1:{self.service}", metastore=metastore)
        stored = ("--metastore", metastore.as_uri())
        programs.run("sync", "--target", "trino", *stored, "--schema", SCHEMA, "--also-hudi", "--all", warehouse)
        ports = ("--port", str(self.gateway), "--http-port", str(self.gateway_http))
        gateway = ("gateway", self.trino.uri, *stored, *ports)
        self.processes.append(programs.serving(FOLDER / "gateway", self.gateway_http, *gateway))

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

    def __call__(self) -> None:
        """End all of it."""
        for process in reversed(self.processes):
            process.stop()
        self.trino.stop()


def _folder(name: str) -> Path:
    made = FOLDER / name
    made.mkdir(parents=True, exist_ok=True)
    return made


if __name__ == "__main__":
    sys.exit(main())
