"""TLS contexts, and the secret that services share and sign with."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from table_format.errors import OptionError

ENVIRONMENT = "HUDI_CATALOG_SECRET"
READABLE = "HUDI_CATALOG_READABLE_SECRETS"
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MIN_BYTES = 16
SIGNATURE_BYTES = 32
# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
_OUT_OF_DATE = (9, 10)
_LOG = logging.getLogger(__name__)


class Secret:
    """A secret shared by the services of one installation; the key of their HMAC-SHA256 signatures.

    Args:
        value: the secret's bytes.
        purpose: separates keys: signatures for one purpose are invalid for another.
    """

    def __init__(self, value: bytes, purpose: str = "") -> None:
        self._value = value
        self._key = hmac.new(value, purpose.encode(), hashlib.sha256).digest() if purpose else value

    def __repr__(self) -> str:
        return "Secret(...)"

    def for_purpose(self, purpose: str) -> Secret:
        """The same secret with the signing key of another purpose."""
        return Secret(self._value, purpose)

    def equals(self, candidate: str | bytes) -> bool:
        """Whether a client sent the secret; compared in constant time."""
        value = candidate.encode("utf-8", "surrogateescape") if isinstance(candidate, str) else candidate
        return hmac.compare_digest(hashlib.sha256(value).digest(), hashlib.sha256(self._value).digest())

    def sign(self, payload: bytes) -> bytes:
        """The HMAC-SHA256 of a payload: 32 bytes."""
        return hmac.digest(self._key, payload, "sha256")

    def verify(self, payload: bytes, signature: bytes) -> bool:
        """Whether a signature is valid for a payload; compared in constant time."""
        return hmac.compare_digest(self.sign(payload), signature)

    @classmethod
    def random(cls) -> Secret:
        """A secret known to this process only."""
        return cls(secrets.token_bytes(SIGNATURE_BYTES))


def load_secret(path: str | None = None, environment: Mapping[str, str] | None = None) -> Secret | None:
    """The configured secret.

    Args:
        path: file with the secret, surrounding white space ignored; None to use the environment.
        environment: environment variables; `HUDI_CATALOG_SECRET` is used without a path.

    Returns:
        None when none is configured.

    Raises:
        OptionError: the file cannot be read, is accessible to others than its owner, is no line of printable text in
            UTF-8, or has fewer than 16 bytes.
    """
    variables = os.environ if environment is None else environment
    if path is not None:
        return _checked(read_private(path, "secret file", variables).strip(), path)
    text = variables.get(ENVIRONMENT)
    return None if text is None else _checked(text.encode("utf-8", "surrogateescape").strip(), ENVIRONMENT)


def read_private(path: str, what: str, environment: Mapping[str, str] | None = None) -> bytes:
    """The content of a file that only its owner may access.

    Args:
        path: of the file.
        what: kind of file, for messages, such as `secret file`.
        environment: environment variables; `HUDI_CATALOG_READABLE_SECRETS=true` skips the check of the file's mode, as
            for files that Kubernetes mounts.

    Raises:
        OptionError: the file cannot be read, or its group or others have access to it.
    """
    variables = os.environ if environment is None else environment
    try:
        with open(path, "rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if mode & _GROUP_AND_OTHERS and variables.get(READABLE, "").strip().lower() != "true":
                raise OptionError(
                    f"{what} {path}: its mode {mode:04o} lets others than its owner use it; chmod 600 it, "
                    f"or set {READABLE}=true where its mode cannot be set"
                )
            return stream.read()
    except OSError as error:
        raise OptionError(f"{what} {path}: {error.strerror}") from error


def _checked(value: bytes, where: str) -> Secret:
    if len(value) < _MIN_BYTES:
        raise OptionError(f"{where}: a secret of {len(value)} bytes; it must have at least {_MIN_BYTES}")
    # clients read it as text: Java decodes it, and HTTP carries it in headers
    try:
        is_text = value.decode().isprintable()
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        raise OptionError(
            f"{where}: a secret is one line of printable text in UTF-8, such as `openssl rand -hex 32` prints"
        )
    return Secret(value)


@dataclass(frozen=True)
class TlsFiles:
    """Paths of a server's TLS files, all in PEM.

    Attributes:
        certificate: the server's certificate followed by its chain.
        key: the certificate's private key; None when it is in the same file.
        client_ca: CA certificates of clients; if set, clients have to present a certificate signed by one of them.
        key_password: password of an encrypted key.
    """

    certificate: str
    key: str | None = None
    client_ca: str | None = None
    key_password: str | None = None


def tls_files(
    certificate: str | None, key: str | None = None, client_ca: str | None = None, key_password: str | None = None
) -> TlsFiles | None:
    """The TLS files named by flags or options; None without TLS.

    Raises:
        OptionError: a key or client CA without a certificate, which would leave connections unprotected.
    """
    if certificate is not None:
        return TlsFiles(certificate, key, client_ca, key_password)
    if key is not None or client_ca is not None:
        raise OptionError("TLS needs a certificate beside its key and the CA of clients")
    return None


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS context of a server, for TLS 1.2 or later.

    Raises:
        OptionError: a file cannot be read or is malformed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_pair(context, files.certificate, files.key, files.key_password)
    if files.client_ca is not None:
        _load_ca(context, files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def listening_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    """The TLS context of a service that starts, with a warning if its certificate is not valid today.

    Args:
        files: None for a service without TLS.

    Raises:
        OptionError: a file cannot be read or is malformed.
    """
    if files is None:
        return None
    context = server_context(files)
    problem = _problem_of_dates(context, files.certificate)
    if problem is not None:
        _LOG.warning("TLS certificate %s: %s: clients will refuse it", files.certificate, problem)
    return context


def _problem_of_dates(context: ssl.SSLContext, certificate: str) -> str | None:
    """What a client that trusts the server's certificate itself says of its dates.

    It shakes hands in memory, because Python's `ssl` shows the dates of a peer's verified certificate only.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking, answering = client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message if error.verify_code in _OUT_OF_DATE else None
        except ssl.SSLError:  # clients find out
            return None
    return None


def client_context(
    *,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    key_password: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """The TLS context of a client, for TLS 1.2 or later.

    Args:
        ca: CA certificates for the server's certificate; None for the system's.
        certificate: client certificate, where the server requires one.
        key: the certificate's private key; None when it is in the same file.
        key_password: password of an encrypted key.
        verify: False to accept any server certificate and host name.

    Raises:
        OptionError: a file cannot be read or is malformed.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_ca(context, ca)
    if certificate is not None:
        _load_pair(context, certificate, key, key_password)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_pair(context: ssl.SSLContext, certificate: str, key: str | None, password: str | None) -> None:
    _check_readable("certificate", certificate)
    if key is not None:
        _check_readable("key", key)
    try:
        # An empty password fails; with None, OpenSSL would prompt at the terminal.
        context.load_cert_chain(certificate, key, password or "")
    except ssl.SSLError as error:
        where = certificate if key is None else f"{certificate} with {key}"
        raise OptionError(f"TLS: {where}: no certificate and its key, or a wrong password: {error}") from error


def _load_ca(context: ssl.SSLContext, path: str) -> None:
    _check_readable("CA", path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise OptionError(f"TLS: {path}: no certificates in PEM: {error}") from error


def _check_readable(what: str, path: str) -> None:
    try:
        with open(path, "rb") as stream:
            stream.read(1)
    except OSError as error:
        raise OptionError(f"TLS {what} {path}: {error.strerror}") from error
