"""What engine tests need of a HiveServer2, whoever started it."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from threading import Lock
from typing import Any

from pyhive import hive
from pyhive.exc import OperationalError
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

LONGEST_SECONDS = 180
# Each scan keeps its own filter, where Hive would read a table once for all of a query's scans of it.
OWN_SCANS = {"hive.optimize.shared.work": "false"}
# Every query runs on Tez, vectorized; else Hive answers simple ones in the server, row by row.
ON_TEZ = {"hive.fetch.task.conversion": "none"}


class HiveError(Exception):
    """Hive's message for a statement that failed."""


class Engine:
    """A running HiveServer2 without passwords, which sees this machine's files.

    Sessions are kept and used again: each has a Tez of its own, which takes a second to start.

    Attributes:
        host: Of the server.
        port: Of the server.
        own: Prefix of the databases of this test session.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.own = f"t{os.getpid()}"
        self._idle: dict[frozenset[tuple[str, str]], list[hive.Connection]] = defaultdict(list)
        self._lock = Lock()
        self._databases: list[str] = []

    @cached_property
    def time_zone(self) -> str:
        """Of the server's clock."""
        [(setting,)] = self.query("SET system:user.timezone")
        return str(setting).partition("=")[2]

    def create_database(self, name: str) -> str:
        """Make a database, dropped at the end; gives its name, which has this session's prefix."""
        made = f"{self.own}_{name}"
        with self._lock:
            known = made in self._databases
            if not known:
                self._databases.append(made)
        if not known:
            self.run(f"CREATE DATABASE IF NOT EXISTS {made}")
        return made

    @contextmanager
    def session(self, settings: Mapping[str, str] | None = None) -> Iterator[Session]:
        """A session with these settings; one that failed in its transport is not used again."""
        wanted = frozenset((settings or {}).items())
        with self._lock:
            idle = self._idle[wanted]
            connection = idle.pop() if idle else None
        if connection is None:
            connection = self._connected()
            with connection.cursor() as cursor:
                for key, value in wanted:
                    cursor.execute(f"SET {key}={value}")
        try:
            yield Session(connection)
        except (TTransportException, OSError):
            connection.close()
            raise
        except BaseException:
            self._keep(wanted, connection)
            raise
        self._keep(wanted, connection)

    def query(
        self, sql: str, database: str | None = None, settings: Mapping[str, str] | None = None
    ) -> list[tuple[Any, ...]]:
        """Rows of a statement in its own session.

        Raises:
            HiveError: it failed.
        """
        with self.session(settings) as session:
            if database:
                session.run(f"USE {database}")
            return session.query(sql)

    def run(self, sql: str, settings: Mapping[str, str] | None = None) -> None:
        """A statement without rows."""
        with self.session(settings) as session:
            session.run(sql)

    def drop_databases(self) -> None:
        """Drop what this test session made."""
        for name in self._databases:
            with suppress(HiveError):
                self.run(f"DROP DATABASE IF EXISTS {name} CASCADE")
        self.close()

    def close(self) -> None:
        """End all sessions."""
        for connections in self._idle.values():
            for connection in connections:
                with suppress(TTransportException, OSError):
                    connection.close()
        self._idle.clear()

    def _keep(self, wanted: frozenset[tuple[str, str]], connection: hive.Connection) -> None:
        with self._lock:
            self._idle[wanted].append(connection)

    def _connected(self) -> hive.Connection:
        socket = TSocket(self.host, self.port)
        socket.setTimeout(LONGEST_SECONDS * 1000)
        return hive.connect(thrift_transport=TBufferedTransport(socket), username="test")


class Session:
    """One session of Hive."""

    def __init__(self, connection: hive.Connection) -> None:
        self._connection = connection

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement.

        Raises:
            HiveError: it failed.
        """
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]
            except OperationalError as error:
                raise HiveError(_message(error)) from error

    def run(self, sql: str) -> None:
        """A statement without rows.

        Raises:
            HiveError: it failed.
        """
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except OperationalError as error:
                raise HiveError(_message(error)) from error


def _message(error: OperationalError) -> str:
    """What Hive said, without the frames of its stack."""
    status = getattr(error.args[0], "status", None) if error.args else None
    text = str(status.errorMessage if status else error)
    return "\n".join(line for line in text.splitlines() if not re.match(r"\s*(at |\.\.\. \d+ more)", line))
