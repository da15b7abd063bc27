"""Addresses that a service listens at."""

from __future__ import annotations

import os
import socket

from table_format.errors import ServiceError

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
