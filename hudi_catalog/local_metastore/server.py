"""A Hive Metastore 2.3 as a local process, with the classes of PySpark's jars and a Derby database."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self
from xml.sax.saxutils import escape

from table_format.errors import OptionError, ServiceError, require

HOST: Final = "127.0.0.1"
_JAVA: Final = (17, 21, 25)
_STOP_SECONDS: Final = 20.0

_OPENED: Final = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
)

_DERBY_IN_USE: Final = "XSDB6"


class LocalMetastore:
    """A running Hive Metastore that listens on 127.0.0.1 only; it ends with this process at the latest.

    Args:
        folder: holds its database, warehouse and log; created if missing.
        port: 0 for a free one.

    Raises:
        OptionError: PySpark is missing, the port or the folder is in use, or no folder can be made there.
        ServiceError: there is no Java, or the metastore does not start; the message names the log.

    Attributes:
        uri: for `hive.metastore.uris`.
        port: that it listens on.
        warehouse: folder of tables that are created without a location.
        log: Java's output.
    """

    def __init__(self, folder: str | os.PathLike[str], *, port: int = 0) -> None:
        jars, java = pyspark_jars(), find_java(_JAVA)
        _check_free(port)
        place = Path(folder).absolute()
        if {":", ";"} & {*str(place)}:
            raise OptionError(f"{place}: Derby cannot keep a database in a folder with : or ; in its path")
        self.warehouse = place / "warehouse"
        self.log = place / "metastore.log"
        try:
            for made in (self.warehouse, place / "conf", place / "tmp"):
                made.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"{place}: no folder for a metastore can be made there: {error.strerror}") from error
        self._lock = _locked(place)
        try:
            write_settings(place / "conf/hive-site.xml", _settings(self.warehouse))
            self._process = self._start(java, jars, place)
            atexit.register(self.stop)
            try:
                self.port = self._serve(port)
            except BaseException:
                self.stop()
                raise
        except BaseException:
            self._lock.close()
            raise
        self.uri = f"thrift://{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the Java process is alive."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop the process, by force if it does not end in time; the database stays."""
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()  # Java ends when its input is closed
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, java: Path, jars: Path, folder: Path) -> subprocess.Popen[bytes]:
        options = ["-Xmx512M", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        options += [f"-Djava.io.tmpdir={folder / 'tmp'}", f"-Dderby.system.home={folder}"]
        options += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        # relative, as the class path has no way to write a colon
        command = [str(java), *options, "-cp", f"conf:{jars}/*", "py4j.GatewayServer"]
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603  # a Java that the user named
                [*command, "--enable-auth", "--die-on-broken-pipe", "0"],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # a session of its own: an interrupt from the keyboard reaches this process only, which then stops it
                start_new_session=True,
            )

    def _serve(self, port: int) -> int:
        """Start the Thrift server through Py4J; that connection is closed afterwards."""
        from py4j.java_gateway import GatewayParameters, JavaGateway
        from py4j.protocol import Py4JError

        gateway: Any = None
        try:
            with _opened(self._process.stdout) as output:
                own_port, token = int(output.readline() or 0), output.readline().decode().strip()
                gateway = JavaGateway(gateway_parameters=GatewayParameters(port=own_port, auth_token=token))
                gateway.jvm.java.lang.System.setOut(gateway.jvm.java.lang.System.err)
            return serve(gateway.jvm, HOST, port)
        except (Py4JError, OSError, ValueError) as error:
            raise self._not_started(str(error)) from None  # printing it would ask Java for its text again
        finally:
            if gateway is not None:
                gateway.shutdown()

    def _not_started(self, reason: str) -> Exception:
        if _DERBY_IN_USE in reason:
            return OptionError(f"{self.log.parent}: another program has this metastore's database open; end it first")
        lines = [line.strip() for line in reason.splitlines() if "Caused by" in line or ": java." in line]
        cause = lines[-1].removeprefix("Caused by: ").removeprefix(": ") if lines else reason.strip()[-300:]
        return ServiceError(f"the Hive Metastore did not start: {cause}; see {self.log}")


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("no output")
    return stream


