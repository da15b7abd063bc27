"""A Hive Metastore over Thrift, releases 2.3 to 4.0."""

from __future__ import annotations

import contextlib
import decimal
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from hudi_catalog.metastore.entries import check_same_table
from hudi_catalog.metastore.locations import normal_uri
from hudi_catalog.metastore.metastore import (
    ColumnStatistics,
    HiveColumn,
    HivePartition,
    HiveTable,
    StorageFormat,
)
from hudi_catalog.metastore.metastore_options import MetastoreOptions
from hudi_catalog.metastore.thrift_connections import Connections, UnknownMethodError, connector, hms
from table_format.errors import MetastoreError
from table_format.keys.partition_values import unescape_path_name


def table_of(table: Any) -> HiveTable:
    """A table from its Thrift struct."""
    storage = table.sd or hms.StorageDescriptor()
    return HiveTable(
        schema=table.dbName,
        name=table.tableName,
        columns=_columns(storage.cols),
        location=_spelled(storage.location or ""),
        format=_format(storage),
        parameters=table.parameters or {},
        partition_columns=_columns(table.partitionKeys),
        table_type=table.tableType or "",
        owner=table.owner or "",
        view_text=table.viewOriginalText or "",
    )


def partitions_of(partitions: Sequence[Any]) -> list[HivePartition]:
    """Partitions from their Thrift structs; equal columns become one object."""
    known: dict[tuple[Any, ...], tuple[HiveColumn, ...]] = {}
    result = []
    for one in partitions:
        storage = one.sd or hms.StorageDescriptor()
        key = tuple((field.name, field.type, field.comment) for field in storage.cols or ())
        if key not in known:
            known[key] = _columns(storage.cols)
        result.append(HivePartition(tuple(one.values), _spelled(storage.location or ""), known[key], _format(storage)))
    return result


def thrift_table(table: HiveTable, existing: Any) -> Any:
    """The Thrift struct of a table; fields not in `table` are those of the existing struct, or Hive's defaults."""
    result = existing if existing is not None else hms.Table(createTime=0, lastAccessTime=0, retention=0)
    result.dbName, result.tableName = table.schema.lower(), table.name.lower()
    result.tableType, result.owner = table.table_type, table.owner
    result.parameters = dict(table.parameters)
    result.partitionKeys = _fields(table.partition_columns)
    result.sd = _storage(table, table.location)
    return result


def thrift_partition(table: HiveTable, partition: HivePartition) -> Any:
    """The Thrift struct of a partition, with the columns and format of its table."""
    return hms.Partition(
        values=list(partition.values),
        dbName=table.schema.lower(),
        tableName=table.name.lower(),
        createTime=0,
        lastAccessTime=0,
        sd=_storage(table, partition.location),
        parameters={},
    )


def thrift_statistics(table: HiveTable, partition: str | None, columns: Sequence[ColumnStatistics]) -> Any:
    """The Thrift struct of statistics of columns.

    Args:
        table: their entry.
        partition: the metastore's name of the partition that they are of; None for the table.
        columns: at most one for each column.
    """
    described = hms.ColumnStatisticsDesc(
        isTblLevel=partition is None,
        dbName=table.schema.lower(),
        tableName=table.name.lower(),
        partName=partition,
        lastAnalyzed=int(time.time()),
    )
    objects = [hms.ColumnStatisticsObj(colName=c.column, colType=c.type, statsData=_statistics(c)) for c in columns]
    return hms.ColumnStatistics(statsDesc=described, statsObj=objects, engine=_OPTIMISER)


def _statistics(column: ColumnStatistics) -> Any:
    base = column.type.partition("(")[0]
    known: dict[str, Any] = {"numNulls": column.nulls, "numDVs": column.distinct}
    if column.length is not None:
        texts = hms.StringColumnStatsData(maxColLen=math.ceil(column.length), avgColLen=column.length, **known)
        return hms.ColumnStatisticsData(stringStats=texts)
    bounds = {"lowValue": column.low, "highValue": column.high}
    if base == "decimal":
        bounds = {name: _decimal(value) for name, value in bounds.items()}
        return hms.ColumnStatisticsData(decimalStats=hms.DecimalColumnStatsData(**bounds, **known))
    if base == "date":
        bounds = {name: hms.Date(daysSinceEpoch=value) for name, value in bounds.items()}
        return hms.ColumnStatisticsData(dateStats=hms.DateColumnStatsData(**bounds, **known))
    if base in {"float", "double"}:
        return hms.ColumnStatisticsData(doubleStats=hms.DoubleColumnStatsData(**bounds, **known))
    return hms.ColumnStatisticsData(longStats=hms.LongColumnStatsData(**bounds, **known))


