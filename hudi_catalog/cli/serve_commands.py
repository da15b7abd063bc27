"""The commands that run services: `hudi-catalog serve trino | serve hive | gateway | metastore`.

Services are imported when they run: other commands start faster, and need no libraries of theirs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_catalog.cli.arguments import HELP, Config, all_options
from table_format.config.option_values import whole_number
from table_format.errors import ServiceError, require

if TYPE_CHECKING:
    from hudi_catalog.gateway.serve import ServingGateway
    from hudi_catalog.server.warehouse_service import WarehouseService

_LOOK_SECONDS = 1.0

_METASTORE_STARTED = """\
a Hive Metastore, kept in {folder}
  register:  hudi-catalog sync --metastore {uri} --service HOST:PORT --all WAREHOUSE (or hive-site, for Spark alone)
  Spark:     --conf spark.sql.catalogImplementation=hive --conf spark.hadoop.hive.metastore.uris={uri}
  Hive:      hive.metastore.uris={uri}
  Trino:     connector.name=hive, hive.metastore.uri={uri}
Ctrl-C stops it; what is registered stays.
"""

SERVICES = ("aiohttp", "prometheus_client", "thriftpy2")
"""Packages that services need."""
SERVICE_PORT, SERVICE_HTTP_PORT = 9779, 9780
HIVE_PORT, HIVE_HTTP_PORT = 9790, 9791
GATEWAY_PORT, GATEWAY_HTTP_PORT = 9880, 9881

serve_app = typer.Typer(
    help="Run a service through which an engine uses the plans.",
    no_args_is_help=True,
    context_settings=HELP,
)

Warehouse = Annotated[str, typer.Argument(help="Folder or URI with tables.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all of this machine's.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for a free one.")]
HttpPort = Annotated[
    int, typer.Option("--http-port", min=0, max=65535, help="Port of /health, /ready, /metrics and the status page.")
]
HttpHost = Annotated[
    str,
    typer.Option(
        "--http-host",
        help="Address that this port listens on; beyond loopback it has the service's TLS, certificates and secret.",
    ),
]
SecretFile = Annotated[
    str | None, typer.Option("--secret-file", help="File with the shared secret; by default HUDI_CATALOG_SECRET.")
]
TlsCertificate = Annotated[
    str | None, typer.Option("--tls-certificate", help="PEM file with the certificate; turns TLS on.")
]
TlsKey = Annotated[str | None, typer.Option("--tls-key", help="PEM file with its key, if it is not in the same file.")]
TlsClientCa = Annotated[
    str | None,
    typer.Option("--tls-client-ca", help="PEM file; only clients with a certificate signed by it are admitted."),
]
QueryLogTarget = Annotated[
    str, typer.Option("--query-log", help="File that gets a line of JSON for each query; - is stdout.")
]
Options = Annotated[list[str] | None, typer.Option("--option", "-o", help="Option as key=value; repeatable.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more on standard error.")]

# typer reads a command's options from its signature, and mypy checks the settings made of them, so that commands with
# the same options repeat both


@serve_app.callback()
def _serve() -> None:
    """Run a service through which an engine uses the plans."""


@serve_app.command("trino")
def serve_trino(
    warehouse: Warehouse,
    *,
    host: Host = "127.0.0.1",
    port: Port = SERVICE_PORT,
    http_port: HttpPort = SERVICE_HTTP_PORT,
    http_host: HttpHost = "127.0.0.1",
    secret_file: SecretFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    query_log: QueryLogTarget = "-",
    option: Options = None,
    config: Config = None,
    print_catalog: Annotated[
        bool, typer.Option("--print-catalog", help="Print the catalog file for Trino, and exit.")
    ] = False,
    connector: Annotated[
        bool, typer.Option("--connector", help="Print the one for the connector hudi_catalog instead.")
    ] = False,
    presto: Annotated[bool, typer.Option("--presto", help="Print the catalog file for Presto instead.")] = False,
    verbose: Verbose = False,
) -> None:
    """Serve tables to Trino's connector hudi_catalog, and to Trino's and Presto's Thrift connectors."""
    if connector and presto:
        raise typer.BadParameter("the connector is Trino's: choose --connector or --presto")
    from hudi_catalog.server.endpoints import address_text
    from hudi_catalog.trino.connector.plugin import catalog_lines as connector_lines
    from hudi_catalog.trino.options import FRAME_SIZE, TrinoOptions
    from hudi_catalog.trino.serve import catalog_lines

    has_tls = tls_certificate is not None
    options = all_options(config, option)
    frame_size = whole_number(options, FRAME_SIZE, TrinoOptions.frame_size, 1)

    def lines(port: int) -> list[str]:
        if connector:
            return connector_lines(host, port, tls=has_tls, secret=secret_file is not None)
        return catalog_lines(host, port, tls=has_tls, presto=presto, frame_size=frame_size)

    if print_catalog:
        sys.stdout.write("\n".join(lines(port)) + "\n")
        return
    require("hudi-catalog serve", "services", *SERVICES)
    from hudi_catalog.server.security import load_secret, tls_files
    from hudi_catalog.trino.serve import ServingTrino, TrinoSettings

    _log_to_stderr(verbose=verbose)
    serving = ServingTrino(
        TrinoSettings(
            warehouse=warehouse,
            host=host,
            port=port,
            http_port=http_port,
            http_host=http_host,
            options=options,
            secret=load_secret(secret_file),
            tls=tls_files(tls_certificate, tls_key, tls_client_ca),
            query_log=query_log,
        )
    )

    def greeting() -> str:
        engine = "Presto" if presto else "Trino"
        head = f"serving {warehouse} to {engine} at {address_text(host, serving.port)}; a catalog file for {engine}:"
        return "\n    ".join([head, *lines(serving.port)])

    _run(serving, greeting, http_host)


