"""Encrypted connections with certificates that openssl made."""

import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.server.framed_server import FramedServer, running
from hudi_catalog.server.options import ServiceOptions
from hudi_catalog.server.security import TlsFiles, client_context, listening_context, server_context, tls_files
from table_format.errors import OptionError
from tests.support.certificates import Authority, Signed
from tests.support.framed_client import FramedClient

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl program")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"), "others")


@pytest.fixture(scope="module")
def server_files(ours: Authority) -> Signed:
    return ours.sign("localhost")


def serving(files: TlsFiles, options: ServiceOptions | None = None) -> FramedServer:
    return FramedServer(lambda frame: [frame * 3], options, tls=server_context(files))


def test_a_client_that_trusts_the_authority_is_served(ours: Authority, server_files: Signed) -> None:
    server = serving(TlsFiles(server_files.certificate, server_files.key))
    with running(server) as port, FramedClient(port, client_context(ca=ours.certificate)) as client:
        assert client.ask(b"ab") == b"ababab"
        assert client.ask(bytes(2_000_000)) == bytes(6_000_000)
        assert client.socket.version() in {"TLSv1.3", "TLSv1.2"}  # type: ignore[attr-defined]


def test_a_client_that_trusts_others_turns_away(theirs: Authority, server_files: Signed) -> None:
    with running(serving(TlsFiles(server_files.certificate, server_files.key))) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            FramedClient(port, client_context(ca=theirs.certificate))
        with pytest.raises(ssl.SSLCertVerificationError):
            FramedClient(port, client_context())
        with FramedClient(port, client_context(verify=False)) as client:
            assert client.ask(b"x") == b"xxx"


def test_without_tls_nothing_is_answered(ours: Authority, server_files: Signed) -> None:
    server = serving(TlsFiles(server_files.certificate, server_files.key))
    with running(server) as port:
        with FramedClient(port) as client:
            client.send(b"x")
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()
        with FramedClient(port, client_context(ca=ours.certificate)) as client:
            assert client.ask(b"x") == b"xxx"
    assert server.counts.requests == 1


def test_old_versions_of_tls_are_refused(ours: Authority, server_files: Signed) -> None:
    old = client_context(ca=ours.certificate)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    server = serving(TlsFiles(server_files.certificate, server_files.key))
    with running(server) as port, pytest.raises((ssl.SSLError, ConnectionError)):
        FramedClient(port, old)


@pytest.mark.slow
def test_clients_must_show_a_certificate_of_the_authority(
    ours: Authority, theirs: Authority, server_files: Signed
) -> None:
    server = serving(TlsFiles(server_files.certificate, server_files.key, ours.certificate))
    friend, stranger = ours.sign("friend"), theirs.sign("stranger")

    def ask(**identity: Any) -> bytes:
        with FramedClient(port, client_context(ca=ours.certificate, **identity)) as client:
            return client.ask(b"x")

    with running(server) as port:
        assert ask(certificate=friend.certificate, key=friend.key) == b"xxx"
        for identity in ({}, {"certificate": stranger.certificate, "key": stranger.key}):
            with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
                ask(**identity)
    assert server.counts.requests == 1


def test_certificate_and_encrypted_key_may_stand_in_one_file(ours: Authority, tmp_path: Path) -> None:
    signed = ours.sign("localhost", password="open sesame")
    both = tmp_path / "both.pem"
    both.write_text(Path(signed.certificate).read_text() + Path(signed.key).read_text())
    server = serving(TlsFiles(str(both), key_password="open sesame"))
    with running(server) as port, FramedClient(port, client_context(ca=ours.certificate)) as client:
        assert client.ask(b"x") == b"xxx"
    for password in (None, "wrong"):
        with pytest.raises(OptionError, match=r"both\.pem: no certificate and its key, or a wrong password"):
            server_context(TlsFiles(str(both), key_password=password))


@pytest.mark.slow
def test_an_idle_connection_ends_with_tls_too(ours: Authority, server_files: Signed) -> None:
    server = serving(TlsFiles(server_files.certificate, server_files.key), ServiceOptions(idle_timeout=1))
    with running(server) as port, FramedClient(port, client_context(ca=ours.certificate)) as client:
        assert client.ended()


def wrong_files(folder: Path, signed: Signed, other: Signed) -> list[tuple[Callable[[], object], str]]:
    text, missing = folder / "text.pem", str(folder / "missing.pem")
    text.write_text("no certificate\n")
    return [
        (lambda: server_context(TlsFiles(missing, signed.key)), f"TLS certificate {missing}: No such file"),
        (lambda: server_context(TlsFiles(signed.certificate, missing)), f"TLS key {missing}: No such file"),
        (lambda: server_context(TlsFiles(signed.certificate, signed.key, missing)), f"TLS CA {missing}: No such"),
        (lambda: server_context(TlsFiles(str(folder), signed.key)), "Is a directory"),
        (lambda: server_context(TlsFiles(str(text), signed.key)), "text.pem with .*: no certificate and its key"),
        (lambda: server_context(TlsFiles(signed.certificate)), "no certificate and its key"),
        (lambda: server_context(TlsFiles(signed.certificate, other.key)), "no certificate and its key"),
        (lambda: server_context(TlsFiles(signed.certificate, signed.key, str(text))), "no certificates in PEM"),
        (lambda: client_context(ca=str(text)), "no certificates in PEM"),
        (lambda: client_context(ca=missing), "No such file"),
        (lambda: tls_files(None, signed.key), "needs a certificate"),
        (lambda: tls_files(None, None, signed.certificate), "needs a certificate"),
    ]


def test_wrong_files_are_clear_errors(ours: Authority, theirs: Authority, tmp_path: Path) -> None:
    for make, message in wrong_files(tmp_path, ours.sign("right"), theirs.sign("other")):
        with pytest.raises(OptionError, match=message):
            make()


def test_tls_is_off_without_files() -> None:
    assert tls_files(None) is None
    assert tls_files("c", "k", "a", "p") == TlsFiles("c", "k", "a", "p")


def test_a_certificate_that_has_expired_is_warned_of(
    ours: Authority, theirs: Authority, server_files: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    assert listening_context(None) is None
    expired = ours.sign("localhost", days=0)
    for client_ca in (None, theirs.certificate):
        assert listening_context(TlsFiles(server_files.certificate, server_files.key, client_ca)) is not None
        assert caplog.messages == []
        assert listening_context(TlsFiles(expired.certificate, expired.key, client_ca)) is not None
        assert caplog.messages == [
            f"TLS certificate {expired.certificate}: certificate has expired: clients will refuse it"
        ]
        caplog.clear()
