"""A Hive Metastore 3.1.3 as a local process: its own jars in front of those of Hive 4.0.1, which serve it as well."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

from hudi_catalog.local_metastore.server import write_settings
from tools.engines.artifacts import Artifact, EngineMissingError, fetch
from tools.engines.hive.jars import installation
from tools.engines.jdk import find_java
from tools.engines.process import ServerProcess, free_port

JAVA = 17
START_SECONDS = 120.0
# with their SHA-256: what 4.0.1 has in releases that 3.1.3 cannot use
JARS = {
    Artifact(
        "org.apache.hive", "hive-standalone-metastore", "3.1.3"
    ): "779d11d856d9f41b5f78658fdf7ddf1626f03c7ae5d808582484c3744597a1f3",
    Artifact(
        "org.apache.hive", "hive-storage-api", "2.7.0"
    ): "b764dfada0b3320b4899d854e5ba4c82a9dc96bbc73bcb79e7734a25275d27bd",
    Artifact(
        "org.apache.thrift", "libthrift", "0.9.3"
    ): "bca5e8cdee1e0fbf563de7d41c452385e7bed69723fa28225a9ce718a8ee3419",
    Artifact(
        "org.datanucleus", "datanucleus-api-jdo", "4.2.4"
    ): "f30f1f09658329190811468e58a622f069d97a7284d67a88b8d01c809ab3d1f3",
    Artifact(
        "org.datanucleus", "datanucleus-core", "4.1.17"
    ): "adb64b5ec1837821e289fc82b04c13f6b5a2f1c68a24628bcec6a7c43b5f5bca",
    Artifact(
        "org.datanucleus", "datanucleus-rdbms", "4.1.19"
    ): "a189e10fb48dc0fa550721ee2206a1df8a2fd68d213149bf68793976b0ade687",
    Artifact(
        "org.datanucleus", "javax.jdo", "3.2.0-m3"
    ): "b0e338881376e4588f7564ae2dcc91737148e7c950873f6b0b899cbf0feef80b",
    Artifact("com.zaxxer", "HikariCP", "2.6.1"): "52da9e85e82b296c0b25985f1acf6e063b026a78bdad01faa164141d96c0ec36",
    # that of 4.0.1 is older than its Jackson needs, which 3.1.3 uses for statistics
    Artifact(
        "com.fasterxml.jackson.core", "jackson-annotations", "2.19.0"
    ): "ead60e9cac0e42b57092b9e2d087ff43536e9477d4486ba393037a8cc156cda7",
}
# the same in other releases: the two cannot be told apart on one class path
_LEFT_OUT = ("hive-", "libthrift-", "datanucleus-", "javax.jdo-", "HikariCP-")
_OPENED = ("java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.util", "java.util.concurrent")


class Hive3Metastore:
    """A Hive Metastore 3.1.3, with its own database.

    Attributes:
        port: Of Thrift.
        uri: `thrift://…`, as clients name it.
        process: The process, with its log.
    """

    def __init__(self, folder: Path) -> None:
        """Start it and wait until it takes connections.

        Args:
            folder: Configuration, database and log.

        Raises:
            EngineMissingError: No JDK, no jars, or it does not start; the message says why.
        """
        java, jars = find_java(JAVA), [str(jar) for jar in class_path()]
        self.port = free_port()
        self.uri = f"thrift://127.0.0.1:{self.port}"
        for made in ("conf", "tmp"):
            (folder / made).mkdir(parents=True, exist_ok=True)
        settings = {
            "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=database;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "metastore.schema.verification": "false",
            "metastore.warehouse.dir": (folder / "warehouse").as_uri(),
            # its other tasks lie in jars of Hive's own
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.event.db.notification.api.auth": "false",
        }
        write_settings(folder / "conf/metastore-site.xml", settings)
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        options += [f"-Dderby.system.home={folder}", f"-Djava.io.tmpdir={folder}/tmp"]
        options += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        main = ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)]
        command = [str(java), *options, "-cp", ":".join([f"{folder}/conf", *jars]), *main]
        self.process = ServerProcess("Hive Metastore 3.1.3", command, folder)
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


def class_path() -> list[Path]:
    """Its jars, fetched on first use and compared with their checksums each time.

    Raises:
        EngineMissingError: One could not be fetched, or is not the one listed.
    """
    own = []
    for artifact, digest in JARS.items():
        path = fetch(artifact)
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise EngineMissingError(f"{path} is not the jar that is listed (SHA-256 differs); delete it and try again")
        own.append(path)
    return own + [path for path in sorted(installation().glob("*.jar")) if not path.name.startswith(_LEFT_OUT)]
