"""What to put into Trino so that it asks the service: the lines of a catalog file."""

from __future__ import annotations

import socket

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # compared with, not listened at


def catalog_lines(host: str, port: int, *, tls: bool = False) -> list[str]:
    """The properties of a catalog of Trino.

    Args:
        host: where the service listens; for all addresses the name of this machine is shown.
        port: of the service.
        tls: whether connections are encrypted.
    """
    name = socket.gethostname() if host in _EVERYWHERE else host
    address = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    lines = [
        "connector.name=trino_thrift",
        f"trino.thrift.client.addresses={address}",
        "trino.thrift.client.max-frame-size=64MB",
        "trino-thrift.max-response-size=32MB",
    ]
    if tls:
        lines.append("trino.thrift.client.ssl.enabled=true")
        lines.append("# trino.thrift.client.ssl.trust-certificate=<file with the certificate of the service>")
    return lines
