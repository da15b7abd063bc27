"""A Hive Metastore 2.3 as a local process: the classes lie in PySpark's jars, the database is Derby's."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self
from xml.sax.saxutils import escape

from hudi_catalog.local_metastore.hive_classes import serve
from hudi_catalog.local_metastore.java import find_java
from hudi_catalog.local_metastore.pyspark_jars import pyspark_jars
from table_format.errors import OptionError, ServiceError

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
    """A running Hive Metastore that listens on 127.0.0.1 alone; it ends with this process at the latest.

    Args:
        folder: database, warehouse and log; made where it is missing, and gone on with where it is not.
        port: 0 for a free one.

    Raises:
        OptionError: PySpark is missing, or the port or the folder is in use.
        ServiceError: no Java, or it does not start; the message names the log.

    Attributes:
        uri: for `hive.metastore.uris`.
        port: that it listens at.
        warehouse: folder of tables that are created without a location.
        log: what Java says.
    """

    def __init__(self, folder: str | os.PathLike[str], *, port: int = 0) -> None:
        jars, java = pyspark_jars(), find_java(_JAVA)
        _check_free(port)
        place = Path(folder).absolute()
        if {":", ";"} & {*str(place)}:
            raise OptionError(f"{place}: Derby cannot keep a database in a folder with : or ; in its path")
        self.warehouse = place / "warehouse"
        self.log = place / "metastore.log"
        for made in (self.warehouse, place / "conf", place / "tmp"):
            made.mkdir(parents=True, exist_ok=True)
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
        """Whether it has not ended of itself."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it: politely first, then surely. The database stays."""
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()  # Java ends when nothing can come any more
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
        """Build the server over a connection that is closed for good right after."""
        from py4j.java_gateway import GatewayParameters, JavaGateway
        from py4j.protocol import Py4JError

        gateway: Any = None
        try:
            with _opened(self._process.stdout) as said:
                own_port, token = int(said.readline() or 0), said.readline().decode().strip()
                gateway = JavaGateway(gateway_parameters=GatewayParameters(port=own_port, auth_token=token))
                gateway.jvm.java.lang.System.setOut(gateway.jvm.java.lang.System.err)
            return serve(gateway.jvm, HOST, port)
        except (Py4JError, OSError, ValueError) as error:
            raise self._not_started(str(error)) from None  # it asks Java for its text each time
        finally:
            if gateway is not None:
                gateway.shutdown()

    def _not_started(self, reason: str) -> Exception:
        if _DERBY_IN_USE in reason:
            return OptionError(f"{self.log.parent}: another program has this metastore's database open; end it first")
        lines = [line.strip() for line in reason.splitlines() if "Caused by" in line or ": java." in line]
        said = lines[-1].removeprefix("Caused by: ").removeprefix(": ") if lines else reason.strip()[-300:]
        return ServiceError(f"the Hive Metastore did not start: {said}; see {self.log}")


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("no output")
    return stream


def _check_free(port: int) -> None:
    """Tell of a port in use at once, rather than after Java has started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OptionError(f"--port {port}: {error.strerror}") from error
            raise OptionError(f"port {port} of {HOST} is in use; take another one, or 0 for a free one") from error


def _locked(folder: Path) -> IO[str]:
    """A lock of the folder that lasts as long as the file is open."""
    lock = (folder / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        who = lock.read().strip()
        lock.close()
        raise OptionError(
            f"{folder}: a local metastore runs there already{f', process {who}' if who else ''}; use that one, end it, "
            "or take another folder"
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
        # Hadoop takes such texts as they stand, without the escapes of a URI
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