@serve_app.command("hive")
def serve_hive(
    warehouse: Warehouse,
    *,
    host: Host = "127.0.0.1",
    port: Port = HIVE_PORT,
    http_port: HttpPort = HIVE_HTTP_PORT,
    http_host: HttpHost = "127.0.0.1",
    secret_file: SecretFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    query_log: QueryLogTarget = "-",
    option: Options = None,
    config: Config = None,
    print_hive_site: Annotated[
        bool, typer.Option("--print-hive-site", help="Print the properties for hive-site.xml, and exit.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Serve tables to Hive's storage handler, whose jar `hudi-catalog hive-jar` prints."""
    from hudi_catalog.hive.handler import site_lines

    has_tls = tls_certificate is not None
    if print_hive_site:
        lines = site_lines(host, port, tls=has_tls, secret=secret_file is not None)
        sys.stdout.write("\n".join(lines) + "\n")
        return
    require("hudi-catalog serve", "services", *SERVICES)
    from hudi_catalog.hive.serve import HiveSettings, ServingHive
    from hudi_catalog.server.endpoints import address_text
    from hudi_catalog.server.security import load_secret, tls_files

    _log_to_stderr(verbose=verbose)
    secret = load_secret(secret_file)
    serving = ServingHive(
        HiveSettings(
            warehouse=warehouse,
            host=host,
            port=port,
            http_port=http_port,
            http_host=http_host,
            options=all_options(config, option),
            secret=secret,
            tls=tls_files(tls_certificate, tls_key, tls_client_ca),
            query_log=query_log,
        )
    )

    def greeting() -> str:
        lines = site_lines(host, serving.port, tls=has_tls, secret=secret is not None)
        head = f"serving {warehouse} to Hive at {address_text(host, serving.port)}; for Hive's hive-site.xml:"
        return "\n    ".join([head, *lines])

    _run(serving, greeting, http_host)


def gateway(
    upstream: Annotated[str, typer.Argument(help="Trino's coordinator, such as http://trino:8080.")],
    *,
    metastore: Annotated[
        str,
        typer.Option("--metastore", help="Metastore of Trino's hive catalog: thrift://host:port, or a folder's URI."),
    ],
    host: Host = "127.0.0.1",
    port: Port = GATEWAY_PORT,
    http_port: HttpPort = GATEWAY_HTTP_PORT,
    http_host: HttpHost = "127.0.0.1",
    secret_file: SecretFile = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    upstream_ca: Annotated[
        str | None,
        typer.Option("--upstream-ca", help="PEM file that signs Trino's certificate; by default the system's."),
    ] = None,
    query_log: QueryLogTarget = "-",
    option: Options = None,
    config: Config = None,
    verbose: Verbose = False,
) -> None:
    """Run a proxy for Trino: queries of registered tables read only the files of their plans."""
    require("hudi-catalog gateway", "services", *SERVICES)
    from hudi_catalog.gateway.serve import GatewaySettings, ServingGateway
    from hudi_catalog.server.endpoints import address_text
    from hudi_catalog.server.security import load_secret, tls_files

    _log_to_stderr(verbose=verbose)
    serving = ServingGateway(
        GatewaySettings(
            upstream=upstream,
            metastore=metastore,
            host=host,
            port=port,
            http_port=http_port,
            http_host=http_host,
            options=all_options(config, option),
            secret=load_secret(secret_file),
            tls=tls_files(tls_certificate, tls_key, tls_client_ca),
            upstream_ca=upstream_ca,
            query_log=query_log,
        )
    )

    def greeting() -> str:
        scheme = "http" if tls_certificate is None else "https"
        return f"clients connect to {scheme}://{address_text(host, serving.port)} instead of {upstream}"

    _run(serving, greeting, http_host)


def _run(serving: WarehouseService | ServingGateway, greeting: Callable[[], str], http_host: str) -> None:
    from hudi_catalog.server.endpoints import address_text
    from hudi_catalog.server.hosting import serve

    def started() -> None:
        _say(greeting(), f"status at {serving.status_scheme}://{address_text(http_host, serving.http_port)}/")

    serve(serving, started)
    _say("stopped")


def _log_to_stderr(*, verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def _say(*texts: str) -> None:
    # standard output is for the query log
    sys.stderr.write("".join(f"hudi-catalog: {text}\n" for text in texts))
    sys.stderr.flush()


def metastore(
    *,
    folder: Annotated[
        str | None,
        typer.Option("--folder", help="Where it is kept; by default in the user's data folder. Made if missing."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of 127.0.0.1 to listen on; 0 for a free one.")
    ] = 9083,
) -> None:
    """Run a local Hive Metastore from PySpark's jars, to try things with; prints its URI."""
    from hudi_catalog.local_metastore.server import LocalMetastore

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    place = Path(folder) if folder else default_folder()
    with LocalMetastore(place, port=port) as server:
        sys.stdout.write(f"{server.uri}\n")
        sys.stdout.flush()
        sys.stderr.write(_METASTORE_STARTED.format(folder=place, uri=server.uri))
        while not stopped.wait(_LOOK_SECONDS):
            if not server.running:
                raise ServiceError(f"the Hive Metastore stopped unexpectedly; see {server.log}")
    sys.stderr.write("hudi-catalog: stopped\n")


def default_folder() -> Path:
    """Default folder of the local metastore, by the XDG base directories."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(base) / "hudi-catalog/metastore"
