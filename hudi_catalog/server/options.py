"""Options of the services' network side, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.late_tables import DEFAULT_SECONDS
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
    """Limits and times of a service.

    Attributes:
        max_frame_bytes: a longer request is refused; `hoodie.catalog.service.max.frame.bytes`.
        max_buffered_bytes: bytes of requests and replies that may be under way at once, in all connections;
            `hoodie.catalog.service.max.buffered.bytes`.
        max_connections: further ones are closed at once; `hoodie.catalog.service.max.connections`.
        max_requests: requests that are taken and not yet answered; further ones stay unread;
            `hoodie.catalog.service.max.requests`.
        max_connection_requests: the same for one connection;
            `hoodie.catalog.service.max.requests.per.connection`.
        threads: that answer requests, one each at a time; `hoodie.catalog.service.threads`.
        idle_timeout: seconds after which a connection without requests is closed, 0 for never;
            `hoodie.catalog.service.idle.timeout.seconds`.
        read_timeout: seconds in which a request must arrive whole, once it has begun;
            `hoodie.catalog.service.read.timeout.seconds`.
        write_timeout: seconds in which a client must take further bytes of a reply;
            `hoodie.catalog.service.write.timeout.seconds`.
        drain_timeout: seconds that running queries get when the service is told to stop;
            `hoodie.catalog.service.drain.timeout.seconds`.
        open_tables: tables that are held open; `hoodie.catalog.service.open.tables`.
        snapshots: past snapshots of a table that are held; `hoodie.catalog.service.snapshots`.
        refresh_interval: milliseconds for which the newest state of a table is not looked for again;
            `hoodie.catalog.service.refresh.interval.ms`.
        listing_seconds: how long the list of a warehouse's tables is kept; `hoodie.catalog.service.listing.seconds`.
        table_timeout: seconds for which a call to a table's storage may go unanswered, before the table is refused and
            others go on; `hoodie.catalog.service.table.timeout.seconds`.
        outside_links: whether symbolic links are followed that lead out of the warehouse;
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
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, KEYS, "a service")
        numbers = {name: (key, least, getattr(cls, name)) for name, (key, least) in _NUMBERS.items()}
        return cls(
            **{name: whole_number(values, key, default, least) for name, (key, least, default) in numbers.items()},
            table_timeout=seconds(values, TABLE_TIMEOUT, cls.table_timeout, _LEAST_TIMEOUT),
            outside_links=flag(values, OUTSIDE_LINKS),
        )
