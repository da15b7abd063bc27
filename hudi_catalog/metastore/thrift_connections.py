"""Connections to a Hive Metastore: shared by threads, made anew when they break, at the next address if need be."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import thriftpy2
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TException
from thriftpy2.transport import TTransportException

from table_format.errors import MetastoreError

_IDL: Final = os.path.join(os.path.dirname(__file__), "hive_metastore.thrift")
_MOST_IDLE: Final = 8

BROKEN: Final = (TTransportException, TProtocolException, OSError, EOFError)
"""What a connection raises that is of no more use."""

hms: Any = thriftpy2.load(_IDL, "hudi_catalog_hive_metastore_thrift")
"""The IDL's structs and exceptions; thriftpy2 has no types for them."""

Connect = Callable[[str, int, ModuleType], Any]
"""Opens a connection: host, port, the IDL's module; gives a `TClient`."""


class UnknownMethodError(MetastoreError):
    """The metastore's release does not have a method."""


class Connections:
    """Calls a metastore's methods over a few connections.

    Args:
        addresses: hosts and ports of servers of one metastore.
        connect: opens a connection.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], connect: Connect) -> None:
        self._addresses = list(addresses)
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[Any] = []

    @property
    def uri(self) -> str:
        """The addresses."""
        return "thrift://" + ",".join(address_text(*address) for address in self._addresses)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; once more when the connection broke, so it must be one that may be repeated.

        Raises:
            NoSuchObjectException, AlreadyExistsException, InvalidOperationException: the metastore's own.
            UnknownMethodError: its release does not have the method.
            MetastoreError: it refuses for another reason, or cannot be reached.
        """
        for last in (False, True):
            client = self._client(fresh=last)
            try:
                result = getattr(client, method)(*arguments)
            except BROKEN as error:
                close(client)
                if last:
                    raise MetastoreError(f"{self.uri}: {method}: the connection broke: {said(error)}") from error
                continue
            except TApplicationException as error:
                self._give_back(client)
                if error.type == TApplicationException.UNKNOWN_METHOD:
                    raise UnknownMethodError(f"{self.uri}: the metastore has no method {method}") from error
                raise self.refused(method, error) from error
            except (hms.NoSuchObjectException, hms.AlreadyExistsException, hms.InvalidOperationException):
                self._give_back(client)
                raise
            except TException as error:
                self._give_back(client)
                raise self.refused(method, error) from error
            except Exception as error:  # thriftpy2 raises what it likes at bytes that it cannot read
                close(client)
                raise MetastoreError(f"{self.uri}: {method}: the answer is not a metastore's: {error}") from error
            self._give_back(client)
            return result
        raise AssertionError(method)

    def refused(self, what: str, error: Any) -> MetastoreError:
        """The error that tells what a metastore refused, and why."""
        return MetastoreError(f"{self.uri}: {what}: {said(error)}")

    def close(self) -> None:
        """Close connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            close(client)

    def _client(self, *, fresh: bool) -> Any:
        with self._lock:
            if self._idle and not fresh:
                return self._idle.pop()
            addresses = list(self._addresses)
        problems = []
        for address in addresses:
            try:
                client = self._connect(*address, hms)
            except BROKEN as error:
                problems.append(f"{address_text(*address)}: {said(error)}")
                continue
            with self._lock:  # the next ones begin with the address that answers
                self._addresses.sort(key=lambda other: other != address)
            return client
        raise MetastoreError(f"no Hive Metastore can be reached: {'; '.join(problems)}")

    def _give_back(self, client: Any) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(client)
                return
        close(client)


def address_text(host: str, port: int) -> str:
    """An address as it is written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def said(error: Any) -> str:
    """What an error says, without its class."""
    return str(getattr(error, "message", None) or error)


def close(client: Any) -> None:
    """Close a connection, broken or not."""
    with contextlib.suppress(*BROKEN):
        client.close()
