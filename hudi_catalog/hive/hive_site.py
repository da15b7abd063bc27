"""What to put into Hive's configuration so that its storage handler asks the service."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from hudi_catalog.hive.settings import SECRET_FILE, SERVICE, TLS, TLS_CA
from hudi_catalog.server.endpoints import address_for_clients


def site_lines(host: str, port: int, *, tls: bool = False, secret: bool = False) -> list[str]:
    """Properties for `hive-site.xml`.

    Args:
        host: where the service listens; for all addresses the name of this machine is shown.
        port: of the service.
        tls: whether connections are encrypted.
        secret: whether callers have to know the shared secret.
    """
    address = address_for_clients(host, port)
    lines = [
        "<!-- hive.aux.jars.path must hold the jar that `hudi-catalog hive-jar` names -->",
        *_property(SERVICE, address),
    ]
    if tls:
        lines += [
            *_property(TLS, "true"),
            "<!-- if Java does not trust the service's authority by itself:",
            *_property(TLS_CA, "file with its certificate in PEM"),
            "-->",
        ]
    if secret:
        lines += ["<!-- a file that only Hive reads, the same text as the service's; else the environment's"]
        lines += ["     HUDI_CATALOG_SECRET counts:", *_property(SECRET_FILE, "path of the file"), "-->"]
    return lines


def _property(name: str, value: str) -> Iterator[str]:
    yield from ("<property>", f"  <name>{name}</name>", f"  <value>{escape(value)}</value>", "</property>")
