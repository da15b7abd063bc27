"""Doors of a service: who gets in, and what its log says at the start of those open beyond this machine."""

from __future__ import annotations

import base64
import binascii
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
    """Whether an address to listen at, or a host to call, is this machine alone; an unknown name is not."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        pass
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)


@dataclass(frozen=True)
class Door:
    """A port that a service listens at, or a server that it calls.

    Attributes:
        what: it is, such as `the service for Trino`.
        host: of its address.
        port: of its address.
        encrypted: whether connections have TLS.
        checked: whether clients have to prove who they are.
        anybody: what everybody who reaches it may do, where they have not.
        remedy: the flags or options that close it.
    """

    what: str
    host: str
    port: int
    encrypted: bool
    checked: bool
    anybody: str
    remedy: str

    def warning(self) -> str | None:
        """One line for a door that is not closed; None for one that is, or that only this machine reaches."""
        if (self.encrypted and self.checked) or is_loopback(self.host):
            return None
        lacks = [] if self.encrypted else ["no TLS: others on the way can read and change what passes"]
        lacks += [] if self.checked else [f"no proof asked of clients: whoever reaches it {self.anybody}"]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"open door: {self.what} at {host}:{self.port} has {', and '.join(lacks)}; {self.remedy}"


@dataclass(frozen=True)
class StatusGuard:
    """What the status port asks of clients: on loopback nothing, elsewhere what its service asks for.

    `/health` and `/ready` are for probes, which have neither certificates nor secrets: they answer everybody, but give
    no details then.

    Attributes:
        tls: None for HTTP.
        certificates: whether clients need a certificate.
        secret: that clients have to send; None for none.
    """

    tls: ssl.SSLContext | None = None
    certificates: bool = False
    secret: Secret | None = None

    @classmethod
    def of(cls, host: str, files: TlsFiles | None, secret: Secret | None) -> StatusGuard:
        """For a status port.

        Args:
            host: that it listens at.
            files: of the service's TLS; None when it has none.
            secret: of the service; None when it has none.

        Raises:
            OptionError: a file cannot be read, or does not hold what it should.
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
    def checks(self) -> bool:
        """Whether clients have to prove who they are."""
        return self.certificates or self.secret is not None

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Status and reason for a client that may not see details; None for one that may."""
        transport = request.transport
        if self.certificates and not (transport and transport.get_extra_info("peercert")):
            return 403, "a client certificate is needed here, as at the service's own port"
        if self.secret is not None and not self._sent(request.headers.get("Authorization", ""), self.secret):
            return 401, "the service's secret is needed here, as a bearer token or as the password of any user"
        return None

    @staticmethod
    def _sent(header: str, secret: Secret) -> bool:
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


_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # compared with, not listened at


def address_for_clients(host: str, port: int) -> str:
    """`host:port` as clients are told it; for all addresses of this machine its name is taken."""
    name = socket.gethostname() if host in _EVERYWHERE else host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def cannot_listen(what: str, host: str, port: int, flag: str, error: Exception) -> ServiceError:
    """The error for an address that is taken, or not one of this machine.

    Args:
        what: wanted to listen, such as ``the gateway``.
        host: of the address.
        port: of the address.
        flag: sets the port.
        error: of the operating system.
    """
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else str(error)
    return ServiceError(
        f"{host}:{port}: {what} cannot listen there ({reason}); choose another {flag}, or 0 for a free one"
    )
