"""Opens connections to a Hive Metastore: plain or encrypted, without authentication or by SASL."""

from __future__ import annotations

import contextlib
import getpass
import socket
from types import ModuleType
from typing import Any, Final

from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TClient
from thriftpy2.transport import TCyBufferedTransport, TSocket, TTransportException

from hudi_catalog.metastore.metastore_options import KERBEROS, NOSASL, MetastoreOptions
from hudi_catalog.metastore.thrift_connections import Connect, address_text, said
from hudi_catalog.server.security import client_context
from table_format.errors import MetastoreError, require

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

    from hudi_catalog.metastore.sasl_client import SaslClient

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
