"""Options of services, `hoodie.catalog.service.*`: limits, time-outs and caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.concurrency.late_tables import DEFAULT_SECONDS
from table_format.config.option_values import flag, known_options, seconds, whole_number

MAX_FRAME = "hoodie.catalog.service.max.frame.bytes"
MAX_BUFFERED = "hoodie.catalog.service.max.buffered.bytes"
MAX_CONNECTIONS = "hoodie.catalog.service.max.connections"
MAX_REQUESTS = "hoodie.catalog.service.max.requests"
MAX_CONNECTION_REQUESTS = "hoodie.catalog.service.max.requests.per.connection"
THREADS = "hoodie.catalog.service.threads"
IDLE_TIMEOUT = "hoodie.catalog.service.idle.timeout.seconds"
READ_TIMEOUT = "hoodie.catalog.service.read.timeout.seconds"
WRITE_TIMEOUT = "hoodie.catalog.service.write.timeout.seconds"
DRAIN_TIMEOUT = "hoodie.catalog.service.drain.timeout.seconds"
OPEN_TABLES = "hoodie.catalog.service.open.tables"
SNAPSHOTS = "hoodie.catalog.service.snapshots"
REFRESH_INTERVAL = "hoodie.catalog.service.refresh.interval.ms"
LISTING_SECONDS = "hoodie.catalog.service.listing.seconds"
TABLE_TIMEOUT = "hoodie.catalog.service.table.timeout.seconds"
OUTSIDE_LINKS = "hoodie.catalog.service.links.outside"
_NUMBERS = {
    "max_frame_bytes": (MAX_FRAME, 1024),
    "max_buffered_bytes": (MAX_BUFFERED, 1024),
    "max_connections": (MAX_CONNECTIONS, 1),
    "max_requests": (MAX_REQUESTS, 1),
    "max_connection_requests": (MAX_CONNECTION_REQUESTS, 1),
    "threads": (THREADS, 1),
    "idle_timeout": (IDLE_TIMEOUT, 0),
    "read_timeout": (READ_TIMEOUT, 1),
    "write_timeout": (WRITE_TIMEOUT, 1),
    "drain_timeout": (DRAIN_TIMEOUT, 0),
    "open_tables": (OPEN_TABLES, 1),
    "snapshots": (SNAPSHOTS, 1),
    "refresh_interval": (REFRESH_INTERVAL, 0),
    "listing_seconds": (LISTING_SECONDS, 0),
}
KEYS = (*(key for key, _ in _NUMBERS.values()), TABLE_TIMEOUT, OUTSIDE_LINKS)
_LEAST_TIMEOUT = 0.01


@dataclass(frozen=True)
class ServiceOptions:
    """Limits and time-outs of a service.

    Attributes:
        max_frame_bytes: longest request accepted; `hoodie.catalog.service.max.frame.bytes`.
        max_buffered_bytes: bytes of requests, and as many of replies, buffered over all connections;
            `hoodie.catalog.service.max.buffered.bytes`.
        max_connections: further ones are closed at once; `hoodie.catalog.service.max.connections`.
        max_requests: requests in progress or queued; further ones stay unread; `hoodie.catalog.service.max.requests`.
        max_connection_requests: the same for one connection;
            `hoodie.catalog.service.max.requests.per.connection`.
        threads: worker threads, each of which processes one request at a time; `hoodie.catalog.service.threads`.
        idle_timeout: seconds after which a connection without requests is closed, 0 for never;
            `hoodie.catalog.service.idle.timeout.seconds`.
        read_timeout: seconds in which a request has to arrive completely, from its first byte on;
            `hoodie.catalog.service.read.timeout.seconds`.
        write_timeout: seconds in which a client has to read the next bytes of a reply;
            `hoodie.catalog.service.write.timeout.seconds`.
        drain_timeout: seconds to wait for running queries before stopping;
            `hoodie.catalog.service.drain.timeout.seconds`.
        open_tables: tables kept open; `hoodie.catalog.service.open.tables`.
        snapshots: past snapshots kept per table; `hoodie.catalog.service.snapshots`.
        refresh_interval: milliseconds for which a table's newest snapshot is reused without a refresh;
            `hoodie.catalog.service.refresh.interval.ms`.
        listing_seconds: how long the warehouse's list of tables is reused; `hoodie.catalog.service.listing.seconds`.
        table_timeout: seconds after which a call to a table's storage counts as hung; the table is then refused while
            others are served; `hoodie.catalog.service.table.timeout.seconds`.
        outside_links: whether symbolic links that lead out of the warehouse are followed;
            `hoodie.catalog.service.links.outside`.
    """

    max_frame_bytes: int = 64 << 20
    max_buffered_bytes: int = 512 << 20
    max_connections: int = 2_000
    max_requests: int = 4_000
    max_connection_requests: int = 128
    threads: int = 16
    idle_timeout: int = 0
    read_timeout: int = 60
    write_timeout: int = 60
    drain_timeout: int = 60
    open_tables: int = 200
    snapshots: int = 8
    refresh_interval: int = 0
    listing_seconds: int = 5
    table_timeout: float = DEFAULT_SECONDS
    outside_links: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> ServiceOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, KEYS, "a service")
        numbers = {name: (key, least, getattr(cls, name)) for name, (key, least) in _NUMBERS.items()}
        return cls(
            **{name: whole_number(values, key, default, least) for name, (key, least, default) in numbers.items()},
            table_timeout=seconds(values, TABLE_TIMEOUT, cls.table_timeout, _LEAST_TIMEOUT),
            outside_links=flag(values, OUTSIDE_LINKS),
        )
