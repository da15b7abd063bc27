"""`make hive`: Hive 4.0.1 over a small warehouse, with a metastore and the service beside it, until Ctrl-C."""

from __future__ import annotations

import sys

from tools.engines import programs
from tools.engines.hive.jars import VERSION, handler
from tools.engines.hive.server import HiveMetastore, HiveServer
from tools.engines.process import free_port
from tools.engines.programs import Warehouse

INSTRUCTIONS = """
Hive {version} is running: HiveServer2 at port {port} (user: any, no password; log: {log}),
its metastore at {metastore}, and the service that its storage handler asks at port {service}.

  {python} -m tools.engines.hive.query --port {port} 'SELECT * FROM {table} {rest}'

  with an installation of Hive:
  beeline -u 'jdbc:hive2://127.0.0.1:{port}/;auth=noSasl' -e 'SELECT * FROM {table} {rest}'

  from pyhive import hive
  cursor = hive.connect("127.0.0.1", {port}, auth="NOSASL").cursor()
  cursor.execute("SELECT * FROM {table} {rest}")
  print(cursor.fetchall())

  another table: hudi-catalog sync --metastore {metastore} --service hive-site PATH (below {warehouse})
  queries seen: http://127.0.0.1:{service_http}

Ctrl-C stops it all.
"""


def main() -> int:
    """Start everything, say how to connect, and wait."""
    return programs.until_interrupted("make hive", __doc__, RunningHive, 10000, "HiveServer2")


class RunningHive:
    """A warehouse, the service, the metastore and HiveServer2."""

    def __init__(self, port: int, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.port, self.service, self.service_http = port, free_port(), free_port()
        print("starting the service, the metastore and HiveServer2 …", flush=True)
        served = ("--port", str(self.service), "--http-port", str(self.service_http))
        folder = programs.folder_of("hive", "service")
        self.process = programs.serving(folder, self.service_http, "serve", "hive", warehouse.folder, *served)
        self.metastore = HiveMetastore(programs.folder_of("hive", "metastore"), classes=[handler()])
        address = f"127.0.0.1:{self.service}"
        self.server = HiveServer(
            programs.folder_of("hive", "server"), self.metastore, port=port, service=address, classes=[handler()]
        )
        programs.register(warehouse, "--metastore", self.metastore.uri, "--service", "hive-site")

    def instructions(self) -> str:
        """How to connect."""
        return INSTRUCTIONS.format(
            version=VERSION,
            port=self.server.port,
            log=self.server.process.log,
            metastore=self.metastore.uri,
            service=self.service,
            service_http=self.service_http,
            python=sys.executable,
            table=self.warehouse.table,
            rest=self.warehouse.rest,
            warehouse=self.warehouse.folder,
        )

    def stop(self) -> None:
        """End all of it."""
        self.server.stop()
        self.metastore.stop()
        self.process.stop()


if __name__ == "__main__":
    sys.exit(main())
