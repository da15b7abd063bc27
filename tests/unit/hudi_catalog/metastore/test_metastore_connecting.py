"""How a metastore is connected to: options, names and passwords, Kerberos' part of it, TLS. See also tests/engines."""

import dataclasses
import getpass
import importlib.util
import io
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thriftpy2.transport import TBufferedTransport, TFramedTransport, TSocket, TTransportException

from hudi_catalog.metastore import thrift_connections
from hudi_catalog.metastore.metastore_options import METASTORE_KEYS, MetastoreOptions, split_options
from hudi_catalog.metastore.thrift_connections import SaslClient
from hudi_catalog.metastore.thrift_metastore import ThriftMetastore
from hudi_catalog.server.security import TlsFiles, server_context
from table_format.errors import MetastoreError, MissingPackageError, OptionError
from tests.support.certificates import Authority
from tests.support.hive_server import HiveServer

PREFIX = "hoodie.catalog.metastore."
START, OK, BAD, COMPLETE = 1, 2, 3, 5


def options(**values: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "."): value for key, value in values.items()}


class SaslServer(HiveServer):
    """Accepts clients whose first message is the expected one, and that answer its challenge."""

    asks: bytes = b""

    def __init__(self, expected: bytes = b"") -> None:
        self.expected = expected
        self.mechanisms: list[bytes] = []
        super().__init__()

    def transport(self, connection: socket.socket) -> Any:
        status, mechanism = self._message(connection)
        assert status == START
        self.mechanisms.append(mechanism)
        status, first = self._message(connection)
        good = status == OK and first == self.expected
        if good and self.asks:
            connection.sendall(struct.pack(">BI", OK, len(self.asks)) + self.asks)
            good = self._message(connection) == (OK, b"answer to " + self.asks)
        reply = b"" if good else b"Error validating the login"
        connection.sendall(struct.pack(">BI", COMPLETE if good else BAD, len(reply)) + reply)
        if not good:
            raise OSError("turned away")
        return TFramedTransport(TSocket(sock=connection))

    @staticmethod
    def _message(connection: socket.socket) -> tuple[int, bytes]:
        head = connection.recv(5, socket.MSG_WAITALL)
        status, length = struct.unpack(">BI", head)
        return status, connection.recv(length, socket.MSG_WAITALL) if length else b""


