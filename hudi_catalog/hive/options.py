"""Options of the service for Hive, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.snapshot import scan_options
from catalog.snapshot.scan_options import ScanOptions
from hudi_catalog.metastore.locations import Locations
from table_format.config.option_values import known_options, seconds, whole_number

SPLIT_SIZE = "hoodie.catalog.hive.split.size"
LOCATIONS = "hoodie.catalog.hive.locations"
LEASE_IDLE = "hoodie.catalog.hive.lease.idle"
MATERIALIZED_RETENTION = "hoodie.catalog.hive.materialized.retention"
MATERIALIZED_THREADS = "hoodie.catalog.hive.materialized.threads"
KEYS = (SPLIT_SIZE, LOCATIONS, LEASE_IDLE, MATERIALIZED_RETENTION, MATERIALIZED_THREADS)
SCAN_KEYS = scan_options.SERVICE_KEYS


@dataclass(frozen=True)
class HiveOptions:
    """Options of the service for Hive.

    Attributes:
        split_size: larger files are divided by row groups into splits of about so many bytes, or of as many as Hive
            asks for if those are fewer; `hoodie.catalog.hive.split.size`.
        locations: how Hive spells the places of tables; `hoodie.catalog.hive.locations`.
        lease_idle: seconds after its last request for which a query that brings no pin keeps its snapshot;
            `hoodie.catalog.hive.lease.idle`.
        materialized_retention: seconds for which a materialised file outlives its last use;
            `hoodie.catalog.hive.materialized.retention`.
        materialized_threads: such files that are written at once; `hoodie.catalog.hive.materialized.threads`.
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
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, (*KEYS, *SCAN_KEYS), "the service for Hive")
        return cls(
            split_size=whole_number(values, SPLIT_SIZE, cls.split_size, 1),
            locations=Locations.parse(values.get(LOCATIONS, "")),
            lease_idle=seconds(values, LEASE_IDLE, cls.lease_idle),
            materialized_retention=seconds(values, MATERIALIZED_RETENTION, cls.materialized_retention),
            materialized_threads=whole_number(values, MATERIALIZED_THREADS, cls.materialized_threads, 1),
            scan=ScanOptions.parse({key: value for key, value in values.items() if key in SCAN_KEYS}),
        )
