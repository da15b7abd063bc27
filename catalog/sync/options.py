"""Options of the sync to metastores, typed and checked once; the keys are Apache Hudi's own where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.option_values import flag, known_options, seconds, whole_number
from catalog.sync.locations import Locations
from table_format.errors import OptionError

DATABASE = "hoodie.datasource.hive_sync.database"
TABLE = "hoodie.datasource.hive_sync.table"
OMIT_META_FIELDS = "hoodie.datasource.hive_sync.omit_metadata_fields"
LOCATIONS = "hoodie.catalog.sync.locations"
MANIFESTS = "hoodie.catalog.sync.manifests"
RETENTION = "hoodie.catalog.sync.pins.retention"
ENTRY_AGE = "hoodie.catalog.sync.entries.age"
OPEN_TABLES = "hoodie.catalog.sync.tables.open"
HUDI_NAME = "hoodie.catalog.sync.trino.hudi.name"
KEYS = (DATABASE, TABLE, OMIT_META_FIELDS, LOCATIONS, MANIFESTS, RETENTION, ENTRY_AGE, OPEN_TABLES, HUDI_NAME)


@dataclass(frozen=True)
class SyncOptions:
    """Options of the sync, and of those who use what it registered.

    Attributes:
        database: schema of the entries; None for the table's own database, else `default`;
            `hoodie.datasource.hive_sync.database`.
        table: name of the entry; None for the table's own; `hoodie.datasource.hive_sync.table`.
        omit_meta_fields: leave Hudi's meta columns out of the entries;
            `hoodie.datasource.hive_sync.omit_metadata_fields`.
        locations: how the engine spells places, `ours=theirs` pairs with commas between, such as
            `file:///data=local:///`; None for what the entry says, see `Locations`; `hoodie.catalog.sync.locations`.
        manifests: URI of a folder for the lists of files; None for one inside each table's `.hoodie`;
            `hoodie.catalog.sync.manifests`.
        retention: seconds for which a pinned snapshot outlives its last use; `hoodie.catalog.sync.pins.retention`.
        entry_age: seconds for which an entry of the metastore is believed without a look;
            `hoodie.catalog.sync.entries.age`.
        open_tables: so many tables are held open; `hoodie.catalog.sync.tables.open`.
        hudi_name: name of the entry for Trino's own Hudi connector, where `{table}` stands for the entry's;
            `hoodie.catalog.sync.trino.hudi.name`.
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

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> SyncOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, KEYS, "the sync")
        hudi_name = values.get(HUDI_NAME, cls.hudi_name)
        if "{table}" not in hudi_name or hudi_name == "{table}":
            raise OptionError(f"{HUDI_NAME}: {hudi_name!r} must hold {{table}} and something besides")
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
        )