@pytest.fixture
def password(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("pä ss\n", encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def opened(server: HiveServer, values: dict[str, str], host: str = "127.0.0.1") -> ThriftMetastore:
    return ThriftMetastore([(host, server.port)], MetastoreOptions.parse(values))


@pytest.mark.parametrize("auth", ["LDAP", "CUSTOM", "CONFIG"])
def test_a_name_and_a_password_are_sent(auth: str, password: str) -> None:
    server = SaslServer("\0änn\0pä ss".encode())
    values = {**options(auth=auth, username="änn"), PREFIX + "password.file": password}
    metastore = opened(server, values)
    assert metastore.create_schema("x" * 70_000), "longer than a buffer, in several frames"
    assert metastore.schemas() == ["default", "x" * 70_000]
    assert server.mechanisms == [b"PLAIN"]
    metastore.close()
    server.close()


def test_a_name_that_nobody_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "me")
    server = SaslServer(b"\0me\0x")
    assert opened(server, options(auth="none")).schemas() == ["default"]
    server.close()


def test_a_wrong_password(password: str) -> None:
    server = SaslServer(b"\0ann\0another")
    values = {**options(auth="LDAP", username="ann"), PREFIX + "password.file": password}
    with pytest.raises(MetastoreError, match=r"authentication by LDAP failed: .*Error validating the login") as caught:
        opened(server, values).schemas()
    assert "pä" not in str(caught.value)
    assert server.mechanisms == [b"PLAIN"], "it is not tried again"
    server.close()


def test_a_server_without_sasl(password: str) -> None:
    server = HiveServer()
    values = {**options(auth="LDAP", username="ann", timeout_seconds="0.5"), PREFIX + "password.file": password}
    with pytest.raises(MetastoreError):
        opened(server, values).schemas()
    server.close()


def sealed(message: bytes) -> bytes:
    return b"sealed:" + bytes(255 - byte for byte in message)


def unsealed(message: bytes) -> bytes:
    assert message.startswith(b"sealed:")
    return bytes(255 - byte for byte in message[7:])


class Kerberos:
    """In pure-sasl's place: what it is made with is recorded, and messages are protected by turning each byte."""

    made: tuple[Any, ...] = ()

    def __init__(self, host: str, service: str | None = None, **properties: str) -> None:
        Kerberos.made = (host, service, properties)
        self.complete = False

    def choose_mechanism(self, names: list[str], *, allow_anonymous: bool) -> None:
        assert (names, allow_anonymous) == (["GSSAPI"], False)

    def process(self, challenge: bytes | None = None) -> bytes:
        self.complete = challenge is not None
        return b"ticket" if challenge is None else b"answer to " + challenge

    def wrap(self, message: bytes) -> bytes:
        return sealed(message)

    def unwrap(self, message: bytes) -> bytes:
        return unsealed(message)


class Sealed:
    """The server's side of protected messages."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read, self._written = b"", b""

    def read(self, count: int) -> bytes:
        if not self._read:
            head = self._connection.recv(4, socket.MSG_WAITALL)
            self._read = unsealed(self._connection.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))
        result, self._read = self._read[:count], self._read[count:]
        return result

    def write(self, message: bytes) -> None:
        self._written += message

    def flush(self) -> None:
        message, self._written = sealed(self._written), b""
        self._connection.sendall(struct.pack(">I", len(message)) + message)


class SealingServer(SaslServer):
    asks = b"who are you?"

    def transport(self, connection: socket.socket) -> Any:
        super().transport(connection)
        return TBufferedTransport(Sealed(connection))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("127.0.0.1", "hive", {})),
        ({"kerberos_host": "hms.example", "kerberos_service_name": "metastore"}, ("hms.example", "metastore", {})),
    ],
)
def test_kerberos_goes_to_pure_sasl(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, str], expected: tuple[Any, ...]
) -> None:
    monkeypatch.setattr("puresasl.client.SASLClient", Kerberos)
    monkeypatch.setattr(thrift_connections, "_check_libraries", lambda _: None)
    server = SealingServer(b"ticket")
    metastore = opened(server, options(auth="KERBEROS", **more))
    assert metastore.create_schema("s" * 9000)
    assert metastore.schemas() == ["default", "s" * 9000]
    assert Kerberos.made == expected
    assert server.mechanisms == [b"GSSAPI"]
    metastore.close()
    server.close()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (("No ticket",), "No ticket"),
        ((("Unspecified GSS failure.  Minor code …", 851968), ("Ticket expired", -1765328352)), "Ticket expired"),
        ((("No credentials were supplied", 458752), ("No cache", -17)), "No credentials were supplied: No cache"),
        ((("Unspecified GSS failure.", 851968),), r"Unspecified GSS failure\."),
        ((), "RuntimeError"),
    ],
)
def test_what_kerberos_says_is_told(monkeypatch: pytest.MonkeyPatch, error: tuple[Any, ...], message: str) -> None:
    class NoTicket(Kerberos):
        def process(self, challenge: bytes | None = None) -> bytes:
            raise RuntimeError(*error)

    monkeypatch.setattr("puresasl.client.SASLClient", NoTicket)
    monkeypatch.setattr(thrift_connections, "_check_libraries", lambda _: None)
    server = SaslServer()
    with pytest.raises(MetastoreError, match=rf"authentication by KERBEROS failed: Could not start SASL: {message}$"):
        opened(server, options(auth="KERBEROS")).schemas()
    server.close()


def test_a_server_that_leaves_out_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puresasl.client.SASLClient", Kerberos)
    monkeypatch.setattr(thrift_connections, "_check_libraries", lambda _: None)
    server = SaslServer(b"ticket")
    with pytest.raises(MetastoreError, match="KERBEROS failed: the server did not prove its identity"):
        opened(server, options(auth="KERBEROS")).schemas()
    server.close()


def test_frames_are_read_as_a_whole() -> None:
    sent = bytes(range(256)) * 300
    stream, asked = io.BytesIO(sent), list[int]()

    class Encrypted:
        def recv(self, count: int) -> bytes:
            asked.append(count)
            return stream.read(min(count, 1000))

    whole: Any = thrift_connections.WholeReadSocket
    reader = whole(sock=Encrypted())
    assert reader.read(0) == b""
    assert reader.read(5) == sent[:5]
    assert reader.read(76_000) == sent[5:76_005]
    assert max(asked) == 1 << 16, "room is made for what may come at once, not for a whole frame each time"
    with pytest.raises(TTransportException, match="read 0 bytes") as caught:
        reader.read(len(sent) - 76_005 + 1)
    assert caught.value.type == TTransportException.END_OF_FILE


def test_messages_are_as_they_are_or_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SaslClient("h", username="a", password="b")
    assert plain.start("PLAIN") == (True, b"PLAIN", b"\0a\0b")
    assert plain.encode(b"message") == (True, b"message")
    assert not plain.start("GSSAPI x")[0]
    assert plain.getError()
    monkeypatch.setattr("puresasl.client.SASLClient", Kerberos)
    sealing = SaslClient("h", "s")
    assert sealing.encode(b"message") == (True, struct.pack(">I", 14) + sealed(b"message"))
    assert sealing.decode(struct.pack(">I", 14) + sealed(b"message")) == (True, b"message")
    assert sealing.step(b"more") == (True, b"answer to more")


@pytest.mark.parametrize(("auth", "missing"), [("LDAP", "puresasl"), ("KERBEROS", "kerberos")])
def test_libraries_that_are_missing(monkeypatch: pytest.MonkeyPatch, password: str, auth: str, missing: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else real(name))
    values = options(auth=auth) | ({PREFIX + "password.file": password} if auth == "LDAP" else {})
    with pytest.raises(MissingPackageError, match=f"{auth} needs {missing}: pip install"):
        ThriftMetastore([("h", 1)], MetastoreOptions.parse(values))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def encrypted(authority: Authority) -> Iterator[HiveServer]:
    signed = authority.sign()
    context = server_context(TlsFiles(signed.certificate, signed.key, authority.certificate))

    class Encrypted(HiveServer):
        def transport(self, connection: socket.socket) -> Any:
            return super().transport(context.wrap_socket(connection, server_side=True))

    started = Encrypted()
    yield started
    started.close()


def test_encryption(encrypted: HiveServer, authority: Authority, tmp_path: Path) -> None:
    own = authority.sign("client")
    good = options(tls="true", tls_ca=authority.certificate, tls_certificate=own.certificate, tls_key=own.key)
    metastore = opened(encrypted, good)
    assert metastore.schemas() == ["default"]
    metastore.close()
    other = Authority(tmp_path / "other")
    for wrong in (good | options(tls_ca=other.certificate), options(tls="true", tls_ca=authority.certificate)):
        with pytest.raises(MetastoreError):
            opened(encrypted, wrong | options(timeout_seconds="2")).schemas()


def test_a_host_of_another_name(encrypted: HiveServer, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: real(("127.0.0.1", address[1]), timeout))
    own = authority.sign("client")
    values = options(tls="true", tls_ca=authority.certificate, tls_certificate=own.certificate, tls_key=own.key)
    assert opened(encrypted, values, host="localhost").schemas() == ["default"]
    with pytest.raises(MetastoreError, match=r"Hostname mismatch|certificate verify failed"):
        opened(encrypted, values, host="hms.example").schemas()


def test_ipv6() -> None:
    server = HiveServer()
    server.close()
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
            server._listener, server.port = listener, listener.getsockname()[1]
            metastore = ThriftMetastore(
                [(str(ipaddress.ip_address("::1")), server.port)], MetastoreOptions(timeout=0.2)
            )
            with pytest.raises(MetastoreError, match=r"\[::1\]:\d+: get_all_databases: the connection broke"):
                metastore.schemas()
    except OSError:
        pytest.skip("no IPv6 here")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (options(auth="DIGEST"), "auth: 'DIGEST' is none of NOSASL, KERBEROS, NONE"),
        (options(auth="LDAP"), "auth=LDAP needs hoodie.catalog.metastore.password.file"),
        (options(auth="CUSTOM", password_file="/no such file"), "/no such file: No such file"),
        (options(password_file="x"), "password.file goes with hoodie.catalog.metastore.auth of LDAP"),
        (options(auth="NONE", password_file="x"), "password.file goes with"),
        (options(username="x"), "username goes with"),
        (options(kerberos_host="x"), "kerberos.host goes with hoodie.catalog.metastore.auth=KERBEROS"),
        (options(tls_ca="x"), "tls.ca goes with hoodie.catalog.metastore.tls=true"),
        (options(tls="true", tls_key="x"), "tls.key goes with hoodie.catalog.metastore.tls.certificate"),
        (options(tls="true", tls_ca="/no such file"), "TLS CA /no such file"),
        (options(tls="maybe"), "tls='maybe': give true or false"),
        (options(timeout_seconds="0"), "timeout.seconds"),
        (options(tiemout="5"), "no such option of a Hive Metastore"),
    ],
)
def test_options_that_cannot_be_used(values: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ThriftMetastore([("h", 1)], MetastoreOptions.parse(values))


def test_a_password_that_is_empty_or_that_others_may_read_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    values = options(auth="LDAP", username="a") | {PREFIX + "password.file": str(empty)}
    empty.chmod(0o644)
    with pytest.raises(OptionError, match=r"empty: its mode 0644 lets others .*chmod 600"):
        ThriftMetastore([("h", 1)], MetastoreOptions.parse(values))
    empty.chmod(0o600)
    with pytest.raises(OptionError, match="is empty"):
        ThriftMetastore([("h", 1)], MetastoreOptions.parse(values))


def test_options_are_told_apart() -> None:
    own, others = split_options({PREFIX + "auth": "NONE", "hoodie.catalog.sync.format": "apache"})
    assert (own, others) == ({PREFIX + "auth": "NONE"}, {"hoodie.catalog.sync.format": "apache"})
    assert all(key.startswith(PREFIX) for key in METASTORE_KEYS)
    assert len(METASTORE_KEYS) == len(dataclasses.fields(MetastoreOptions))


def test_nothing_of_sasl_is_imported_without_need() -> None:
    assert "puresasl" not in vars(sys.modules["hudi_catalog.metastore.thrift_connections"])
