"""Options of the service for Hive, and the settings that the storage handler sends with a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.snapshots import scan_options
from catalog.snapshots.scan_options import ScanOptions
from catalog.table import QUERY_TYPES, READ_OPTIMIZED
from hudi_catalog.metastore.locations import Locations
from table_format.config.option_values import flag, known_options, seconds, whole_number
from table_format.errors import OptionError

SPLIT_SIZE = "hoodie.catalog.hive.split.size"
LOCATIONS = "hoodie.catalog.hive.locations"
LEASE_IDLE = "hoodie.catalog.hive.lease.idle"
MATERIALIZED_RETENTION = "hoodie.catalog.hive.materialized.retention"
MATERIALIZED_THREADS = "hoodie.catalog.hive.materialized.threads"
SERVICE_KEYS = (SPLIT_SIZE, LOCATIONS, LEASE_IDLE, MATERIALIZED_RETENTION, MATERIALIZED_THREADS)
SCAN_KEYS = scan_options.SERVICE_KEYS


@dataclass(frozen=True)
class HiveOptions:
    """Options of the service for Hive.

    Attributes:
        split_size: larger files are split at row groups into splits of about this many bytes, or the size that Hive
            asks for if that is smaller; `hoodie.catalog.hive.split.size`.
        locations: how Hive writes tables' URIs; `hoodie.catalog.hive.locations`.
        lease_idle: seconds after its last request that a query without a pin keeps its snapshot;
            `hoodie.catalog.hive.lease.idle`.
        materialized_retention: seconds that a materialized file is kept after its last use;
            `hoodie.catalog.hive.materialized.retention`.
        materialized_threads: materialized files written concurrently; `hoodie.catalog.hive.materialized.threads`.
        scan: how files are planned: `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
    """

    split_size: int = 128 << 20
    locations: Locations = field(default_factory=Locations)
    lease_idle: float = 21_600.0
    materialized_retention: float = 86_400.0
    materialized_threads: int = 2
    scan: ScanOptions = field(default_factory=ScanOptions)

    @classmethod
    def parse(cls, options: Mapping[str, str] | None = None) -> HiveOptions:
        """Parse options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, (*SERVICE_KEYS, *SCAN_KEYS), "the service for Hive")
        return cls(
            split_size=whole_number(values, SPLIT_SIZE, cls.split_size, 1),
            locations=Locations.parse(values.get(LOCATIONS, "")),
            lease_idle=seconds(values, LEASE_IDLE, cls.lease_idle),
            materialized_retention=seconds(values, MATERIALIZED_RETENTION, cls.materialized_retention),
            materialized_threads=whole_number(values, MATERIALIZED_THREADS, cls.materialized_threads, 1),
            scan=ScanOptions.parse({key: value for key, value in values.items() if key in SCAN_KEYS}),
        )


QUERY_TYPE = "hoodie.catalog.hive.query.type"
AS_OF = "hoodie.catalog.hive.as.of"
MATERIALIZE = "hoodie.catalog.hive.materialize"
COLUMNS = "hoodie.catalog.hive.columns"
COLUMN_TYPES = "hoodie.catalog.hive.columns.types"
SERVICE = "hoodie.catalog.hive.service"
TIMEOUT = "hoodie.catalog.hive.timeout.seconds"
TLS = "hoodie.catalog.hive.tls"
TLS_CA = "hoodie.catalog.hive.tls.ca"
TLS_KEYSTORE = "hoodie.catalog.hive.tls.keystore"
TLS_KEYSTORE_PASSWORD_FILE = "hoodie.catalog.hive.tls.keystore.password.file"  # noqa: S105  # a key's name
SECRET_FILE = "hoodie.catalog.hive.secret.file"  # noqa: S105  # a key's name
SETTING_KEYS = (QUERY_TYPE, AS_OF, MATERIALIZE)
ENTRY_KEYS = (COLUMNS, COLUMN_TYPES)
"""Not set by users: the columns of the entry in the metastore."""

CONNECTION_KEYS = (SERVICE, TIMEOUT, TLS, TLS_CA, TLS_KEYSTORE, TLS_KEYSTORE_PASSWORD_FILE, SECRET_FILE)
"""Used by the storage handler only."""

HANDLER_KEYS = (*SETTING_KEYS, *ENTRY_KEYS, *CONNECTION_KEYS)


@dataclass(frozen=True)
class ScanSettings:
    """Settings of a scan, from the table or the session in Hive.

    Attributes:
        query_type: of a merge-on-read table, base files only or merged with their log files;
            `hoodie.catalog.hive.query.type`.
        as_of: an instant or a time in the past, None for now; `hoodie.catalog.hive.as.of`.
        materialize: whether slices that Hive cannot read correctly are materialized for it;
            `hoodie.catalog.hive.materialize`.
        columns: names of the entry's columns, as Hive lists them; None if not sent.
        column_types: their types; None if not sent.
    """

    query_type: str = READ_OPTIMIZED
    as_of: str | None = None
    materialize: bool = True
    columns: str | None = None
    column_types: str | None = None

    @classmethod
    def parse(cls, settings: Mapping[str, str] | None = None) -> ScanSettings:
        """Parse settings by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(settings, HANDLER_KEYS, "a table in Hive")
        query_type = values.get(QUERY_TYPE, cls.query_type).lower()
        if query_type not in QUERY_TYPES:
            raise OptionError(f"{QUERY_TYPE}: {values[QUERY_TYPE]!r} is neither {' nor '.join(QUERY_TYPES)}")
        return cls(
            query_type=query_type,
            as_of=values.get(AS_OF) or None,
            materialize=flag(values, MATERIALIZE) if MATERIALIZE in values else cls.materialize,
            columns=values.get(COLUMNS),
            column_types=values.get(COLUMN_TYPES),
        )
