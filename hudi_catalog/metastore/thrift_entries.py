"""Entries of a Hive Metastore as its Thrift structs, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hudi_catalog.metastore.locations import normal_uri
from hudi_catalog.metastore.metastore import HiveColumn, HivePartition, HiveTable, StorageFormat
from hudi_catalog.metastore.thrift_connections import hms


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
