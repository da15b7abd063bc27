"""Schemas, tables, columns and index keys as the service reports them to Trino."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from catalog.snapshots.snapshot import whole_schema
from catalog.table import Table
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.names import TableName, TableNames
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.types import Form, ServedColumn, columns_of
from hudi_catalog.trino.wire import trino_service
from table_format.config.table_config import PROPERTIES_PATH
from table_format.meta_columns import RECORD_KEY


class Metadata:
    """Reports metadata from tables' properties and timelines alone, without listing files.

    Args:
        tables: of the warehouse.
        names: finds tables by their names in Trino.
        options: of the service.
    """

    def __init__(self, tables: WarehouseTables, names: TableNames, options: TrinoOptions) -> None:
        self._tables = tables
        self._names = names
        self._options = options
        self._structs: Any = trino_service()

    def schema_names(self) -> list[str]:
        """Names of the schemas that have tables."""
        return self._names.schemas()

    def table_names(self, schema: str | None) -> list[Any]:
        """A ``TrinoThriftSchemaTableName`` for each readable table, of one schema or of all."""
        return [self._structs.TrinoThriftSchemaTableName(*name) for name in self._names.readable(schema)]

    def table(self, name: TableName, *, presto: bool = False) -> Any:
        """A ``TrinoThriftNullableTableMetadata``, empty when there is no such table.

        Args:
            name: of the table.
            presto: use Presto's type names; its ``timestamp`` has milliseconds.

        Raises:
            HudiError: the table cannot be read, or not as of the instant in its name.
        """
        named = self._names.find(name)
        if named is None:
            return self._structs.TrinoThriftNullableTableMetadata()
        table = self._tables.table(named.name)
        if not table.client.storage.exists(PROPERTIES_PATH):  # dropped, but still open here
            return self._structs.TrinoThriftNullableTableMetadata()
        schema = newest_schema(table) if named.when is None else self._names.snapshot(named).schema
        columns = columns_of(schema, self._options.types)
        keys = indexable_keys(table, columns) if self._joins_by_index(named.name) else ()
        metadata = self._structs.TrinoThriftTableMetadata(
            self._structs.TrinoThriftSchemaTableName(*name),
            [self._column(column, presto=presto) for column in columns],
            _comment(table, named.when),
            [sorted(names) for names in keys] or None,
        )
        return self._structs.TrinoThriftNullableTableMetadata(metadata)

    def _column(self, column: ServedColumn, *, presto: bool) -> Any:
        comment = "; ".join(text for text in (column.comment, column.problem) if text)
        kind = _PRESTO_TYPES.get(column.trino_type, column.trino_type) if presto else column.trino_type
        return self._structs.TrinoThriftColumnMetadata(column.name, kind, comment or None, column.hidden)

    def _joins_by_index(self, name: str) -> bool:
        return any(fnmatchcase(str(TableName.of(name)), pattern.lower()) for pattern in self._options.index_joins)


def newest_schema(table: Table) -> pa.Schema:
    """The columns of a table's newest snapshot, meta columns first, from its timeline."""
    return whole_schema(table.client, table.client.table_schema())


def indexable_keys(table: Table, columns: Sequence[ServedColumn]) -> list[frozenset[str]]:
    """The sets of columns, by their names in Trino, that rows can be looked up by.

    These are the record key, its part that buckets are hashed from, and the meta column of record keys, each with and
    without the partition columns. All columns must be served unconverted, because other values do not round-trip.
    """
    by_source = {column.source: column for column in columns}
    keys: dict[frozenset[str], None] = {}
    for sources in _key_sets(table):
        served = [by_source.get(source) for source in sources]
        if all(one is not None and one.form is Form.PLAIN and one.trino_type in _KEY_TYPES for one in served):
            keys[frozenset(one.name for one in served if one is not None)] = None
    return list(keys)


_PRESTO_TYPES = {"timestamp(3)": "timestamp"}

# Without double, which has two zeros and NaN, and without lists.
_KEY_TYPES = frozenset({"integer", "bigint", "varchar", "date", "boolean"})


def _key_sets(table: Table) -> Iterator[tuple[str, ...]]:
    config = table.config
    keys, partitions = config.record_key_fields, config.partition_fields
    sets = [keys, config.bucket_hash_fields or (), (RECORD_KEY,) if config.populate_meta_fields else ()]
    for one in sets:
        if one:
            yield tuple(dict.fromkeys(one))
            if partitions:
                yield tuple(dict.fromkeys([*one, *partitions]))


def _comment(table: Table, when: str | None) -> str:
    config = table.config
    kind = config.table_type.replace("_", " ").lower()
    past = "" if when is None else f", as of {when}"
    return f"Hudi table, {kind}, version {config.version}{past}: {table.client.storage.uri}"
