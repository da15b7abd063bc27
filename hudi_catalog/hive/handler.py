"""What Hive needs for the storage handler: its jar, and the properties for hive-site.xml."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from hudi_catalog.hive.options import SECRET_FILE, SERVICE, TLS, TLS_CA
from table_format.errors import ServiceError

NAME = "hudi-hive-handler.jar"


def handler_jar(folder: Path | None = None) -> str:
    """Path of the jar that HiveServer2 and its tasks need.

    Args:
        folder: to look in; this package's if None.

    Raises:
        ServiceError: it has not been built.
    """
    path = (folder or Path(__file__).parent).absolute() / NAME
    if not path.is_file():
        raise ServiceError(
            f"{path} is missing: in a checkout run `make hive-jar`, which needs Maven and a JDK; "
            "else install a wheel of hudi-catalog, which has it"
        )
    return str(path)


def site_lines(host: str, port: int, *, tls: bool = False, secret: bool = False) -> list[str]:
    """Properties for `hive-site.xml` that point the storage handler to the service.

    Args:
        host: address of the service; a wildcard address is replaced by this machine's name.
        port: of the service.
        tls: whether connections are encrypted.
        secret: whether callers need the shared secret.
    """
    from hudi_catalog.server.endpoints import address_for_clients  # not needed for `hive-jar`

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


def hive_jar() -> None:
    """Print the path of the storage handler's jar, which Hive needs to read tables."""
    sys.stdout.write(handler_jar() + "\n")
