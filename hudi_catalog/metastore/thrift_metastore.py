"""A Hive Metastore, releases 2.3 to 4.0, over Thrift."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from hudi_catalog.metastore.locations import normal_uri
from hudi_catalog.metastore.metastore import HiveColumn, HivePartition, HiveTable, StorageFormat
from hudi_catalog.metastore.metastore_options import MetastoreOptions
from hudi_catalog.metastore.thrift_connections import Connections, UnknownMethodError, connecting, hms
from table_format.errors import MetastoreError
from table_format.keys.partition_values import unescape_path_name


def table_of(found: Any) -> HiveTable:
    """A table as the metastore gave it."""
    storage = found.sd or hms.StorageDescriptor()
    return HiveTable(
        schema=found.dbName,
        name=found.tableName,
        columns=_columns(storage.cols),
        location=_spelled(storage.location or ""),
        format=_format(storage),
        parameters=found.parameters or {},
        partition_columns=_columns(found.partitionKeys),
        table_type=found.tableType or "",
        owner=found.owner or "",
    )


def partitions_of(found: Sequence[Any]) -> list[HivePartition]:
    """Partitions as the metastore gave them; most have the same columns, which are made once."""
    known: dict[tuple[Any, ...], tuple[HiveColumn, ...]] = {}
    result = []
    for one in found:
        storage = one.sd or hms.StorageDescriptor()
        key = tuple((field.name, field.type, field.comment) for field in storage.cols or ())
        if key not in known:
            known[key] = _columns(storage.cols)
        result.append(HivePartition(tuple(one.values), _spelled(storage.location or ""), known[key], _format(storage)))
    return result


def thrift_table(table: HiveTable, found: Any) -> Any:
    """The definition as Thrift has it; what it doesn't tell is as in `found`, or as Hive makes new tables."""
    result = found if found is not None else hms.Table(createTime=0, lastAccessTime=0, retention=0)
    result.dbName, result.tableName = table.schema.lower(), table.name.lower()
    result.tableType, result.owner = table.table_type, table.owner
    result.parameters = dict(table.parameters)
    result.partitionKeys = _fields(table.partition_columns)
    result.sd = _storage(table, table.location)
    return result


def thrift_partition(table: HiveTable, partition: HivePartition) -> Any:
    """A partition as Thrift has it, with the columns and the format of its table."""
    return hms.Partition(
        values=list(partition.values),
        dbName=table.schema.lower(),
        tableName=table.name.lower(),
        createTime=0,
        lastAccessTime=0,
        sd=_storage(table, partition.location),
        parameters={},
    )


def _format(storage: Any) -> StorageFormat:
    serde = storage.serdeInfo or hms.SerDeInfo()
    return StorageFormat(
        serde.serializationLib or "", storage.inputFormat or "", storage.outputFormat or "", serde.parameters or {}
    )


def _spelled(location: str) -> str:
    """Hadoop writes file:/a where engines write file:///a."""
    return normal_uri(location) if location.startswith("file:") else location


def _columns(fields: Any) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(field.name, field.type, field.comment or None) for field in fields or ())


def _storage(table: HiveTable, location: str) -> Any:
    return hms.StorageDescriptor(
        cols=_fields(table.columns),
        location=location,
        inputFormat=table.format.input_format,
        outputFormat=table.format.output_format,
        compressed=False,
        numBuckets=-1,
        serdeInfo=_serde(table.format.serde, table.format.serde_parameters),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _serde(library: str, parameters: Mapping[str, str]) -> Any:
    return hms.SerDeInfo(serializationLib=library, parameters={"serialization.format": "1", **parameters})


def _fields(columns: Sequence[HiveColumn]) -> list[Any]:
    return [hms.FieldSchema(name=c.name, type=c.type, comment=c.comment) for c in columns]


_BATCH: Final = 200

# new rows wait for nobody; changes and deletions, one batch of which is one transaction, would for each other's locks
_ADDED_AT_ONCE: Final = 4

_READ_AT_ONCE: Final = 1000

_ALL: Final = -1

_NO_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}


