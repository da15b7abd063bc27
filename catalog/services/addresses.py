"""Addresses that a service listens at."""

from __future__ import annotations

import os

from table_format.errors import ServiceError


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
