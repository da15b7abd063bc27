"""`make trino`: Trino 476 over a small warehouse, with the service and the gateway beside it, until Ctrl-C."""

from __future__ import annotations

import functools
import sys

from hudi_catalog.trino.connector.plugin import catalog_lines
from tools.engines import programs
from tools.engines.process import free_port
from tools.engines.programs import Warehouse
from tools.engines.statements import StatementError, run_statement
from tools.engines.trino import TrinoServer

INSTRUCTIONS = """
Trino {version} is running: {trino} (user: any, no password; log: {log})

  {service_catalog}.{table}   through the service at port {service}
  hive.{table}           through the gateway: connect to port {gateway} instead of {port}
  lake.{table}           through our connector hudi_catalog
  hudi.{table}_hudi      through Trino's own Hudi connector

  trino --server http://127.0.0.1:{gateway} --execute "SELECT * FROM hive.{table} {rest}"
  queries seen: http://127.0.0.1:{service_http} and http://127.0.0.1:{gateway_http}

Ctrl-C stops it all.
"""


def main() -> int:
    """Start everything, say how to connect, and wait."""
    return programs.until_interrupted("make trino", __doc__, RunningTrino, 8080, "Trino")


class RunningTrino:
    """A warehouse, Trino, the service and the gateway."""

    def __init__(self, port: int, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        folder = functools.partial(programs.folder_of, "trino")
        metastore = folder("metastore")
        self.service, self.service_http, self.gateway, self.gateway_http = (free_port() for _ in range(4))
        print("starting the service, Trino and the gateway …", flush=True)
        ports = ("--port", str(self.service), "--http-port", str(self.service_http))
        serving = ("serve", "trino", warehouse.folder, *ports)
        self.processes = [programs.serving(folder("service"), self.service_http, *serving)]
        self.trino = TrinoServer(folder("trino"), port=port, service=f"127.0.0.1:{self.service}", metastore=metastore)
        self._create_lake()
        stored = ("--metastore", metastore.as_uri())
        programs.register(warehouse, "--target", "trino", *stored, "--also-hudi")
        ports = ("--port", str(self.gateway), "--http-port", str(self.gateway_http))
        gateway = ("gateway", self.trino.uri, *stored, *ports)
        self.processes.append(programs.serving(folder("gateway"), self.gateway_http, *gateway))

    def _create_lake(self) -> None:
        """The catalog of our connector, if its jar could be built."""
        properties = ", ".join(
            f""""{key}" = '{value}'"""
            for key, value in (line.split("=", 1) for line in catalog_lines("127.0.0.1", self.service)[1:])
        )
        try:
            run_statement(self.trino.uri, f"CREATE CATALOG lake USING hudi_catalog WITH ({properties})")
        except StatementError as error:
            print(f"without the catalog lake: {error}", flush=True)

    def instructions(self) -> str:
        """How to connect."""
        return INSTRUCTIONS.format(
            version="476",
            trino=self.trino.uri,
            log=self.trino.process.log,
            service_catalog="hudi_catalog",
            table=self.warehouse.table,
            rest=self.warehouse.rest,
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


if __name__ == "__main__":
    sys.exit(main())
