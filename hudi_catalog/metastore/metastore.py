"""The metastore interface: databases, tables, columns, partitions and storage formats.

Implemented by `file_metastore` (Trino's file metastore) and `thrift_metastore` (a Hive Metastore).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol

EXTERNAL_TABLE: Final = "EXTERNAL_TABLE"
# Trino calls its views still after Presto.
_TRINO_VIEW: Final = re.compile(r"/\* (?:Presto|Trino) View: ([A-Za-z0-9+/=]+) \*/")
_PARQUET_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


@dataclass(frozen=True)
class HiveColumn:
    """A column of an entry.

    Attributes:
        name: in lower case, as Hive stores it.
        type: as Hive writes it, such as `array<struct<a:int>>`.
        comment: None if there is none.
    """

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True)
class StorageFormat:
    """The classes by which Hive reads a table; other engines recognize them by name.

    Attributes:
        serde: serialisation library.
        input_format: which files are read, and how.
        output_format: the counterpart for writers.
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
"""As registered by Apache Hudi's sync; Trino's Hudi connector recognizes the input format."""

HUDI_REAL_TIME_FORMAT: Final = StorageFormat(
    _PARQUET_SERDE,
    "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
)
"""As registered by Apache Hudi's sync to read log files too."""

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
"""Value of an entry's parameter `storage_handler`, by its input format."""


@dataclass(frozen=True)
class HiveTable:
    """A table as stored in a metastore.

    Attributes:
        schema: the database's name.
        name: the table's, in lower case.
        columns: without partition columns.
        location: URI of the table's folder, as the engine writes it.
        format: how it is read.
        parameters: table properties.
        partition_columns: columns whose values the metastore holds per partition.
        table_type: `EXTERNAL_TABLE` for files that the engine must not delete.
        owner: who created it.
        view_text: of a view, its text as the engine stores it; read only.
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
    view_text: str = ""

    def trino_view(self) -> TrinoView | None:
        """The query of a view that Trino or Presto created; None for tables and other engines' views."""
        match = _TRINO_VIEW.fullmatch(self.view_text.strip())
        try:
            fields = json.loads(base64.b64decode(match[1], validate=True)) if match else None
        except ValueError:
            return None
        if not isinstance(fields, dict) or not isinstance(fields.get("originalSql"), str):
            return None
        return TrinoView(fields["originalSql"], str(fields.get("catalog") or ""), str(fields.get("schema") or ""))


@dataclass(frozen=True)
class TrinoView:
    """A view of Trino's.

    Attributes:
        sql: its query.
        catalog: in which names of the query are looked up; empty if unknown.
        schema: in which they are looked up; empty if unknown.
    """

    sql: str
    catalog: str
    schema: str


@dataclass(frozen=True)
class HivePartition:
    """A partition as stored in a metastore.

    Attributes:
        values: one per partition column, as text; `__HIVE_DEFAULT_PARTITION__` is null.
        location: URI of its folder, as the engine writes it.
        columns: its own; None if they are the table's or unknown.
        format: its own; None if it is the table's or unknown.
    """

    values: tuple[str, ...]
    location: str
    columns: tuple[HiveColumn, ...] | None = None
    format: StorageFormat | None = None


@dataclass(frozen=True)
class ColumnStatistics:
    """What an optimiser may know of a column, of a table or of one of its partitions.

    Attributes:
        column: its name in the entry.
        type: its type there, as Hive writes it.
        nulls: how many rows have none.
        distinct: about how many values there are.
        low: a bound below all values, of a number, a decimal, or a date in days since 1970; None for texts.
        high: one above them.
        length: mean bytes of a text; None for other types.
    """

    column: str
    type: str
    nulls: int
    distinct: int
    low: int | float | Decimal | None = None
    high: int | float | Decimal | None = None
    length: float | None = None


class Metastore(Protocol):
    """A metastore. Thread-safe; names are looked up in lower case.

    Every method raises `MetastoreError` when the metastore refuses or cannot be reached.

    Attributes:
        keeps_statistics: whether it has a place for statistics of columns.
    """

    keeps_statistics: bool

    @property
    def uri(self) -> str:
        """Its address, for messages."""

    def schemas(self) -> list[str]:
        """Names of the databases."""

    def create_schema(self, name: str) -> bool:
        """Create a database; False if it exists."""

    def schema_folders(self, name: str) -> list[str]:
        """URIs of the folders that are deleted with a database; empty if none or unknown."""

    def tables(self, schema: str) -> list[str]:
        """Names of a database's tables; empty if there is no such database."""

    def table(self, schema: str, name: str) -> HiveTable | None:
        """A table, or None if there is none of that name."""

    def put_table(self, table: HiveTable) -> None:
        """Create a table or replace its definition atomically for readers."""

    def drop_table(self, schema: str, name: str) -> bool:
        """Remove a table; its files are kept. False if there was none."""

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        """A table's partitions, in no order."""

    def partition_values(self, table: HiveTable) -> set[tuple[str, ...]]:
        """Values of a table's partitions only: much faster than `partitions` for many."""

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        """Add partitions to a table, or replace those with the same values."""

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        """Remove partitions from a table if present; their files are kept."""

    def put_statistics(
        self, table: HiveTable, statistics: Mapping[tuple[str, ...], Sequence[ColumnStatistics]]
    ) -> None:
        """Record statistics of columns, for optimisers only: nothing of the entry is marked as accurate afterwards.

        Args:
            table: an existing entry.
            statistics: by the values of a partition, which must exist; `()` is the table.
        """

    def close(self) -> None:
        """Close connections."""
