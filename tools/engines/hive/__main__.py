"""`make hive`: Hive 4.0.1 over a small warehouse, with a metastore and the service beside it, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.engines import programs
from tools.engines.hive.jars import VERSION, handler
from tools.engines.hive.server import HiveMetastore, HiveServer
from tools.engines.process import free_port
from tools.engines.programs import SCHEMA

FOLDER = programs.WORK / "hive"

TOLD = """
Hive {version} is running: HiveServer2 at port {port} (user: any, no password; log: {log}),
its metastore at {metastore}, and the service that its storage handler asks at port {service}.

  beeline -u 'jdbc:hive2://127.0.0.1:{port}/{schema};auth=noSasl' -e 'SELECT * FROM orders WHERE o_orderkey = 7'

  from pyhive import hive
  cursor = hive.connect("127.0.0.1", {port}, auth="NOSASL", database="{schema}").cursor()
  cursor.execute("SELECT * FROM orders WHERE o_orderkey = 7")
  print(cursor.fetchall())

  another table: hudi-catalog sync --metastore {metastore} PATH (below {warehouse})
  queries seen: http://127.0.0.1:{service_http}

Ctrl-C stops it all.
"""


def main() -> int:
    """Start everything, say how to connect, and wait."""
    parser = argparse.ArgumentParser(prog="make hive", description=__doc__)
    parser.add_argument("--port", type=int, default=10000, help="of HiveServer2; 0 for a free one")
    parser.add_argument("--scale", default="0.01", help="scale factor of the TPC-H tables")
    asked = parser.parse_args()

    def start() -> tuple[str, Running]:
        running = Running(asked.port, asked.scale)
        return running.told(), running

    return programs.until_interrupted(start)


class Running:
    """A warehouse, the service, the metastore and HiveServer2."""

    def __init__(self, port: int, scale: str) -> None:
        self.warehouse = str(programs.warehouse(scale))
        self.port, self.service, self.service_http = port, free_port(), free_port()
        print("starting the service, the metastore and HiveServer2 …", flush=True)
        served = ("--port", str(self.service), "--http-port", str(self.service_http))
        folder = FOLDER / "service"
        self.process = programs.serving(folder, self.service_http, "serve", "hive", self.warehouse, *served)
        self.metastore = HiveMetastore(_folder("metastore"))
        address = f"127.0.0.1:{self.service}"
        self.server = HiveServer(
            _folder("server"), self.metastore.port, port=port, service=address, classes=[handler()]
        )
        programs.run("sync", "--metastore", self.metastore.uri, "--schema", SCHEMA, "--all", self.warehouse)

    def told(self) -> str:
        """How to connect."""
        return TOLD.format(
            version=VERSION,
            port=self.server.port,
            log=self.server.process.log,
            metastore=self.metastore.uri,
            service=self.service,
            service_http=self.service_http,
            schema=SCHEMA,
            warehouse=self.warehouse,
        )

    def __call__(self) -> None:
        """End all of it."""
        self.server.stop()
        self.metastore.stop()
        self.process.stop()


def _folder(name: str) -> Path:
    made = FOLDER / name
    made.mkdir(parents=True, exist_ok=True)
    return made


if __name__ == "__main__":
    sys.exit(main())
