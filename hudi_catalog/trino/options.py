"""Options of the service for Trino: `hoodie.catalog.trino.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from catalog.snapshots import scan_options
from catalog.snapshots.scan_options import ScanOptions
from hudi_catalog.trino.connector.buckets import PLAIN_TEXTS
from hudi_catalog.trino.connector.scans import ConnectorOptions
from hudi_catalog.trino.types import TYPE_KEYS, TypeMapping
from table_format.config.option_values import flag, known_options, names, seconds, whole_number

INDEX_JOINS = "hoodie.catalog.trino.index.joins"
SPLIT_SIZE = "hoodie.catalog.trino.split.size"
SPLIT_LIFETIME = "hoodie.catalog.trino.split.lifetime"
LEASE_IDLE = "hoodie.catalog.trino.lease.idle"
LEASE_MOST = "hoodie.catalog.trino.lease.most"
PAGE_SIZE = "hoodie.catalog.trino.page.size"
FRAME_SIZE = "hoodie.catalog.trino.frame.size"
BATCH_ROWS = "hoodie.catalog.trino.batch.rows"
CURSOR_MEMORY = "hoodie.catalog.trino.cursor.memory"
CURSOR_IDLE = "hoodie.catalog.trino.cursor.idle"
THRIFT_CONNECTORS = "hoodie.catalog.trino.thrift.connectors"
KEYS = (
    *TYPE_KEYS,
    INDEX_JOINS,
    SPLIT_SIZE,
    SPLIT_LIFETIME,
    LEASE_IDLE,
    LEASE_MOST,
    PAGE_SIZE,
    FRAME_SIZE,
    BATCH_ROWS,
    CURSOR_MEMORY,
    CURSOR_IDLE,
    PLAIN_TEXTS,
    THRIFT_CONNECTORS,
)
SCAN_KEYS = scan_options.SERVICE_KEYS


@dataclass(frozen=True)
class TrinoOptions:
    """Options of the service for Trino's Thrift connector.

    Attributes:
        types: how types that the connector lacks are served; `hoodie.catalog.trino.type.*`.
        index_joins: tables that Trino may join by index look-ups, as ``schema.table`` or ``*``;
            `hoodie.catalog.trino.index.joins`.
        split_size: bytes beyond which a base file is split by row groups; `hoodie.catalog.trino.split.size`.
        split_lifetime: seconds for which a split id is valid; `hoodie.catalog.trino.split.lifetime`.
        lease_idle: seconds without a call after which index look-ups no longer share a snapshot;
            `hoodie.catalog.trino.lease.idle`.
        lease_most: seconds for which they share a snapshot at most; `hoodie.catalog.trino.lease.most`.
        page_size: limit of a page in bytes, where Trino allows more; `hoodie.catalog.trino.page.size`.
        frame_size: bytes of the largest reply that the Thrift connectors take, their `max-frame-size`;
            `hoodie.catalog.trino.frame.size`.
        batch_rows: rows decoded at a time; `hoodie.catalog.trino.batch.rows`.
        cursor_memory: bytes that partly read splits may hold between pages, a single larger one excepted;
            `hoodie.catalog.trino.cursor.memory`.
        cursor_idle: seconds after which an unused cursor is closed; `hoodie.catalog.trino.cursor.idle`.
        plain_keys: text keys hold neither commas nor colons, so that our connector may join by their buckets;
            `hoodie.catalog.trino.plain.keys`.
        thrift_connectors: whether Thrift connectors are answered too, which cannot prove that they know the secret;
            `hoodie.catalog.trino.thrift.connectors`.
        scan: options of scan planning: `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
    """

    types: TypeMapping = field(default_factory=TypeMapping)
    index_joins: tuple[str, ...] = ()
    split_size: int = 32 << 20
    split_lifetime: float = 86_400.0
    lease_idle: float = 1.0
    lease_most: float = 30.0
    page_size: int = 8 << 20
    frame_size: int = 64 << 20
    batch_rows: int = 65_536
    cursor_memory: int = 256 << 20
    cursor_idle: float = 60.0
    plain_keys: bool = False
    thrift_connectors: bool = True
    scan: ScanOptions = field(default_factory=ScanOptions)

    @property
    def connector(self) -> ConnectorOptions:
        """Those that our own connector has too."""
        names = (one.name for one in fields(ConnectorOptions))
        return ConnectorOptions(**{name: getattr(self, name) for name in names})

    @classmethod
    def parse(cls, options: Mapping[str, str] | None = None) -> TrinoOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, (*KEYS, *SCAN_KEYS), "the service for Trino")
        return cls(
            types=TypeMapping.of(values),
            index_joins=names(values, INDEX_JOINS),
            split_size=whole_number(values, SPLIT_SIZE, cls.split_size, 1),
            split_lifetime=seconds(values, SPLIT_LIFETIME, cls.split_lifetime),
            lease_idle=seconds(values, LEASE_IDLE, cls.lease_idle),
            lease_most=seconds(values, LEASE_MOST, cls.lease_most),
            page_size=whole_number(values, PAGE_SIZE, cls.page_size, 1),
            frame_size=whole_number(values, FRAME_SIZE, cls.frame_size, 1),
            batch_rows=whole_number(values, BATCH_ROWS, cls.batch_rows, 1),
            cursor_memory=whole_number(values, CURSOR_MEMORY, cls.cursor_memory, 1),
            cursor_idle=seconds(values, CURSOR_IDLE, cls.cursor_idle),
            plain_keys=flag(values, PLAIN_TEXTS),
            thrift_connectors=flag(values, THRIFT_CONNECTORS) if THRIFT_CONNECTORS in values else True,
            scan=ScanOptions.parse({key: value for key, value in values.items() if key in SCAN_KEYS}),
        )
