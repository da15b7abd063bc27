"""A metastore as far as tables are registered in it: names, columns, a place, a format, parameters.

Trino's file metastore and a Hive Metastore both keep this; `file_metastore` and `thrift_metastore` speak to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

EXTERNAL_TABLE: Final = "EXTERNAL_TABLE"
_PARQUET_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


@dataclass(frozen=True)
class HiveColumn:
    """A column of an entry.

    Attributes:
        name: in lower case, as Hive keeps it.
        type: as Hive writes it, such as `array<struct<a:int>>`.
        comment: None where there is none.
    """

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class StorageFormat:
    """The classes by which Hive reads a table; other engines know them by their names.

    Attributes:
        serde: serialisation library.
        input_format: decides which files are read, and how.
        output_format: the counterpart, for writers.
        serde_parameters: of the serialisation library.
    """

    serde: str
    input_format: str
    output_format: str
    serde_parameters: Mapping[str, str] = field(default_factory=dict)


SYMLINK_FORMAT: Final = StorageFormat(
    _PARQUET_SERDE,
    "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
)
"""Parquet files that are listed in text files at the table's location."""

HUDI_FORMAT: Final = StorageFormat(
    _PARQUET_SERDE,
    "org.apache.hudi.hadoop.HoodieParquetInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
)
"""What Apache Hudi's own sync registers; Trino's Hudi connector goes by the input format."""

HUDI_REAL_TIME_FORMAT: Final = StorageFormat(
    _PARQUET_SERDE,
    "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
)
"""What Apache Hudi's own sync registers to read log files too."""

HANDLER_FORMAT: Final = StorageFormat(
    _PARQUET_SERDE, "hudicatalog.hive.HudiInputFormat", "hudicatalog.hive.HudiOutputFormat"
)
"""Our storage handler, whose input format reads what the service plans."""

ROW_HANDLER_FORMAT: Final = StorageFormat(
    _PARQUET_SERDE, "hudicatalog.hive.HudiRowInputFormat", "hudicatalog.hive.HudiOutputFormat"
)
"""The same for lists, maps and structs, which Hive does not read vectorized."""

STORAGE_HANDLER: Final = "storage_handler"
HANDLER_CLASSES: Final = {
    HANDLER_FORMAT.input_format: "hudicatalog.hive.HudiStorageHandler",
    ROW_HANDLER_FORMAT.input_format: "hudicatalog.hive.HudiRowStorageHandler",
}
"""What the parameter `storage_handler` of an entry says, by the entry's input format."""


@dataclass(frozen=True)
class HiveTable:
    """A table as a metastore holds it.

    Attributes:
        schema: the database's name.
        name: the table's, in lower case.
        columns: without those of the partitions.
        location: URI of the table's folder, as the engine spells it.
        format: how it is read.
        parameters: table properties.
        partition_columns: columns whose values the metastore keeps by partition.
        table_type: `EXTERNAL_TABLE` for files that the engine must not delete.
        owner: who made it.
    """

    schema: str
    name: str
    columns: tuple[HiveColumn, ...]
    location: str
    format: StorageFormat
    parameters: Mapping[str, str]
    partition_columns: tuple[HiveColumn, ...] = ()
    table_type: str = EXTERNAL_TABLE
    owner: str = "hudi-catalog"


@dataclass(frozen=True)
class HivePartition:
    """A partition as a metastore holds it.

    Attributes:
        values: one a partition column, as text; `__HIVE_DEFAULT_PARTITION__` is null.
        location: URI of its folder, as the engine spells it.
        columns: its own; None where they are the table's, or not known.
        format: by which it is read; None where it is the table's, or not known.
    """

    values: tuple[str, ...]
    location: str
    columns: tuple[HiveColumn, ...] | None = None
    format: StorageFormat | None = None


class Metastore(Protocol):
    """What tables are registered in. Threads may share one; names are looked up in lower case.

    Every method raises `MetastoreError` when the metastore refuses or cannot be reached.
    """

    @property
    def uri(self) -> str:
        """Where it is, for messages."""

    def schemas(self) -> list[str]:
        """Names of the databases."""

    def create_schema(self, name: str) -> bool:
        """Make a database; False when it is there already."""

    def schema_folders(self, name: str) -> list[str]:
        """URIs of the folders that are deleted with a database; none where that is not so, or nobody says."""

    def tables(self, schema: str) -> list[str]:
        """Names of a database's tables; none when there is no such database."""

    def table(self, schema: str, name: str) -> HiveTable | None:
        """A table, or None when there is none of that name."""

    def put_table(self, table: HiveTable) -> None:
        """Create a table or replace its definition; a reader sees the old one or the new one, never a mixture."""

    def drop_table(self, schema: str, name: str) -> bool:
        """Take a table out; its files stay. False when there was none."""

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        """A table's partitions, in no order."""

    def partition_values(self, table: HiveTable) -> set[tuple[str, ...]]:
        """Values of a table's partitions, without what else there is to them: much faster where they are many."""

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        """Add partitions to a table, or replace those that have the same values."""

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        """Take partitions out of a table; their files stay. It does not matter if they are gone already."""

    def close(self) -> None:
        """Let go of connections."""
