"""Options of the gateway: of query rewriting and of the proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from catalog.snapshots import scan_options
from catalog.snapshots.scan_options import ScanOptions
from hudi_catalog.gateway.access_rules import NONE, AccessRules
from table_format.config.option_values import flag, fraction, known_options, names, seconds, whole_number
from table_format.errors import OptionError

CATALOGS = "hoodie.catalog.gateway.trino.catalogs"
KEPT_AT_MOST = "hoodie.catalog.gateway.files.kept.most"
PATHS = "hoodie.catalog.gateway.paths.most"
PATHS_LENGTH = "hoodie.catalog.gateway.paths.length"
QUERY_LENGTH = "hoodie.catalog.gateway.query.length"
RULES = "hoodie.catalog.gateway.trino.rules"
SNAPSHOTS_LISTED = "hoodie.catalog.gateway.snapshots.listed"
REWRITE_KEYS = (CATALOGS, KEPT_AT_MOST, PATHS, PATHS_LENGTH, QUERY_LENGTH, RULES, SNAPSHOTS_LISTED)
SCAN_KEYS = scan_options.SERVICE_KEYS


@dataclass(frozen=True)
class GatewayOptions:
    """Options of query rewriting.

    Attributes:
        catalogs: Trino's names of the catalogs of its Hive connector that use the metastore, in lower case;
            `hoodie.catalog.gateway.trino.catalogs`, comma-separated.
        kept_at_most: a table is not replaced if its plan keeps more than this fraction of the table's bytes;
            `hoodie.catalog.gateway.files.kept.most`.
        paths: most paths written into a query per table; longer lists are registered as a table instead. Trino
            prunes nothing by more than its `hive.domain-compaction-threshold`, 1000 by default;
            `hoodie.catalog.gateway.paths.most`.
        paths_length: most characters of paths written into a query per table; `hoodie.catalog.gateway.paths.length`.
        query_length: of Trino's `query.max-length`; `hoodie.catalog.gateway.query.length`.
        rules: Trino's access rules; tables whose snapshots fall under other rules are not replaced. None if not
            configured; `hoodie.catalog.gateway.trino.rules`, comma-separated files, or `none`.
        snapshots_listed: whether the schemas of pinned snapshots are listed with others;
            `hoodie.catalog.gateway.snapshots.listed`.
        scan: how files are planned: `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
    """

    catalogs: frozenset[str] = frozenset({"hive"})
    kept_at_most: float = 0.8
    paths: int = 1000
    paths_length: int = 200_000
    query_length: int = 1_000_000
    rules: AccessRules | None = None
    snapshots_listed: bool = False
    scan: ScanOptions = field(default_factory=ScanOptions)

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> GatewayOptions:
        """Parse options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, (*REWRITE_KEYS, *SCAN_KEYS), "the gateway")
        catalogs = frozenset(name.lower() for name in names(values, CATALOGS)) if CATALOGS in values else cls.catalogs
        if not catalogs:
            raise OptionError(f"{CATALOGS}: name at least one catalog of Trino")
        return cls(
            catalogs=catalogs,
            kept_at_most=fraction(values, KEPT_AT_MOST, cls.kept_at_most),
            paths=whole_number(values, PATHS, cls.paths, 0),
            paths_length=whole_number(values, PATHS_LENGTH, cls.paths_length, 0),
            query_length=whole_number(values, QUERY_LENGTH, cls.query_length, 0),
            rules=_rules(names(values, RULES)) if RULES in values else None,
            snapshots_listed=flag(values, SNAPSHOTS_LISTED),
            scan=ScanOptions.parse({key: value for key, value in values.items() if key in SCAN_KEYS}),
        )


def _rules(files: Sequence[str]) -> AccessRules:
    if not files:
        raise OptionError(f"{RULES}: name the files of Trino's access rules, or {NONE}")
    return AccessRules([] if list(files) == [NONE] else files)


RENEW_SECONDS = "hoodie.catalog.gateway.renew.seconds"
RENEW_THREADS = "hoodie.catalog.gateway.renew.threads"
RENEW_KEYS = (RENEW_SECONDS, RENEW_THREADS)


@dataclass(frozen=True)
class RenewalOptions:
    """Options of the renewal of entries in the background.

    Attributes:
        seconds: between two looks at all tables; 0 for none; `hoodie.catalog.gateway.renew.seconds`.
        threads: tables looked at at once; `hoodie.catalog.gateway.renew.threads`.
    """

    seconds: float = 5.0
    threads: int = 2

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> RenewalOptions:
        """Parse options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, RENEW_KEYS, "the renewal of entries")
        return cls(seconds(values, RENEW_SECONDS, cls.seconds), whole_number(values, RENEW_THREADS, cls.threads, 1))


UPSTREAM = "hoodie.catalog.gateway.upstream"
URIS = "hoodie.catalog.gateway.uris"
CONNECT_TIMEOUT = "hoodie.catalog.gateway.connect.timeout"
ANSWER_TIMEOUT = "hoodie.catalog.gateway.answer.timeout"
REWRITE_TIMEOUT = "hoodie.catalog.gateway.rewrite.timeout"
REWRITE_THREADS = "hoodie.catalog.gateway.rewrite.threads"
STATEMENT_SIZE = "hoodie.catalog.gateway.statement.size"
PREPARED_HEADER_SIZE = "hoodie.catalog.gateway.prepared.header.size"
CONNECTIONS = "hoodie.catalog.gateway.connections"
ABANDONED_AFTER = "hoodie.catalog.gateway.abandoned.after"

PROXY_KEYS = (
    UPSTREAM,
    URIS,
    CONNECT_TIMEOUT,
    ANSWER_TIMEOUT,
    REWRITE_TIMEOUT,
    REWRITE_THREADS,
    STATEMENT_SIZE,
    PREPARED_HEADER_SIZE,
    CONNECTIONS,
    ABANDONED_AFTER,
)

URI_WAYS = ("auto", "host", "forwarded", "rewrite")
_LEAST_TIMEOUT = 0.001


@dataclass(frozen=True)
class ProxySettings:
    """Options of the proxy between clients and Trino.

    Attributes:
        upstream: Trino's coordinator as clients would call it, `http://host:port` or `https://host:port`;
            `hoodie.catalog.gateway.upstream`.
        uris: how URIs in Trino's responses are made to lead back through the gateway; `hoodie.catalog.gateway.uris`.
            `host` forwards the client's Host header, from which Trino builds them; `forwarded` also sends
            `X-Forwarded-*`, which Trino accepts only with `http-server.process-forwarded=true`; `rewrite` sends Trino's
            own host and rewrites the URIs in responses; `auto` is `rewrite` if only one side has TLS, or if Trino has
            it and would check the host against its certificate, else `host`.
        connect_timeout: seconds for connecting to Trino; `hoodie.catalog.gateway.connect.timeout`.
        answer_timeout: seconds within which Trino must send something; `hoodie.catalog.gateway.answer.timeout`.
        rewrite_timeout: seconds before a statement is forwarded unchanged; `hoodie.catalog.gateway.rewrite.timeout`.
        rewrite_threads: statements rewritten concurrently; `hoodie.catalog.gateway.rewrite.threads`.
        statement_size: longer statements, in bytes, are forwarded unread; `hoodie.catalog.gateway.statement.size`.
        prepared_header_size: most bytes of the prepared-statement header after rewriting;
            `hoodie.catalog.gateway.prepared.header.size`.
        connections: most concurrent client connections; `hoodie.catalog.gateway.connections`.
        abandoned_after: seconds after which a query that no client polls no longer delays a shutdown;
            `hoodie.catalog.gateway.abandoned.after`.
        host: address to listen on.
        port: 0 for a free one.
        read_timeout: seconds within which the head of a client's request must arrive completely;
            `hoodie.catalog.service.read.timeout.seconds`.
    """

    upstream: str = "http://127.0.0.1:8080"
    uris: str = "auto"
    connect_timeout: float = 10.0
    answer_timeout: float = 120.0
    rewrite_timeout: float = 10.0
    rewrite_threads: int = 8
    statement_size: int = 16_000_000
    prepared_header_size: int = 65_536
    connections: int = 2_000
    abandoned_after: float = 300.0
    host: str = "127.0.0.1"
    port: int = 0
    read_timeout: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.upstream)
        extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username
        try:
            known = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            known = False
        if not known or extra:
            raise OptionError(f"{UPSTREAM}: {self.upstream!r} is not http://host:port or https://host:port")
        if self.uris not in URI_WAYS:
            raise OptionError(f"{URIS}: {self.uris!r} is none of {', '.join(URI_WAYS)}")
        object.__setattr__(self, "upstream", f"{parts.scheme}://{parts.netloc}")

    @property
    def scheme(self) -> str:
        """Trino's URI scheme, `http` or `https`."""
        return urlsplit(self.upstream).scheme

    @property
    def authority(self) -> str:
        """Trino's host and port as in a Host header."""
        return urlsplit(self.upstream).netloc

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        read_timeout: float = 60.0,
    ) -> ProxySettings:
        """Parse options by their keys.

        Args:
            options: by key; missing ones have their defaults.
            host: address to listen on.
            port: 0 for a free one.
            read_timeout: see the attribute.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, PROXY_KEYS, "the gateway's proxy")
        return cls(
            upstream=values.get(UPSTREAM, cls.upstream),
            uris=values.get(URIS, cls.uris),
            connect_timeout=seconds(values, CONNECT_TIMEOUT, cls.connect_timeout, _LEAST_TIMEOUT),
            answer_timeout=seconds(values, ANSWER_TIMEOUT, cls.answer_timeout, _LEAST_TIMEOUT),
            rewrite_timeout=seconds(values, REWRITE_TIMEOUT, cls.rewrite_timeout, _LEAST_TIMEOUT),
            rewrite_threads=whole_number(values, REWRITE_THREADS, cls.rewrite_threads, 1),
            statement_size=whole_number(values, STATEMENT_SIZE, cls.statement_size, 1),
            prepared_header_size=whole_number(values, PREPARED_HEADER_SIZE, cls.prepared_header_size, 1),
            connections=whole_number(values, CONNECTIONS, cls.connections, 1),
            abandoned_after=seconds(values, ABANDONED_AFTER, cls.abandoned_after, _LEAST_TIMEOUT),
            host=host,
            port=port,
            read_timeout=read_timeout,
        )
