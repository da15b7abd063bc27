"""A Hive Metastore 4.0.1 and a HiveServer2 as local processes, configured by the files of `docker/hive/conf`."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tools.engines.hive.jars import hook_classes, in_order, installation
from tools.engines.jdk import find_java
from tools.engines.process import ServerProcess, free_port

JAVA = 17
TEMPLATES = Path(__file__).parents[3] / "docker/hive/conf"
START_SECONDS = 120.0
FOLDER_GUARD = "hudicatalog.hive.FolderGuard"
_OPENED = (
    "java.io",
    "java.lang",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.regex",
    "jdk.internal.ref",
    "sun.nio.ch",
)


class HiveMetastore:
    """A Hive Metastore 4.0.1 that listens on 127.0.0.1, with its own database.

    Attributes:
        port: Of Thrift.
        uri: `thrift://…`, as clients name it.
        warehouse: Folder of Hive's own tables.
        process: The process, with its log.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        classes: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and wait until it takes connections.

        Args:
            folder: Configuration, database and log.
            port: 0 takes a free one.
            classes: Jars in front of Hive's own, such as the storage handler, whose folder guard is switched on then.
            properties: More of Hive's configuration.

        Raises:
            EngineMissingError: No JDK, no jars, or it does not start; the message says why.
        """
        self.port = port or free_port()
        self.uri = f"thrift://127.0.0.1:{self.port}"
        self.warehouse = folder / "warehouse"
        main = ("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port))
        guarded = {"hive.metastore.pre.event.listeners": FOLDER_GUARD} if classes else {}
        _configure(folder, {"hivemetastore-site.xml": {**guarded, **(properties or {})}})
        environment = {
            "HUDI_HIVE_DATA": str(folder),
            "HUDI_HIVE_METASTORE_PORT": str(self.port),
            "HUDI_HIVE_WAREHOUSE": str(self.warehouse),
        }
        self.process = ServerProcess("Hive Metastore", _java(folder, "384m", classes, main), folder, environment)
        self.process.wait_until(lambda: _listens(self.port), START_SECONDS)

    def stop(self) -> None:
        """End it."""
        self.process.stop()


class HiveServer:
    """A HiveServer2 4.0.1 that listens on 127.0.0.1 without passwords, on Tez's local mode.

    Attributes:
        port: Of Thrift: `pyhive.hive.connect("127.0.0.1", port, auth="NOSASL")`.
        process: The process, with its log.
    """

    def __init__(
        self,
        folder: Path,
        metastore: HiveMetastore,
        *,
        port: int = 0,
        service: str = "127.0.0.1:9790",
        classes: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
        time_zone: str = "UTC",
        memory: str = "1g",
    ) -> None:
        """Start it and wait until it takes connections.

        Args:
            folder: Configuration, scratch files and log; not the metastore's.
            metastore: Of its tables.
            port: 0 takes a free one.
            service: Address of `hudi-catalog serve hive`.
            classes: Jars in front of Hive's own, such as the storage handler.
            properties: More of Hive's configuration.
            time_zone: Of the JVM.
            memory: Its heap, such as `1g`.

        Raises:
            EngineMissingError: No JDK, no jars, or it does not start; the message says why.
        """
        self.port = port or free_port()
        # system properties reach only settings that Hive knows; this file reaches all
        _configure(folder, {"hiveserver2-site.xml": properties or {}})
        environment = {
            "HUDI_HIVE_DATA": str(folder),
            "HUDI_HIVE_PORT": str(self.port),
            "HUDI_HIVE_METASTORE_PORT": str(metastore.port),
            "HUDI_HIVE_WAREHOUSE": str(metastore.warehouse),
            "HUDI_HIVE_SERVICE": service,
        }
        main = ("org.apache.hive.service.server.HiveServer2",)
        command = _java(folder, memory, classes, main, time_zone)
        self.process = ServerProcess("HiveServer2", command, folder, environment)
        self.process.wait_until(lambda: _listens(self.port), START_SECONDS)

    def stop(self) -> None:
        """End it."""
        self.process.stop()


def _java(folder: Path, memory: str, classes: Sequence[Path], main: Sequence[str], time_zone: str = "UTC") -> list[str]:
    """The command of one of Hive's servers."""
    java, jars = find_java(JAVA), installation()
    (folder / "tmp").mkdir(exist_ok=True)
    options = [
        f"-Xmx{memory}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true",
        f"-Duser.timezone={time_zone}",
        f"-Dderby.system.home={folder}",
        f"-Djava.io.tmpdir={folder}/tmp",
        f"-Dhadoop.home.dir={folder}",
        "-Dlog4j2.disable.jmx=true",
        "-Dlog4j2.configurationFile=hive-log4j2.properties",
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
    ]
    path = [f"{folder}/conf", *map(str, classes), str(hook_classes(java, jars)), *map(str, in_order(jars))]
    return [str(java), *options, "-cp", ":".join(path), *main]


def _configure(folder: Path, more: Mapping[str, Mapping[str, str]]) -> None:
    """The configuration of a server: the shared files, and files of its own."""
    shutil.copytree(TEMPLATES, folder / "conf", dirs_exist_ok=True)
    for name, settings in more.items():
        properties = "".join(
            f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        (folder / "conf" / name).write_text(f"<configuration>\n{properties}</configuration>\n")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
