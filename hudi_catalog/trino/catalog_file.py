"""What to put into Trino or Presto so that it asks the service: the lines of a catalog file."""

from __future__ import annotations

from hudi_catalog.server.addresses import address_for_clients


def catalog_lines(host: str, port: int, *, tls: bool = False, presto: bool = False) -> list[str]:
    """The properties of a catalog of Trino, or of Presto.

    Args:
        host: where the service listens; for all addresses the name of this machine is shown.
        port: of the service.
        tls: whether connections are encrypted.
        presto: whether they are for Presto, whose client speaks another transport unless told.
    """
    address = address_for_clients(host, port)
    engine = "presto" if presto else "trino"
    client = f"{engine}.thrift.client"
    lines = [
        f"connector.name={'presto-thrift' if presto else 'trino_thrift'}",
        f"{client}.addresses={address}",
        f"{client}.max-frame-size=64MB",
        f"{engine}-thrift.max-response-size=32MB",
        # a service that is gone fails a query after this; by default the client tries for 80 seconds
        f"{client}.max-retry-time=20s",
    ]
    if presto:
        lines += [f"{client}.transport=FRAMED", f"{client}.protocol=BINARY"]
    if tls:
        lines.append(f"{client}.ssl.enabled=true")
        lines.append(f"# {client}.ssl.trust-certificate=<file with the certificate of the service's authority>")
    return lines
