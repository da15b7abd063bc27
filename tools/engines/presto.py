"""Presto 0.287 as a local process."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.engines.artifacts import Artifact, fetch, unpacked
from tools.engines.jdk import find_java
from tools.engines.process import ServerProcess, free_port
from tools.engines.statements import StatementError, run_statement

VERSION = "0.287"
JAVA = 17
ARCHIVE = Artifact("com.facebook.presto", "presto-server", VERSION, "tar.gz")
PLUGINS = ("presto-thrift", "tpch")
START_SECONDS = 240.0
# The release generates classes with ASM 9.0, which cannot read those of Java 17.
ASM = "9.7.1"
_OLD_ASM = "-9.0.jar"
_OPENED = (
    *(
        "java.base/java." + name
        for name in ("io", "lang", "lang.ref", "lang.reflect", "net", "nio", "security", "text")
    ),
    *("java.base/java.util" + name for name in ("", ".concurrent", ".concurrent.atomic", ".regex")),
    *("java.base/sun.nio.ch", "java.base/sun.net.www.protocol.http", "java.base/javax.security.auth"),
    "java.management/sun.management",
)


def installation() -> Path:
    """Folder of the server with the plugins used here, able to run on Java 17.

    Raises:
        EngineMissingError: It cannot be fetched.
    """
    folders = ("lib/", *(f"plugin/{name}/" for name in PLUGINS))
    home = unpacked(ARCHIVE, lambda name: name.startswith(folders), label="-".join(PLUGINS))
    for old in home.rglob(f"asm*{_OLD_ASM}"):
        name = old.name.removesuffix(_OLD_ASM)
        shutil.copy(fetch(Artifact("org.ow2.asm", name, ASM)), old.with_name(f"{name}-{ASM}.jar"))
        old.unlink(missing_ok=True)
    return home


class PrestoServer:
    """A Presto that listens on 127.0.0.1 and is ready for queries."""

    def __init__(self, folder: Path, *, port: int = 0, catalogs: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Start it and wait for its first answer.

        Args:
            folder: Configuration, data and log of this server.
            port: HTTP port; 0 takes a free one.
            catalogs: Properties of each catalog beside `tpch`; Presto reads them at its start only.

        Raises:
            EngineMissingError: No JDK, no server, or it does not start; the message says why.
        """
        java, home = find_java(JAVA), installation()
        self.port = port or free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        etc = folder / "etc"
        (etc / "catalog").mkdir(parents=True, exist_ok=True)
        for name, properties in {"tpch": {"connector.name": "tpch"}, **(catalogs or {})}.items():
            _write_properties(etc / f"catalog/{name}.properties", properties)
        config = {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(self.port),
            "discovery-server.enabled": "true",
            "discovery.uri": self.uri,
            "plugin.dir": f"{home}/plugin",
            "catalog.config-dir": f"{etc}/catalog",
            "query.max-memory": "1GB",
            "query.max-memory-per-node": "500MB",
            "query.max-total-memory-per-node": "500MB",
        }
        _write_properties(etc / "config.properties", config)
        node = {"node.environment": "test", "node.id": "n1", "node.bind-ip": "127.0.0.1"}
        node |= {"node.internal-address": "127.0.0.1", "node.data-dir": f"{folder}/data"}
        options = [
            "-server",
            "-Xmx1G",
            "-XX:+UseG1GC",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:TieredStopAtLevel=1",
            "-Duser.timezone=UTC",
        ]
        options += ["-Djdk.attach.allowAttachSelf=true", *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED)]
        options += [f"-D{name}={value}" for name, value in {**node, "config": f"{etc}/config.properties"}.items()]
        command = [str(java), *options, "-cp", f"{home}/lib/*", "com.facebook.presto.server.PrestoServer"]
        self.process = ServerProcess("Presto", command, folder)
        self.process.wait_until(self._answers, START_SECONDS)

    def query(self, sql: str, *, catalog: str | None = None, schema: str | None = None) -> list[list[object]]:
        """Rows of a query, as Presto's JSON spells them."""
        session = {"X-Presto-Catalog": catalog, "X-Presto-Schema": schema}
        headers = {name: value for name, value in session.items() if value}
        return run_statement(self.uri, sql, product="Presto", headers=headers)

    def stop(self) -> None:
        """End it."""
        self.process.stop()

    def _answers(self) -> bool:
        try:
            return self.query("SELECT count(*) FROM tpch.tiny.region") == [[5]]
        except (StatementError, OSError):
            return False


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
