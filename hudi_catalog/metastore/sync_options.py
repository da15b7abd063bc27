"""Options of the sync to metastores; keys are Apache Hudi's where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hudi_catalog.metastore.locations import Locations
from table_format.config.option_values import choice, flag, key_value_lines, known_options, names, seconds, whole_number
from table_format.errors import OptionError

DATABASE = "hoodie.datasource.hive_sync.database"
TABLE = "hoodie.datasource.hive_sync.table"
OMIT_META_FIELDS = "hoodie.datasource.hive_sync.omit_metadata_fields"
PARTITION_FIELDS = "hoodie.datasource.hive_sync.partition_fields"
EXTRACTOR = "hoodie.datasource.hive_sync.partition_extractor_class"
STRATEGY = "hoodie.datasource.hive_sync.table.strategy"
SKIP_RO_SUFFIX = "hoodie.datasource.hive_sync.skip_ro_suffix"
SNAPSHOT_NAME = "hoodie.meta.sync.sync_snapshot_with_table_name"
TABLE_PROPERTIES = "hoodie.datasource.hive_sync.table_properties"
SERDE_PROPERTIES = "hoodie.datasource.hive_sync.serde_properties"
AS_DATASOURCE = "hoodie.datasource.hive_sync.sync_as_datasource"
SCHEMA_PART = "hoodie.datasource.hive_sync.schema_string_length_thresh"
COMMENTS = "hoodie.datasource.hive_sync.sync_comment"
CREATE_DATABASE = "hoodie.datasource.hive_sync.auto_create_database"
TIMESTAMPS = "hoodie.datasource.hive_sync.support_timestamp"
CONDITIONAL = "hoodie.datasource.meta_sync.condition.sync"
SPARK_VERSION = "hoodie.meta_sync.spark.version"
FORMAT = "hoodie.catalog.sync.format"
DROPPED = "hoodie.catalog.sync.partitions.dropped"
COLUMN_STATISTICS = "hoodie.catalog.sync.column.statistics"
SERVICE = "hoodie.catalog.hive.service"
LOCATIONS = "hoodie.catalog.sync.locations"
MANIFESTS = "hoodie.catalog.sync.manifests"
RETENTION = "hoodie.catalog.sync.pins.retention"
ENTRY_AGE = "hoodie.catalog.sync.entries.age"
OPEN_TABLES = "hoodie.catalog.sync.tables.open"
HUDI_NAME = "hoodie.catalog.sync.trino.hudi.name"

SYNC_KEYS = (
    *(DATABASE, TABLE, OMIT_META_FIELDS, PARTITION_FIELDS, EXTRACTOR, STRATEGY, SKIP_RO_SUFFIX, TABLE_PROPERTIES),
    *(SERDE_PROPERTIES, AS_DATASOURCE, SCHEMA_PART, COMMENTS, CREATE_DATABASE, TIMESTAMPS, CONDITIONAL),
    *(SPARK_VERSION, SNAPSHOT_NAME, FORMAT, DROPPED, SERVICE, COLUMN_STATISTICS),
    *(LOCATIONS, MANIFESTS, RETENTION, ENTRY_AGE, OPEN_TABLES, HUDI_NAME),
)

HANDLER: Final = "handler"
APACHE: Final = "apache"
SYMLINK: Final = "symlink"
FORMATS: Final = (HANDLER, APACHE, SYMLINK)
ALL: Final = "ALL"
READ_OPTIMIZED_ONLY: Final = "RO"
REAL_TIME_ONLY: Final = "RT"
STRATEGIES: Final = (ALL, READ_OPTIMIZED_ONLY, REAL_TIME_ONLY)
HIVE_SITE: Final = "hive-site"
"""In place of an address: Hive's own configuration names the service, or Spark alone reads the entries."""

REPAIR: Final = "repair"
KEEP: Final = "keep"


