"""Connections to a Hive Metastore: opened with TLS and SASL as configured, pooled, replaced when they break."""

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
"""Errors after which a connection is unusable."""

hms: Any = thriftpy2.load(_IDL, "hudi_catalog_hive_metastore_thrift")

"""The IDL's structs and exceptions, untyped in thriftpy2."""

Connect = Callable[[str, int, ModuleType], Any]
"""Opens a connection: takes host, port and the IDL's module; returns a `TClient`."""


class UnknownMethodError(MetastoreError):
    """The metastore's release lacks a method."""


class Connections:
    """Calls a metastore's methods over a pool of connections; thread-safe.

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
        """Call a method, retrying once on a broken connection; only for methods that are safe to repeat.

        Raises:
            NoSuchObjectException, AlreadyExistsException, InvalidOperationException: the metastore's own.
            UnknownMethodError: its release lacks the method.
            MetastoreError: it refuses for another reason, or is unreachable.
        """
        for last in (False, True):
            client = self._client(fresh=last)
            try:
                result = getattr(client, method)(*arguments)
            except BROKEN as error:
                close(client)
                if last:
                    raise MetastoreError(f"{self.uri}: {method}: the connection broke: {error_text(error)}") from error
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
            except Exception as error:  # thriftpy2 raises various errors on unreadable bytes
                close(client)
                raise MetastoreError(f"{self.uri}: {method}: the response is not a metastore's: {error}") from error
            self._give_back(client)
            return result
        raise AssertionError(method)

    def refused(self, what: str, error: Any) -> MetastoreError:
        """The error for a call that the metastore refused."""
        return MetastoreError(f"{self.uri}: {what}: {error_text(error)}")

    def close(self) -> None:
        """Close idle connections."""
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
                problems.append(f"{address_text(*address)}: {error_text(error)}")
                continue
            with self._lock:  # later connections try the responding address first
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
    """An address as host:port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def error_text(error: Any) -> str:
    """An error's message without its class."""
    return str(getattr(error, "message", None) or error)


def close(client: Any) -> None:
    """Close a connection, broken or not."""
    with contextlib.suppress(*BROKEN):
        client.close()


_LENGTH: Final = struct.Struct(">I")
_UNSPECIFIED: Final = "Unspecified GSS failure"


class SaslClient:
    """The client side of one SASL negotiation by pure-sasl, with the interface of Thrift's transports.

    Args:
        host: of the server's principal.
        service: of the server's principal; None if there is none.
        properties: of the mechanism: `username` and `password`.
    """

    def __init__(self, host: str, service: str | None = None, **properties: str) -> None:
        from puresasl.client import SASLClient  # an extra, for authentication alone

        self._client = SASLClient(host, service, **properties)
        self._problem = ""

    @property
    def complete(self) -> bool:
        """Whether the negotiation is complete; until then a Kerberos server has not proved its identity."""
        return bool(self._client.complete)

    def start(self, mechanism: str) -> tuple[bool, bytes, bytes | None]:
        """Choose the mechanism; returns the first message."""
        done, first = self._attempt(lambda: self._first(mechanism))
        return done, mechanism.encode(), first

    def step(self, challenge: bytes) -> tuple[bool, bytes | None]:
        """Answer a challenge of the server."""
        return self._attempt(lambda: self._client.process(challenge))

    def encode(self, message: bytes) -> tuple[bool, bytes | None]:
        """A message for sending: unchanged, or protected and prefixed with its length."""

        def wrap() -> bytes:
            wrapped: bytes = self._client.wrap(message)
            return message if wrapped == message else _LENGTH.pack(len(wrapped)) + wrapped

        return self._attempt(wrap)

    def decode(self, message: bytes) -> tuple[bool, bytes | None]:
        """Unwrap a protected message of the server, which is prefixed with its length."""
        return self._attempt(lambda: self._client.unwrap(message[_LENGTH.size :]))

    def getError(self) -> str:  # noqa: N802  # the name that Thrift's transports call
        """The message of the last failure."""
        return self._problem

    def _first(self, mechanism: str) -> Any:
        self._client.choose_mechanism([mechanism], allow_anonymous=False)
        return self._client.process()

    def _attempt(self, call: Any) -> tuple[bool, Any]:
        try:
            return True, call()
        except Exception as error:  # noqa: BLE001  # pure-sasl and Kerberos raise various errors
            self._problem = _sasl_error_text(error)
            return False, None


def _sasl_error_text(error: Exception) -> str:
    """An error's message; Kerberos errors hold pairs of text and number, the general one first."""
    texts = [str(pair[0]) for pair in error.args if isinstance(pair, tuple) and pair]
    special = [text for text in texts if not text.startswith(_UNSPECIFIED)]
    return ": ".join(special or texts) or str(error) or type(error).__name__


_GSSAPI, _PLAIN = "GSSAPI", "PLAIN"

_SERVICE: Final = "hive"
_ANY_PASSWORD: Final = "x"  # noqa: S105  # PyHive's, for servers that check only the name
_CHUNK: Final = 1 << 16

_socket: Any = TSocket  # thriftpy2 is only partly typed

_protocol: Any = TCyBinaryProtocol


class WholeReadSocket(TSocket):
    """A socket whose `read` returns exactly as many bytes as requested.

    thriftpy2 assembles SASL frames itself and copies its buffer for each piece received. TLS pieces are at most 16 KB,
    and the thousands of partitions of a table are one frame.
    """

    def read(self, sz: int) -> bytes:
        """Read exactly `sz` bytes; raises thriftpy2's error on early EOF."""
        read: Any = super().read
        pieces: list[bytes] = []
        while sz > 0:
            pieces.append(read(min(sz, _CHUNK)))
            sz -= len(pieces[-1])
        return b"".join(pieces)


def connector(options: MetastoreOptions) -> Connect:
    """Returns the function that opens connections.

    Raises:
        OptionError: options that exclude each other, a file that cannot be read, or a missing library.
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
    whole: Any = WholeReadSocket
    wrapped = whole(sock=connection)
    transport = TCySaslClientTransport(lambda: client, mechanism, wrapped)
    try:
        transport.open()
    except TTransportException as error:
        with contextlib.suppress(OSError):
            wrapped.close()
        if error.type == TTransportException.END_OF_FILE:
            raise
        # no retry: another server of the same metastore would refuse as well
        raise MetastoreError(
            f"{address_text(host, port)}: authentication by {options.auth} failed: {error_text(error)}"
        ) from error
    if not client.complete:  # otherwise an impostor could omit the messages that prove its identity
        wrapped.close()
        raise MetastoreError(
            f"{address_text(host, port)}: authentication by {options.auth} failed: "
            "the server did not prove its identity"
        )
    return transport


def _check_libraries(options: MetastoreOptions) -> None:
    what = f"a Hive Metastore with {options.auth}"
    require(what, "sasl", "puresasl")
    if options.auth == KERBEROS:
        require(what, "sasl", "kerberos", how="pip install kerberos (it is compiled with the headers of MIT Kerberos)")
