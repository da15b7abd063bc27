"""The secret that services share, and what is signed with it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from table_format.errors import OptionError

ENVIRONMENT = "HUDI_CATALOG_SECRET"

READABLE = "HUDI_CATALOG_READABLE_SECRETS"

_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_LEAST = 16

SIGNATURE_BYTES = 32


class Secret:
    """Bytes that only the services of one installation know.

    Args:
        value: the secret.
        purpose: signatures for one purpose are not valid for another.
    """

    def __init__(self, value: bytes, purpose: str = "") -> None:
        self._value = value
        self._key = hmac.new(value, purpose.encode(), hashlib.sha256).digest() if purpose else value

    def __repr__(self) -> str:
        return "Secret(...)"

    def for_purpose(self, purpose: str) -> Secret:
        """The same secret, whose signatures are valid for that purpose alone."""
        return Secret(self._value, purpose)

    def equals(self, given: str | bytes) -> bool:
        """Whether a client named the secret, in a time that does not tell how much of it was right."""
        value = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
        return hmac.compare_digest(hashlib.sha256(value).digest(), hashlib.sha256(self._value).digest())

    def sign(self, payload: bytes) -> bytes:
        """The HMAC-SHA256 of some bytes: 32 bytes."""
        return hmac.digest(self._key, payload, "sha256")

    def verify(self, payload: bytes, signature: bytes) -> bool:
        """Whether a signature is that of the bytes."""
        return hmac.compare_digest(self.sign(payload), signature)

    @classmethod
    def random(cls) -> Secret:
        """A secret that no other process knows and that ends with this one."""
        return cls(secrets.token_bytes(SIGNATURE_BYTES))


def load_secret(path: str | None = None, environment: Mapping[str, str] | None = None) -> Secret | None:
    """The configured secret.

    Args:
        path: of a file whose text is the secret, white space around it left out; None to look at the environment.
        environment: variables of the process; `HUDI_CATALOG_SECRET` counts when there is no path.

    Returns:
        None when none is configured.

    Raises:
        OptionError: the file cannot be read, others than its owner may read it, or the secret is shorter than 16 bytes.
    """
    variables = os.environ if environment is None else environment
    if path is not None:
        return _checked(read_private(path, "secret file", variables).strip(), path)
    text = variables.get(ENVIRONMENT)
    return None if text is None else _checked(text.strip().encode(), ENVIRONMENT)


def read_private(path: str, what: str, environment: Mapping[str, str] | None = None) -> bytes:
    """The content of a file that holds a secret, and that nobody but its owner may read or write.

    Args:
        path: of the file.
        what: it is, for messages, such as `secret file`.
        environment: variables of the process; with `HUDI_CATALOG_READABLE_SECRETS=true` the file's mode does not count,
            as for files that Kubernetes mounts.

    Raises:
        OptionError: the file cannot be read, or its group or others have rights to it.
    """
    variables = os.environ if environment is None else environment
    try:
        with open(path, "rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if mode & _FOR_OTHERS and variables.get(READABLE, "").strip().lower() != "true":
                raise OptionError(
                    f"{what} {path}: its mode {mode:04o} lets others than its owner use it; chmod 600 it, "
                    f"or set {READABLE}=true where its mode cannot be set"
                )
            return stream.read()
    except OSError as error:
        raise OptionError(f"{what} {path}: {error.strerror}") from error


def _checked(value: bytes, where: str) -> Secret:
    if len(value) < _LEAST:
        raise OptionError(f"{where}: a secret of {len(value)} bytes; it must have at least {_LEAST}")
    return Secret(value)


@dataclass(frozen=True)
class TlsFiles:
    """Where a server finds what it needs for TLS; all files are PEM.

    Attributes:
        certificate: of the server, with those that signed it behind it.
        key: of that certificate; None when it is in the same file.
        client_ca: certificates that sign those of clients; with it, a client without such a certificate is turned away.
        key_password: of an encrypted key.
    """

    certificate: str
    key: str | None = None
    client_ca: str | None = None
    key_password: str | None = None


def tls_files(
    certificate: str | None, key: str | None = None, client_ca: str | None = None, key_password: str | None = None
) -> TlsFiles | None:
    """The files as flags or options name them; None when TLS is not wanted.

    Raises:
        OptionError: a key or a client CA without a certificate, which would leave connections open to all.
    """
    if certificate is not None:
        return TlsFiles(certificate, key, client_ca, key_password)
    if key is not None or client_ca is not None:
        raise OptionError("TLS needs a certificate beside its key and the CA of clients")
    return None


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """What a server encrypts with; TLS 1.2 is the oldest that it speaks.

    Raises:
        OptionError: a file cannot be read, or does not hold what it should.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_pair(context, files.certificate, files.key, files.key_password)
    if files.client_ca is not None:
        _load_ca(context, files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    *,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    key_password: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """What a client encrypts with.

    Args:
        ca: certificates that sign the server's; those of the system when None.
        certificate: of the client, if the server asks for one.
        key: of that certificate; None when it is in the same file.
        key_password: of an encrypted key.
        verify: False to trust any server, whatever its name.

    Raises:
        OptionError: a file cannot be read, or does not hold what it should.
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
        # An empty password fails; without one, OpenSSL would ask the terminal.
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