@dataclass(frozen=True)
class HiveSyncOptions:
    """Options of entries for Hive and Spark.

    Attributes:
        format: how Hive reads an entry: `handler`, `apache` for Apache Hudi's own input formats, or `symlink`; None for
            an existing entry's, else the target's default; `hoodie.catalog.sync.format`.
        service: `host:port` of the service for the storage handler, several comma-separated; `hive-site` for none in
            the entry; None for the existing entry's, and for none in a new one; `hoodie.catalog.hive.service`.
        dropped: whether partitions that the last sync registered and that are gone are registered again, `repair`, or
            stay dropped, `keep`; `hoodie.catalog.sync.partitions.dropped`.
        column_statistics: record the columns' statistics for optimisers, where the rows are counted exactly;
            `hoodie.catalog.sync.column.statistics`.
        partition_fields: if set, must be the table's own; `hoodie.datasource.hive_sync.partition_fields`.
        extractor: Apache's class that derives partition values; refused if it would derive others than we do. None
            for any; `hoodie.datasource.hive_sync.partition_extractor_class`.
        strategy: which entries merge-on-read tables get: `ALL`, `RO` or `RT`;
            `hoodie.datasource.hive_sync.table.strategy`.
        skip_ro_suffix: name the read-optimized entry like the table;
            `hoodie.datasource.hive_sync.skip_ro_suffix`.
        snapshot_name: with `ALL`, also register an entry named like the table that reads the newest rows, beside
            `_rt`; `hoodie.meta.sync.sync_snapshot_with_table_name`.
        table_properties: additional parameters of the entry; `hoodie.datasource.hive_sync.table_properties`.
        serde_properties: additional parameters of its SerDe; `hoodie.datasource.hive_sync.serde_properties`.
        as_datasource: write the properties by which Spark recognizes a data source table;
            `hoodie.datasource.hive_sync.sync_as_datasource`.
        schema_part: most characters of Spark's schema per parameter;
            `hoodie.datasource.hive_sync.schema_string_length_thresh`.
        comments: register the columns' comments; `hoodie.datasource.hive_sync.sync_comment`.
        create_database: create the database if missing; `hoodie.datasource.hive_sync.auto_create_database`.
        timestamps: register timestamps as such instead of as the numbers in the files; None for the existing entry's
            way, else timestamps with our handler and numbers with Apache's input formats, as Apache's sync does;
            `hoodie.datasource.hive_sync.support_timestamp`.
        conditional: record a newer instant only if something else changed;
            `hoodie.datasource.meta_sync.condition.sync`.
        spark_version: of the Spark that created the entry; None to omit it; `hoodie.meta_sync.spark.version`.
    """

    format: str | None = None
    service: str | None = None
    dropped: str = REPAIR
    column_statistics: bool = False
    partition_fields: tuple[str, ...] = ()
    extractor: str | None = None
    strategy: str = ALL
    skip_ro_suffix: bool = False
    snapshot_name: bool = True
    table_properties: Mapping[str, str] = field(default_factory=dict)
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    as_datasource: bool = True
    schema_part: int = 4000
    comments: bool = True
    create_database: bool = True
    timestamps: bool | None = None
    conditional: bool = False
    spark_version: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, str]) -> HiveSyncOptions:
        """Parse options by their keys, ignoring others.

        Raises:
            OptionError: an invalid value.
        """
        return cls(
            format=choice(values, FORMAT, None, FORMATS),
            service=_service(values),
            dropped=choice(values, DROPPED, cls.dropped, (REPAIR, KEEP)),
            column_statistics=flag(values, COLUMN_STATISTICS),
            partition_fields=names(values, PARTITION_FIELDS),
            extractor=values.get(EXTRACTOR) or None,
            strategy=choice(values, STRATEGY, cls.strategy, STRATEGIES),
            skip_ro_suffix=flag(values, SKIP_RO_SUFFIX),
            snapshot_name=flag(values, SNAPSHOT_NAME, default=True),
            table_properties=key_value_lines(values, TABLE_PROPERTIES),
            serde_properties=key_value_lines(values, SERDE_PROPERTIES),
            as_datasource=flag(values, AS_DATASOURCE, default=True),
            schema_part=whole_number(values, SCHEMA_PART, cls.schema_part, 1),
            comments=flag(values, COMMENTS, default=True),
            create_database=flag(values, CREATE_DATABASE, default=True),
            timestamps=flag(values, TIMESTAMPS) if TIMESTAMPS in values else None,
            conditional=flag(values, CONDITIONAL),
            spark_version=values.get(SPARK_VERSION) or None,
        )