def _decimal(value: Any) -> Any:
    """Java's form: an unscaled number in big-endian bytes, and its scale."""
    exact = decimal.Decimal(value)
    scale = max(-int(exact.as_tuple().exponent), 0)
    unscaled = int(exact.scaleb(scale, decimal.Context(prec=_MOST_DIGITS)))
    return hms.Decimal(unscaled=unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True), scale=scale)


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

# only additions run concurrently; changes and deletions would wait for each other's locks
_ADDED_AT_ONCE: Final = 4
_READ_AT_ONCE: Final = 1000
_ALL: Final = -1
_MEASURED_AT_ONCE: Final = 50
_OPTIMISER: Final = "hive"
_MOST_DIGITS: Final = 80
_ACCURATE: Final = "COLUMN_STATS_ACCURATE"
_NO_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}


class ThriftMetastore:
    """A Hive Metastore; threads share a pool of connections.

    Args:
        addresses: hosts and ports of servers of one metastore.
        options: of the connections.

    Raises:
        OptionError: a certificate cannot be read, or a library for the authentication is missing.
    """

    keeps_statistics = True

    def __init__(self, addresses: Sequence[tuple[str, int]], options: MetastoreOptions | None = None) -> None:
        self._connections = Connections(addresses, connector(options or MetastoreOptions()))
        self._old_get_table = False

    @property
    def uri(self) -> str:
        """The addresses."""
        return self._connections.uri

    def schemas(self) -> list[str]:
        """Names of the databases."""
        return sorted(self._call("get_all_databases"))

    def create_schema(self, name: str) -> bool:
        """Create a database in the metastore's default location; False if it exists."""
        if name.lower() in self.schemas():
            return False
        try:
            self._call("create_database", hms.Database(name=name.lower(), parameters={}))
        except hms.AlreadyExistsException:
            return False
        except MetastoreError:
            # of several concurrent creators, all but one get a key violation of the metastore's database
            if name.lower() in self.schemas():
                return False
            raise
        return True

    def schema_folders(self, name: str) -> list[str]:
        """URIs of the folders that are deleted with a database; empty if unknown."""
        try:
            database = self._call("get_database", name.lower())
        except (hms.NoSuchObjectException, MetastoreError):
            return []
        return [uri for uri in (database.locationUri, database.managedLocationUri) if uri]

    def tables(self, schema: str) -> list[str]:
        """Names of a database's tables; empty if there is no such database."""
        try:
            return sorted(self._call("get_all_tables", schema.lower()))
        except hms.NoSuchObjectException:
            return []

    def table(self, schema: str, name: str) -> HiveTable | None:
        """A table, or None if there is none of that name."""
        existing = self._get(schema.lower(), name.lower())
        return None if existing is None else table_of(existing)

    def put_table(self, table: HiveTable) -> None:
        """Create a table or replace its definition.

        A metastore refuses some changes of column types, of the columns' order and of partition columns, to protect
        Hive's own tables; the entry is then dropped and recreated without partitions, and is missing for a moment.
        Partitions that a table keeps have columns of their own: put them again.
        """
        schema, name = table.schema.lower(), table.name.lower()
        existing = self._get(schema, name)
        if existing is None:
            existing = self._created_by_another(table)
            if existing is None:
                return
        same_keys = table_of(existing).partition_columns == table.partition_columns
        wanted = thrift_table(table, existing)
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

    def _created_by_another(self, table: HiveTable) -> Any:
        """Create a table; what is there instead if it was created concurrently, or by a first attempt after all.

        Raises:
            MetastoreError: somebody has just given the name to another table, or has dropped what was there.
        """
        schema, name = table.schema.lower(), table.name.lower()
        try:
            self._create(thrift_table(table, None))
        except (hms.AlreadyExistsException, MetastoreError) as error:
            # of several concurrent creators, all but one may get a key violation of the metastore's database
            existing = self._get(schema, name)
            if existing is None:
                if isinstance(error, MetastoreError):
                    raise
                raise self._connections.refused(f"create_table {schema}.{name}", error) from error
            check_same_table(table, table_of(existing), self.uri)
            return existing
        return None

    def drop_table(self, schema: str, name: str) -> bool:
        """Remove a table; its files are kept. False if there was none."""
        try:
            self._call("drop_table_with_environment_context", schema.lower(), name.lower(), False, _context())
        except hms.NoSuchObjectException:
            return False
        return True

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        """A table's partitions, read in batches, since each carries all of its columns."""
        names = [*self._partition_names(table).values()]
        if len(names) <= _READ_AT_ONCE:
            return partitions_of(self._of_table("get_partitions", table, _ALL))
        partitions = []
        for batch in _batches(names, _READ_AT_ONCE):
            partitions += partitions_of(self._of_table("get_partitions_by_names", table, batch))
        return partitions

    def partition_values(self, table: HiveTable) -> set[tuple[str, ...]]:
        """Values of a table's partitions only."""
        return set(self._partition_names(table))

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        """Add partitions to a table in batches, or replace those with the same values."""
        existing = self._partition_names(table)
        new = [thrift_partition(table, one) for one in partitions if one.values not in existing]
        old = [thrift_partition(table, one) for one in partitions if one.values in existing]
        with ThreadPoolExecutor(_ADDED_AT_ONCE, thread_name_prefix="hudi-metastore") as pool:
            for already_there in pool.map(self._add, _batches(new)):
                old += already_there
        for batch in _batches(old):
            self._of_table("alter_partitions_with_environment_context", table, batch, _context())

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        """Remove partitions from a table; their files are kept."""
        names = self._partition_names(table)
        dropped = [names[one] for one in dict.fromkeys(values) if one in names]
        for batch in _batches(dropped):
            self._drop(table, batch)

    def put_statistics(
        self, table: HiveTable, statistics: Mapping[tuple[str, ...], Sequence[ColumnStatistics]]
    ) -> None:
        """Record statistics of columns of a table or of its partitions, as Hive's ANALYZE does, but as inaccurate.

        The metastore marks what it is given as accurate, by which Hive 2 answers `min` and `max` long after later
        commits, and reduces filters: the mark is removed at once.
        """
        whole = statistics.get(())
        if whole:
            self._set_statistics(table, [thrift_statistics(table, None, whole)])
            self._unmark(table)
        names = self._partition_names(table) if statistics.keys() - {()} else {}
        known = [(names[values], columns) for values, columns in statistics.items() if values in names and columns]
        for batch in _batches(known, _MEASURED_AT_ONCE):
            self._set_statistics(table, [thrift_statistics(table, name, columns) for name, columns in batch])
            self._unmark_partitions(table, [name for name, _ in batch])

    def _set_statistics(self, table: HiveTable, statistics: list[Any]) -> None:
        request = hms.SetPartitionsStatsRequest(colStats=statistics, needMerge=False, engine=_OPTIMISER)
        try:
            self._call("set_aggr_stats_for", request)
        except hms.NoSuchObjectException as error:
            raise self._connections.refused(f"set_aggr_stats_for {table.schema}.{table.name}", error) from error

    def _unmark(self, table: HiveTable) -> None:
        existing = self._get(table.schema.lower(), table.name.lower())
        if existing is not None and (existing.parameters or {}).pop(_ACCURATE, None):
            self._of_table("alter_table_with_environment_context", table, existing, _context())

    def _unmark_partitions(self, table: HiveTable, names: list[str]) -> None:
        marked = [
            one
            for one in self._of_table("get_partitions_by_names", table, names)
            if (one.parameters or {}).pop(_ACCURATE, None)
        ]
        if marked:
            self._of_table("alter_partitions_with_environment_context", table, marked, _context())

    def close(self) -> None:
        """Close idle connections."""
        self._connections.close()

    def _create(self, wanted: Any) -> None:
        try:
            self._call("create_table_with_environment_context", wanted, _context())
        except hms.NoSuchObjectException as error:
            what = f"create_table {wanted.dbName}.{wanted.tableName}"
            raise self._connections.refused(what, error) from error

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
        """Values of the partitions with the metastore's names for them."""
        names: list[str] = self._of_table("get_partition_names", table, _ALL)
        return {tuple(unescape_path_name(part.partition("=")[2]) for part in name.split("/")): name for name in names}

    def _add(self, batch: list[Any]) -> list[Any]:
        """Add partitions; returns those that exist already."""
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
        """Call a method about a table that must exist."""
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
