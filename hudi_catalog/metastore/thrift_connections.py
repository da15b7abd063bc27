"""Connections to a Hive Metastore: shared by threads, made anew when they break, at the next address if need be."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TSocket, TTransportException

from hudi_catalog.metastore.metastore_options import KERBEROS, NOSASL, MetastoreOptions
from hudi_catalog.server.security import client_context
from table_format.errors import MetastoreError, require

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


_LENGTH: Final = struct.Struct(">I")

_UNSPECIFIED: Final = "Unspecified GSS failure"


class SaslClient:
    """One negotiation, and what protects the messages after it.

    Args:
        host: of the server's principal.
        service: of the server's principal; None where there is none.
        properties: of the mechanism: `username` and `password`.
    """

    def __init__(self, host: str, service: str | None = None, **properties: str) -> None:
        from puresasl.client import SASLClient  # an extra, for authentication alone

        self._client = SASLClient(host, service, **properties)
        self._problem = ""

    @property
    def complete(self) -> bool:
        """Whether all messages were exchanged; until then the server of a mechanism such as Kerberos proved nothing."""
        return bool(self._client.complete)

    def start(self, mechanism: str) -> tuple[bool, bytes, bytes | None]:
        """Choose the mechanism; gives the first message."""
        done, first = self._attempt(lambda: self._first(mechanism))
        return done, mechanism.encode(), first

    def step(self, challenge: bytes) -> tuple[bool, bytes | None]:
        """Answer a message of the server."""
        return self._attempt(lambda: self._client.process(challenge))

    def encode(self, message: bytes) -> tuple[bool, bytes | None]:
        """A message as it is sent: as it is, or protected and with its length before it."""

        def wrap() -> bytes:
            wrapped: bytes = self._client.wrap(message)
            return message if wrapped == message else _LENGTH.pack(len(wrapped)) + wrapped

        return self._attempt(wrap)

    def decode(self, message: bytes) -> tuple[bool, bytes | None]:
        """A protected message of the server, which comes with its length before it."""
        return self._attempt(lambda: self._client.unwrap(message[_LENGTH.size :]))

    def getError(self) -> str:  # noqa: N802  # Thrift's transports call it so
        """Why the last call failed."""
        return self._problem

    def _first(self, mechanism: str) -> Any:
        self._client.choose_mechanism([mechanism], allow_anonymous=False)
        return self._client.process()

    def _attempt(self, call: Any) -> tuple[bool, Any]:
        try:
            return True, call()
        except Exception as error:  # noqa: BLE001  # pure-sasl and Kerberos raise what they like
            self._problem = _told(error)
            return False, None


def _told(error: Exception) -> str:
    """What an error says; those of Kerberos hold pairs of a text and a number, the general one first."""
    texts = [str(pair[0]) for pair in error.args if isinstance(pair, tuple) and pair]
    special = [text for text in texts if not text.startswith(_UNSPECIFIED)]
    return ": ".join(special or texts) or str(error) or type(error).__name__


_GSSAPI, _PLAIN = "GSSAPI", "PLAIN"

_SERVICE: Final = "hive"

_ANY_PASSWORD: Final = "x"  # noqa: S105  # PyHive's for servers that look at the name alone

_CHUNK: Final = 1 << 16

_socket: Any = TSocket  # thriftpy2 is typed here and there only

_protocol: Any = TCyBinaryProtocol


class WholeReads(TSocket):
    """A socket that reads as many bytes as it is asked for.

    Thriftpy2 would put SASL's frames together itself, and copy what it has for each piece that comes; of a TLS
    connection no piece is longer than 16 KB, and the many thousand partitions of a table are one frame.
    """

    def read(self, sz: int) -> bytes:
        """So many bytes; an end of the connection before is thriftpy2's error."""
        read: Any = super().read
        pieces: list[bytes] = []
        while sz > 0:
            pieces.append(read(min(sz, _CHUNK)))
            sz -= len(pieces[-1])
        return b"".join(pieces)


def connecting(options: MetastoreOptions) -> Connect:
    """How connections are opened.

    Raises:
        OptionError: options that do not go together, a file that cannot be read, or a library is missing that the
            authentication needs.
    """
    options.check_together()
    password = options.password() or _ANY_PASSWORD
    tls = None
    if options.tls:
        tls = client_context(ca=options.tls_ca, certificate=options.tls_certificate, key=options.tls_key)
    if options.auth != NOSASL:
        _check_libraries(options)

    def connect(host: str, port: int, idl: ModuleType) -> Any:
        connection = socket.create_connection((host, port), options.timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls is not None:
                connection = tls.wrap_socket(connection, server_hostname=host)
            transport = _transport(connection, host, port, options, password)
        except BaseException:
            connection.close()
            raise
        return TClient(idl.ThriftHiveMetastore, _protocol(transport))

    return connect


def _transport(connection: socket.socket, host: str, port: int, options: MetastoreOptions, password: str) -> Any:
    if options.auth == NOSASL:
        return TCyBufferedTransport(_socket(sock=connection))
    from thriftpy2.transport.sasl import TCySaslClientTransport  # type: ignore[attr-defined]  # it lists none

    if options.auth == KERBEROS:
        mechanism = _GSSAPI
        client = SaslClient(options.kerberos_host or host, options.kerberos_service or _SERVICE)
    else:
        mechanism = _PLAIN
        name = options.username or getpass.getuser()
        client = SaslClient(host, username=name, password=password)
    whole: Any = WholeReads
    wrapped = whole(sock=connection)
    transport = TCySaslClientTransport(lambda: client, mechanism, wrapped)
    try:
        transport.open()
    except TTransportException as error:
        with contextlib.suppress(OSError):
            wrapped.close()
        if error.type == TTransportException.END_OF_FILE:
            raise
        # another server of the same metastore would say the same
        raise MetastoreError(
            f"{address_text(host, port)}: authentication by {options.auth} failed: {said(error)}"
        ) from error
    if not client.complete:  # an impostor need only leave out the messages by which a server proves who it is
        wrapped.close()
        raise MetastoreError(
            f"{address_text(host, port)}: authentication by {options.auth} failed: the server did not prove its name"
        )
    return transport


def _check_libraries(options: MetastoreOptions) -> None:
    what = f"a Hive Metastore with {options.auth}"
    require(what, "sasl", "puresasl")
    if options.auth == KERBEROS:
        require(what, "sasl", "kerberos", how="pip install kerberos (it is compiled with the headers of MIT Kerberos)")