def _service(values: Mapping[str, str]) -> str | None:
    """The addresses, as the storage handler reads them.

    >>> _service({SERVICE: "one:10100, [::1]:10100"}), _service({SERVICE: "hive-site"}), _service({})
    ('one:10100, [::1]:10100', 'hive-site', None)

    Raises:
        OptionError: one is not `host:port`.
    """
    text = values.get(SERVICE) or None
    for one in [] if text is None or text == HIVE_SITE else filter(None, map(str.strip, text.split(","))):
        host, _, port = one.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise OptionError(f"{SERVICE}={one}: write host:port of the service, or {HIVE_SITE}")
    return text


@dataclass(frozen=True)
class SyncOptions:
    """Options of the sync, and of users of what it registered.

    Attributes:
        database: schema of the entries; None for the table's own database, else `default`;
            `hoodie.datasource.hive_sync.database`.
        table: name of the entry; None for the table's own; `hoodie.datasource.hive_sync.table`.
        omit_meta_fields: leave Hudi's meta columns out of the entries;
            `hoodie.datasource.hive_sync.omit_metadata_fields`.
        locations: how the engine writes URIs, comma-separated pairs `ours=theirs` such as `file:///data=local:///`;
            None for the existing entry's, see `Locations`; `hoodie.catalog.sync.locations`.
        manifests: URI of a folder for the lists of files; None for one inside each table's `.hoodie`;
            `hoodie.catalog.sync.manifests`.
        retention: seconds that a pinned snapshot is kept after its last use; `hoodie.catalog.sync.pins.retention`.
        entry_age: seconds for which an entry of the metastore is cached;
            `hoodie.catalog.sync.entries.age`.
        open_tables: most tables held open; `hoodie.catalog.sync.tables.open`.
        hudi_name: name of the entry for Trino's own Hudi connector, where `{table}` is the entry's;
            `hoodie.catalog.sync.trino.hudi.name`.
        hive: options of entries for Hive and Spark.
    """

    database: str | None = None
    table: str | None = None
    omit_meta_fields: bool = False
    locations: Locations | None = None
    manifests: str | None = None
    retention: float = 86400.0
    entry_age: float = 1.0
    open_tables: int = 200
    hudi_name: str = "{table}_hudi"
    hive: HiveSyncOptions = HiveSyncOptions()

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> SyncOptions:
        """Parse options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, SYNC_KEYS, "the sync")
        hudi_name = values.get(HUDI_NAME, cls.hudi_name)
        if "{table}" not in hudi_name or hudi_name == "{table}":
            raise OptionError(f"{HUDI_NAME}: {hudi_name!r} must contain {{table}} and further characters")
        return cls(
            database=values.get(DATABASE) or None,
            table=values.get(TABLE) or None,
            omit_meta_fields=flag(values, OMIT_META_FIELDS),
            locations=Locations.parse(values[LOCATIONS]) if LOCATIONS in values else None,
            manifests=values.get(MANIFESTS) or None,
            retention=seconds(values, RETENTION, cls.retention, 60.0),
            entry_age=seconds(values, ENTRY_AGE, cls.entry_age),
            open_tables=whole_number(values, OPEN_TABLES, cls.open_tables, 1),
            hudi_name=hudi_name,
            hive=HiveSyncOptions.of(values),
        )
