"""Trino as a local process, configured by the files of `docker/trino/etc`: 476, or a later release for our plugin."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hudi_catalog.trino.connector import plugin
from tools.engines import trino_assembly, trino_jar
from tools.engines.artifacts import Artifact, EngineMissingError, cache_folder, unpacked
from tools.engines.jdk import find_java
from tools.engines.process import ServerProcess, free_port
from tools.engines.statements import StatementError, run_statement

VERSION = "476"
"""The release that is meant where none is named; the only one with the connectors of Hive, Hudi and Thrift here."""
JAVA = 25
ARCHIVE = Artifact("io.trino", "trino-server", VERSION, "tar.gz")
PLUGINS = ("hive", "hudi", "memory", "thrift", "tpch")
ASSEMBLED = ("483",)
"""Releases without an archive on Maven Central: they have the connectors `memory`, `tpch` and ours."""
_VECTORS = "--add-modules=jdk.incubator.vector"
TEMPLATES = Path(__file__).parents[2] / "docker/trino/etc"
START_SECONDS = 240.0


def installation(version: str = VERSION) -> Path:
    """Folder of the server with the plugins used here, fetched on first use.

    Raises:
        EngineMissingError: It cannot be fetched.
    """
    if version in ASSEMBLED:
        return trino_assembly.assembled(version, JAVA)
    if version != VERSION:
        raise EngineMissingError(f"Trino {version} is not known here: there are {', '.join((VERSION, *ASSEMBLED))}")
    folders = ("lib/", "secrets-plugin/", *(f"plugin/{name}/" for name in PLUGINS))
    return unpacked(ARCHIVE, lambda name: name.startswith(folders), label="-".join(PLUGINS))


class TrinoServer:
    """A Trino that listens on 127.0.0.1 and is ready for queries."""

    def __init__(
        self,
        folder: Path,
        *,
        version: str = VERSION,
        connector: str = "",
        s3: bool = True,
        port: int = 0,
        service: str = "127.0.0.1:9090",
        metastore: Path | None = None,
        properties: Mapping[str, str] | None = None,
        lasting: bool = True,
        coordinator: str = "",
    ) -> None:
        """Start it and wait for its first answer, or until its coordinator knows it.

        Args:
            folder: Configuration, data and log of this server.
            version: Release of Trino, `VERSION` or one of `ASSEMBLED`.
            connector: Release of Trino whose build of our connector it gets, where that is another one.
            s3: whether our connector gets Trino's S3 file system.
            port: HTTP port; 0 takes a free one.
            service: Address of `hudi-catalog serve trino` for the catalog `hudi_catalog`.
            metastore: Folder of the file metastore that `hive` and `hudi` read.
            properties: More properties of the server, by their names in `config.properties`.
            lasting: False for one that runs for minutes, as in tests: Java's second compiler would take more time
                then than it saves.
            coordinator: address of the server that it is a worker of; none for a server that is both.

        Raises:
            EngineMissingError: No JDK, no server, or it does not start; the message says why.
        """
        java, home = find_java(JAVA), installation(version)
        self.port = port or free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.metastore = metastore or folder / "metastore"
        self.metastore.mkdir(parents=True, exist_ok=True)
        etc = folder / "etc"
        shutil.copytree(TEMPLATES, etc, dirs_exist_ok=True)
        plugins = _plugins(folder / "plugin", home, connector or version, s3=s3)
        for name in PLUGINS:
            if not (plugins / name).exists():
                (etc / f"catalog/{name}.properties").unlink(missing_ok=True)
        if coordinator:
            _make_worker(etc / "config.properties")
        known = _nodes(coordinator) if coordinator else 0
        settings = {
            "config": f"{etc}/config.properties",
            "log.levels-file": f"{etc}/log.properties",
            "catalog.config-dir": f"{etc}/catalog",
            "plugin.dir": str(plugins),
            "http-server.http.port": str(self.port),
            "discovery.uri": coordinator or self.uri,
            "node.environment": "hudi_catalog",
            "node.id": f"trino-{self.port}",
            "node.bind-ip": "127.0.0.1",
            "node.internal-address": "127.0.0.1",
            "node.data-dir": f"{folder}/data",
            **(properties or {}),
        }
        options = (TEMPLATES / "jvm.config").read_text().split()
        # classes of the server are mapped from here: about five seconds sooner from the second start on
        archive = cache_folder() / f"trino-{version}.jsa"
        options += [
            *([_VECTORS] if version in ASSEMBLED else []),
            "-Duser.timezone=UTC",
            *([] if lasting else ["-XX:TieredStopAtLevel=1"]),
            "-XX:+AutoCreateSharedArchive",
            f"-XX:SharedArchiveFile={archive}",
            "-Xlog:cds=off",
            "-Xlog:aot=off",
        ]
        options += [f"-D{name}={value}" for name, value in settings.items()]
        main = [trino_assembly.MAIN, version] if version in ASSEMBLED else ["io.trino.server.TrinoServer"]
        command = [str(java), *options, "-cp", f"{home}/lib/*:{home}/lib", *main]
        environment = {"HUDI_CATALOG_SERVICE": service, "HUDI_CATALOG_METASTORE": f"file://{self.metastore}"}
        self.process = ServerProcess("Trino", command, folder, environment)
        self.process.wait_until(
            lambda: _nodes(coordinator) > known if coordinator else answers(self.uri), START_SECONDS
        )

    def stop(self) -> None:
        """End it."""
        self.process.stop()


def _plugins(folder: Path, home: Path, connector: str, *, s3: bool) -> Path:
    """A folder with the server's plugins and, where its jar can be built, ours for a release of Trino."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in (home / "plugin").iterdir():
        link = folder / one.name
        if not link.exists():
            link.symlink_to(one)
    try:
        trino_jar.build(connector)
    except EngineMissingError as error:
        print(f"without the connector hudi_catalog: {error}", file=sys.stderr)
    else:
        whole = connector == VERSION and home == installation()  # an assembled server lacks the plugin hive
        plugin.lay_out(folder / "hudi_catalog", home if whole else None, connector, s3=s3)
    return folder


def lacks(version: str) -> str | None:
    """What this machine's Java lacks for a release, in words; None if nothing.

    Raises:
        EngineMissingError: there is no Java of the right version.
    """
    if version not in ASSEMBLED:
        return None
    java = str(find_java(JAVA))
    modules = subprocess.run([java, "--list-modules"], check=True, stdout=subprocess.PIPE, text=True).stdout
    if _VECTORS.partition("=")[2] in modules:
        return None
    return f"Trino {version} needs Java's Vector API, which {java}, as PyPI's Java, lacks: install a JDK {JAVA}"


def _make_worker(config: Path) -> None:
    """A worker refuses what only coordinators have."""
    lines = config.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("coordinator", "node-scheduler"))]
    config.write_text("".join([*kept, "coordinator=false\n"]))


def _nodes(uri: str) -> int:
    """How many nodes a coordinator sends work to."""
    return int(run_statement(uri, "SELECT count(*) FROM system.runtime.nodes WHERE state = 'active'")[0][0])


def answers(uri: str) -> bool:
    """Whether the server runs queries by now."""
    try:
        return run_statement(uri, "SELECT count(*) FROM tpch.tiny.region", seconds=10) == [[5]]
    except (StatementError, OSError):
        return False
