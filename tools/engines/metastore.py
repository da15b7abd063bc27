"""A Hive Metastore 2.3.10 as a local process: the classes lie in PySpark's jars, the database is Derby's."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from xml.sax.saxutils import escape

from tools.engines.artifacts import EngineMissingError
from tools.engines.jdk import find_java
from tools.engines.process import ServerProcess, free_port

JAVA = 17
START_SECONDS = 90.0
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
)


class MetastoreServer:
    """A Hive Metastore that listens on 127.0.0.1."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        """Start it and wait until it takes connections.

        Args:
            folder: Database, warehouse and log.
            port: Thrift port; 0 takes a free one.

        Raises:
            EngineMissingError: No JDK or no PySpark, or it does not start.
        """
        found = importlib.util.find_spec("pyspark")
        if not found or not found.origin:
            raise EngineMissingError("a Hive Metastore comes from PySpark's jars: pip install 'hudi-catalog[spark]'")
        java = find_java(JAVA)
        self.port = port or free_port()
        self.uri = f"thrift://127.0.0.1:{self.port}"
        self.warehouse = folder / "warehouse"
        self.warehouse.mkdir(parents=True, exist_ok=True)
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/database;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": self.warehouse.as_uri(),
            "hive.metastore.thrift.bind.host": "127.0.0.1",
            # its logger needs a library that PySpark lacks
            "hive.async.log.enabled": "false",
            "hive.metastore.event.db.notification.api.auth": "false",
        }
        _write_settings(folder / "conf/hive-site.xml", settings)
        jars = Path(found.origin).parent / "jars"
        options = ["-Xmx512M", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"]
        options += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        command = [str(java), *options, "-cp", f"{folder}/conf:{jars}/*", main, "-p", str(self.port)]
        self.process = ServerProcess("Hive Metastore", command, folder)
        self.process.wait_until(self._listens, START_SECONDS)

    def stop(self) -> None:
        """End it."""
        self.process.stop()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def _write_settings(path: Path, settings: dict[str, str]) -> None:
    """A Hadoop configuration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{properties}</configuration>\n")
