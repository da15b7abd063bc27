"""Addresses of services: listening errors, warnings for endpoints others can reach, access to the status page."""

from __future__ import annotations

import base64
import binascii
import errno
import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass

from aiohttp import web

from hudi_catalog.server.security import Secret, TlsFiles, server_context
from table_format.errors import ServiceError

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether every address of a host is a loopback address; False for a name that does not resolve."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        pass
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses)


@dataclass(frozen=True)
class Endpoint:
    """A port that a service listens at, or a server that it calls.

    Attributes:
        name: for messages, such as `the service for Trino`.
        host: its host name or address.
        port: its port.
        encrypted: whether connections use TLS.
        authenticated: whether clients have to authenticate.
        exposure: what an unauthenticated client can do; completes "whoever reaches it …".
        remedy: flags or options that secure it.
    """

    name: str
    host: str
    port: int
    encrypted: bool
    authenticated: bool
    exposure: str
    remedy: str

    def warning(self) -> str | None:
        """A one-line warning for an unsecured endpoint; None for a secured or loopback one."""
        if (self.encrypted and self.authenticated) or is_loopback(self.host):
            return None
        gaps = [] if self.encrypted else ["no TLS: others on the network can read and change its traffic"]
        gaps += [] if self.authenticated else [f"no client authentication: whoever reaches it {self.exposure}"]
        address = address_text(self.host, self.port)
        return f"open door: {self.name} at {address} has {', and '.join(gaps)}; {self.remedy}"


@dataclass(frozen=True)
class StatusGuard:
    """Access control of the status port: none on loopback, elsewhere the credentials that the service itself requires.

    `/health` and `/ready` are for probes, which have neither certificates nor secrets: they answer everybody, but leave
    out details for clients without credentials.

    Attributes:
        tls: None for plain HTTP.
        certificates: whether clients need a certificate.
        secret: clients have to send it; None when no secret is required.
    """

    tls: ssl.SSLContext | None = None
    certificates: bool = False
    secret: Secret | None = None

    @classmethod
    def of(cls, host: str, files: TlsFiles | None, secret: Secret | None) -> StatusGuard:
        """The guard of a status port.

        Args:
            host: address that the port listens at.
            files: the service's TLS files; None for a service without TLS.
            secret: the service's secret; None for a service without one.

        Raises:
            OptionError: a TLS file cannot be read or is malformed.
        """
        if is_loopback(host):
            return cls()
        if files is None:
            return cls(secret=secret)
        context = server_context(files)
        if files.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
        return cls(context, files.client_ca is not None, secret)

    @property
    def authenticates(self) -> bool:
        """Whether clients have to authenticate."""
        return self.certificates or self.secret is not None

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """HTTP status and reason for an unauthorized client; None for an authorized one."""
        transport = request.transport
        if self.certificates and not (transport and transport.get_extra_info("peercert")):
            return 403, "a client certificate is needed here, as at the service's own port"
        if self.secret is not None and not self._matches(request.headers.get("Authorization", ""), self.secret):
            return 401, "the service's secret is needed here, as a bearer token or as the password of any user"
        return None

    @staticmethod
    def _matches(header: str, secret: Secret) -> bool:
        scheme, _, value = header.strip().partition(" ")
        if scheme.lower() == "bearer":
            return secret.equals(value.strip())
        if scheme.lower() != "basic":
            return False
        try:
            pair = base64.b64decode(value.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return secret.equals(pair.partition(b":")[2])


_ALL_ADDRESSES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # compared with, not listened at


def address_text(host: str, port: int) -> str:
    """`host:port`; addresses of IPv6 get brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_for_clients(host: str, port: int) -> str:
    """`host:port` for clients to connect to; a wildcard address becomes this machine's name."""
    return address_text(socket.gethostname() if host in _ALL_ADDRESSES else host, port)


def cannot_listen(service: str, host: str, port: int, flag: str, error: Exception) -> ServiceError:
    """The error for an address that is taken or does not belong to this machine.

    Args:
        service: for the message, such as ``the gateway``.
        host: address that the service should listen at.
        port: port that it should listen at.
        flag: command-line flag that sets the port; that of the host is named alike.
        error: the operating system's error.
    """
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
    remedy = f"choose another {flag}, or 0 for a free one"
    if number == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror | UnicodeError):
        remedy = f"{flag.replace('port', 'host')} is an address or a name of this machine, or 0.0.0.0 for all"
    return ServiceError(f"{address_text(host, port)}: {service} cannot listen there ({reason}); {remedy}")