def _check_free(port: int) -> None:
    """Refuse a port that is in use, before Java is started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OptionError(f"--port {port}: {error.strerror}") from error
            raise OptionError(f"port {port} of {HOST} is in use; choose another one, or 0 for a free one") from error


def _locked(folder: Path) -> IO[str]:
    """Lock the folder; the lock lasts as long as the file is open."""
    lock = (folder / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        who = lock.read().strip()
        lock.close()
        raise OptionError(
            f"{folder}: a local metastore runs there already{f', process {who}' if who else ''}; use that one, end it, "
            "or choose another folder"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _settings(warehouse: Path) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=database;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        # Hadoop takes such paths literally, without URI escapes
        "hive.metastore.warehouse.dir": f"file://{warehouse}",
        # its logger needs a library that PySpark lacks
        "hive.async.log.enabled": "false",
        "hive.metastore.event.db.notification.api.auth": "false",
    }


def write_settings(path: Path, settings: dict[str, str]) -> None:
    """A Hadoop configuration file."""
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")


_WORKERS: Final = (4, 200)
_NAME: Final = "hudi-catalog"


def serve(java: Any, host: str, port: int) -> int:
    """Start the Thrift server in a thread of a running JVM; it accepts connections when this returns.

    Hive's own main class listens on all addresses and authenticates nobody, so its parts are assembled here with a
    socket of 127.0.0.1.

    Args:
        java: Py4J's view of the JVM (`JavaGateway.jvm`), with Hive's classes and a `hive-site.xml`.
        host: address to listen at.
        port: 0 for a free one.

    Returns:
        The port.

    Raises:
        Py4JJavaError: the server did not start, for instance because its port or database is in use.
    """
    hive, thrift = java.org.apache.hadoop.hive, java.org.apache.thrift
    metastore = hive.metastore
    socket = thrift.transport.TServerSocket(java.java.net.InetSocketAddress(host, port))
    settings = hive.conf.HiveConf(java.java.lang.Class.forName("org.apache.hadoop.hive.metastore.HiveMetaStore"))
    handler = metastore.HiveMetaStore.HMSHandler(_NAME, settings, False)
    retrying = metastore.RetryingHMSHandler.getProxy(settings, handler, True)
    arguments = thrift.server.TThreadPoolServer.Args(socket)
    arguments.processor(metastore.TUGIBasedProcessor(retrying))
    arguments.transportFactory(hive.thrift.TUGIContainingTransport.Factory())
    arguments.protocolFactory(thrift.protocol.TBinaryProtocol.Factory())
    arguments.minWorkerThreads(_WORKERS[0])
    arguments.maxWorkerThreads(_WORKERS[1])
    _in_a_thread(java, thrift.server.TThreadPoolServer(arguments), "serve")
    return int(socket.getServerSocket().getLocalPort())


def _in_a_thread(java: Any, target: Any, method: str) -> None:
    """Run a method without arguments or result in a Java thread; a direct call would block until it ends."""
    invoke = java.java.lang.invoke
    kind = invoke.MethodType.methodType(java.java.lang.Void.TYPE)
    handle = invoke.MethodHandles.publicLookup().findVirtual(target.getClass(), method, kind)
    runnable = java.java.lang.Class.forName("java.lang.Runnable")
    bound = invoke.MethodHandleProxies.asInterfaceInstance(runnable, handle.bindTo(target))
    java.java.lang.Thread(bound, f"{_NAME} {method}").start()


def pyspark_jars() -> Path:
    """Folder of PySpark's jars, without importing PySpark.

    Raises:
        MissingPackageError: PySpark is not installed.
        OptionError: it is, but without the jars of Hive.
    """
    require("a local Hive Metastore", "spark", "pyspark")
    package = importlib.util.find_spec("pyspark")
    folder = Path(package.origin).parent / "jars" if package is not None and package.origin else Path("pyspark")
    if not any(folder.glob("hive-metastore-*.jar")):
        raise OptionError(f"{folder} has no Hive Metastore; a PySpark from PyPI has: pip install 'hudi-catalog[spark]'")
    return folder


_FOLDERS: Final = "/usr/lib/jvm"
_VERSION_SECONDS: Final = 30


def find_java(versions: Sequence[int]) -> Path:
    """A `java` program of one of these versions.

    Searched in the environment (`HUDI_CATALOG_JDK<version>`, `JAVA<version>_HOME`, `JAVA_HOME`), in the usual folder of
    Linux systems and on the path.

    Args:
        versions: Java's feature releases, such as 17, in order of preference.

    Raises:
        ServiceError: there is none; the message says how to point to one.
    """
    for version in versions:
        for program in _candidates(version):
            if program.exists() and java_version(program) == version:
                return program
    wanted = " or ".join(str(version) for version in versions)
    raise ServiceError(
        f"no Java {wanted}: install it, or set HUDI_CATALOG_JDK{versions[0]} to its folder "
        f"(JAVA_HOME, {_FOLDERS} and the path have none)"
    )


def java_version(program: Path) -> int | None:
    """Feature release of a `java` program, such as 17; None if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603  # a Java that the user named
            [program, "-version"], capture_output=True, text=True, check=True, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(version[1]) if version else None


def _candidates(version: int) -> Iterator[Path]:
    names = (f"HUDI_CATALOG_JDK{version}", f"JAVA{version}_HOME", "JAVA_HOME")
    yield from (Path(os.environ[name]) / "bin/java" for name in names if os.environ.get(name))
    yield from (home / "bin/java" for home in sorted(Path(_FOLDERS).glob(f"*{version}*")))
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
