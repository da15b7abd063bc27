"""Encrypted connections: certificates and keys from files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from table_format.errors import OptionError


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