class ThriftMetastore:
    """A Hive Metastore. Threads share a few connections; a broken one is made anew, at the next address if need be.

    Args:
        addresses: hosts and ports of servers of one metastore.
        options: how they are connected to.

    Raises:
        OptionError: a certificate cannot be read, or a library is missing that the authentication needs.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], options: MetastoreOptions | None = None) -> None:
        self._connections = Connections(addresses, connecting(options or MetastoreOptions()))
        self._old_get_table = False

    @property
    def uri(self) -> str:
        """The addresses."""
        return self._connections.uri

    def schemas(self) -> list[str]:
        """Names of the databases."""
        return sorted(self._call("get_all_databases"))

    def create_schema(self, name: str) -> bool:
        """Make a database, where the metastore puts it; False when it is there already."""
        if name.lower() in self.schemas():
            return False
        try:
            self._call("create_database", hms.Database(name=name.lower(), parameters={}))
        except hms.AlreadyExistsException:
            return False
        except MetastoreError:
            # of several who make it at once, all but one hear of a broken key of the metastore's database
            if name.lower() in self.schemas():
                return False
            raise
        return True

    def schema_folders(self, name: str) -> list[str]:
        """URIs of the folders that are deleted with a database; none where the metastore does not say."""
        try:
            found = self._call("get_database", name.lower())
        except (hms.NoSuchObjectException, MetastoreError):
            return []
        return [uri for uri in (found.locationUri, found.managedLocationUri) if uri]

    def tables(self, schema: str) -> list[str]:
        """Names of a database's tables; none when there is no such database."""
        try:
            return sorted(self._call("get_all_tables", schema.lower()))
        except hms.NoSuchObjectException:
            return []

    def table(self, schema: str, name: str) -> HiveTable | None:
        """A table, or None when there is none of that name."""
        found = self._get(schema.lower(), name.lower())
        return None if found is None else table_of(found)

    def put_table(self, table: HiveTable) -> None:
        """Create a table or replace its definition.

        A metastore refuses some changes of a column's type, of the columns' order, and of partition columns, on account
        of Hive's own tables; then the entry is dropped and made anew, without partitions, and for that moment there is
        none. Partitions that a table keeps keep columns of their own: put them anew.
        """
        schema, name = table.schema.lower(), table.name.lower()
        found = self._get(schema, name)
        if found is None:
            try:
                self._create(thrift_table(table, None))
            except hms.AlreadyExistsException:
                found = self._get(schema, name)  # somebody was faster, or a first try came through after all
            else:
                return
        same_keys = found is None or table_of(found).partition_columns == table.partition_columns
        wanted = thrift_table(table, found)
        try:
            self._call("alter_table_with_environment_context", schema, name, wanted, _context())
        except hms.InvalidOperationException as error:
            if same_keys and "incompatible" not in str(error.message):
                raise self._connections.refused(f"alter_table {schema}.{name}", error) from error
            self.drop_table(schema, name)
            try:
                self._create(wanted)
            except hms.AlreadyExistsException as there:
                raise self._connections.refused(f"create_table {schema}.{name}", there) from there

    def drop_table(self, schema: str, name: str) -> bool:
        """Take a table out; its files stay. False when there was none."""
        try:
            self._call("drop_table_with_environment_context", schema.lower(), name.lower(), False, _context())
        except hms.NoSuchObjectException:
            return False
        return True

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        """A table's partitions; of many, a thousand at a time, for each comes with all of its columns."""
        names = [*self._partition_names(table).values()]
        if len(names) <= _READ_AT_ONCE:
            return partitions_of(self._of_table("get_partitions", table, _ALL))
        found = []
        for batch in _batches(names, _READ_AT_ONCE):
            found += partitions_of(self._of_table("get_partitions_by_names", table, batch))
        return found

    def partition_values(self, table: HiveTable) -> set[tuple[str, ...]]:
        """Values of a table's partitions, without what else there is to them."""
        return set(self._partition_names(table))

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        """Add partitions to a table, or replace those that have the same values; some hundreds at a time."""
        there = self._partition_names(table)
        new = [thrift_partition(table, one) for one in partitions if one.values not in there]
        old = [thrift_partition(table, one) for one in partitions if one.values in there]
        with ThreadPoolExecutor(_ADDED_AT_ONCE, thread_name_prefix="hudi-metastore") as pool:
            for there_by_now in pool.map(self._add, _batches(new)):
                old += there_by_now
        for batch in _batches(old):
            self._of_table("alter_partitions_with_environment_context", table, batch, _context())

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        """Take partitions out of a table; their files stay."""
        names = self._partition_names(table)
        gone = [names[one] for one in dict.fromkeys(values) if one in names]
        for batch in _batches(gone):
            self._drop(table, batch)

    def close(self) -> None:
        """Close connections that are not in use."""
        self._connections.close()

    def _create(self, wanted: Any) -> None:
        try:
            self._call("create_table_with_environment_context", wanted, _context())
        except hms.NoSuchObjectException as error:
            told = f"create_table {wanted.dbName}.{wanted.tableName}"
            raise self._connections.refused(told, error) from error

    def _get(self, schema: str, name: str) -> Any:
        try:
            if not self._old_get_table:
                with contextlib.suppress(UnknownMethodError):
                    request = hms.GetTableRequest(dbName=schema, tblName=name)
                    return self._call("get_table_req", request).table
                self._old_get_table = True
            return self._call("get_table", schema, name)
        except hms.NoSuchObjectException:
            return None

    def _partition_names(self, table: HiveTable) -> dict[tuple[str, ...], str]:
        """Values of the partitions, with the names by which the metastore knows them."""
        names: list[str] = self._of_table("get_partition_names", table, _ALL)
        return {tuple(unescape_path_name(part.partition("=")[2]) for part in name.split("/")): name for name in names}

    def _add(self, batch: list[Any]) -> list[Any]:
        """Add partitions; gives those that are there already."""
        try:
            self._call("add_partitions", batch)
        except hms.AlreadyExistsException:
            return [one for one in batch if not self._added(one)]
        except hms.NoSuchObjectException as error:
            raise self._connections.refused("add_partitions", error) from error
        return []

    def _added(self, one: Any) -> bool:
        try:
            self._call("add_partitions", [one])
        except hms.AlreadyExistsException:
            return False
        return True

    def _drop(self, table: HiveTable, names: list[str]) -> None:
        request = hms.DropPartitionsRequest(
            dbName=table.schema.lower(),
            tblName=table.name.lower(),
            parts=hms.RequestPartsSpec(names=names),
            deleteData=False,
            ifExists=True,
            environmentContext=_context(),
            needResult=False,
        )
        with contextlib.suppress(hms.NoSuchObjectException):
            self._call("drop_partitions_req", request)

    def _of_table(self, method: str, table: HiveTable, *arguments: Any) -> Any:
        """Call a method that is about a table, which must be there."""
        try:
            return self._call(method, table.schema.lower(), table.name.lower(), *arguments)
        except (hms.NoSuchObjectException, hms.InvalidOperationException) as error:
            raise self._connections.refused(f"{method} {table.schema}.{table.name}", error) from error

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._connections.call(method, *arguments)


def _batches(items: Sequence[Any], size: int = _BATCH) -> list[list[Any]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _context() -> Any:
    return hms.EnvironmentContext(properties=dict(_NO_STATISTICS))
