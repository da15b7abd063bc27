"""Trino's file metastore: a folder with a JSON file for each schema and table.

`<schema>/<table>/.trinoSchema` holds a table, `.<schema>.trinoSchema` a schema. Hadoop's file systems put checksums
beside them, which must be deleted before a file is replaced: a stale one makes the table unreadable.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hudi_catalog.metastore.metastore import (
    ColumnStatistics,
    HiveColumn,
    HivePartition,
    HiveTable,
    StorageFormat,
)
from table_format.errors import AlreadyExistsError, MetastoreError, MissingFileError, StorageError
from table_format.keys.partition_values import escape_path_name, unescape_path_name
from table_format.storage import Storage

_FILE: Final = ".trinoSchema"
_WRITER: Final = "476"
_TRIES: Final = 3


class FileMetastore:
    """The folder of a Trino catalog with `hive.metastore=file`.

    Args:
        uri: of the folder, `hive.metastore.catalog.dir`.
        storage_options: keyword arguments for the `pyarrow.fs` file system.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self._storage = Storage(uri, storage_options)

    keeps_statistics = False

    @property
    def uri(self) -> str:
        """The folder."""
        return self._storage.full_uri("")

    def schemas(self) -> list[str]:
        """Names of the schemas that have a file."""
        names = [entry.name for entry in self._listed("") if not entry.is_dir and entry.name.endswith(_FILE)]
        return sorted(name.removeprefix(".").removesuffix(_FILE) for name in names)

    def create_schema(self, name: str) -> bool:
        """Create a schema; False if it exists."""
        schema = _checked(name)
        path = f".{schema}{_FILE}"
        with _metastore_errors(self, f"schema {schema}"):
            if self._storage.exists(path):
                return False
            self._storage.make_dir(schema)
            self._replace(path, {"writerVersion": _WRITER, "parameters": {}})
        return True

    def schema_folders(self, name: str) -> list[str]:  # noqa: ARG002
        """Empty: Trino drops a schema of a file metastore only if its folder holds nothing else."""
        return []

    def tables(self, schema: str) -> list[str]:
        """Names of a schema's tables."""
        folders = [entry for entry in self._listed(_checked(schema)) if entry.is_dir]
        with _metastore_errors(self, f"schema {schema}"):
            return [folder.name for folder in folders if self._storage.exists(f"{folder.path}/{_FILE}")]

    def table(self, schema: str, name: str) -> HiveTable | None:
        """A table, or None if there is none of that name.

        Raises:
            MetastoreError: its file is corrupt or cannot be read.
        """
        folder, entry = _checked(schema), _checked(name)
        path = f"{folder}/{entry}/{_FILE}"
        try:
            text = self._storage.read(path)
        except MissingFileError:
            return None
        except StorageError as error:
            raise MetastoreError(f"{self.uri}: table {schema}.{name} cannot be read: {error}") from error
        try:
            return _from_json(folder, entry, _parsed(text, f"{self.uri}/{path}"))
        except (KeyError, TypeError, AttributeError) as error:
            raise MetastoreError(f"{self.uri}/{path}: not a table of Trino's file metastore: {error!r}") from error

    def put_table(self, table: HiveTable) -> None:
        """Create a table or replace its definition atomically, by a rename."""
        path = f"{_checked(table.schema)}/{_checked(table.name)}/{_FILE}"
        with _metastore_errors(self, f"table {table.schema}.{table.name}"):
            for left in reversed(range(_TRIES)):
                try:
                    self._replace(path, _to_json(table))
                except (MissingFileError, AlreadyExistsError):  # somebody drops the table, and its folder with it
                    if not left:
                        raise
                else:
                    return

    def drop_table(self, schema: str, name: str) -> bool:
        """Remove a table. Other files in its folder are kept: they may be a managed table's data."""
        folder = f"{_checked(schema)}/{_checked(name)}"
        with _metastore_errors(self, f"table {schema}.{name}"):
            existed = self._storage.exists(f"{folder}/{_FILE}")
            self._storage.delete(f"{folder}/{_FILE}")
        if self._storage.is_local:
            with contextlib.suppress(OSError):
                os.rmdir(self._storage.full_path(folder))
        return existed

    def partitions(self, table: HiveTable) -> list[HivePartition]:
        """A table's partitions.

        Raises:
            MetastoreError: a partition's file is corrupt or cannot be read.
        """
        partitions = []
        for values, path in self._partition_files(table):
            with _metastore_errors(self, path):
                value = _parsed(self._storage.read(path), f"{self.uri}/{path}")
            partitions.append(HivePartition(values, str(value.get("externalLocation") or "")))
        return partitions

    def partition_values(self, table: HiveTable) -> set[tuple[str, ...]]:
        """Values of a table's partitions."""
        return {values for values, _ in self._partition_files(table)}

    def _partition_files(self, table: HiveTable) -> Iterator[tuple[tuple[str, ...], str]]:
        """Values of each partition, and the path of its file."""
        top = f"{_checked(table.schema)}/{_checked(table.name)}"
        folders = [top]
        for column in table.partition_columns:
            inside = [entry for folder in folders for entry in self._listed(folder)]
            folders = [entry.path for entry in inside if entry.is_dir and entry.name.startswith(f"{column.name}=")]
        for folder in folders:
            path = f"{folder}/{_FILE}"
            with _metastore_errors(self, path):
                exists = self._storage.exists(path)
            if exists:
                names = folder.removeprefix(f"{top}/").split("/")
                yield tuple(unescape_path_name(name.partition("=")[2]) for name in names), path

    def put_partitions(self, table: HiveTable, partitions: Sequence[HivePartition]) -> None:
        """Add partitions to a table, or replace those with the same values."""
        with _metastore_errors(self, f"partitions of {table.schema}.{table.name}"):
            for partition in partitions:
                self._replace(self._partition_path(table, partition.values), _partition_json(table, partition))

    def drop_partitions(self, table: HiveTable, values: Sequence[tuple[str, ...]]) -> None:
        """Remove partitions from a table."""
        with _metastore_errors(self, f"partitions of {table.schema}.{table.name}"):
            for one in values:
                self._storage.delete(self._partition_path(table, one))

    def _partition_path(self, table: HiveTable, values: tuple[str, ...]) -> str:
        names = (
            f"{column.name}={escape_path_name(v)}" for column, v in zip(table.partition_columns, values, strict=True)
        )
        return "/".join((_checked(table.schema), _checked(table.name), *names, _FILE))

    def put_statistics(
        self, table: HiveTable, statistics: Mapping[tuple[str, ...], Sequence[ColumnStatistics]]
    ) -> None:
        """Refused: Trino's engine writes those of a file metastore.

        Raises:
            MetastoreError: always.
        """
        raise MetastoreError(f"{self.uri}: {table.schema}.{table.name}: {len(statistics)} statistics are not kept here")

    def close(self) -> None:
        """Does nothing: no connections are held."""

    def _listed(self, path: str) -> list[Any]:
        with _metastore_errors(self, path or "its folder"):
            return list(self._storage.list(path))

    def _replace(self, path: str, value: Mapping[str, Any]) -> None:
        folder, _, name = path.rpartition("/")
        self._storage.delete(f"{folder}/.{name}.crc" if folder else f".{name}.crc")
        self._storage.overwrite(path, json.dumps(value, ensure_ascii=False, indent=2).encode())


@contextlib.contextmanager
def _metastore_errors(metastore: FileMetastore, what: str) -> Any:
    try:
        yield
    except StorageError as error:
        raise MetastoreError(f"{metastore.uri}: {what}: {error}") from error


def _checked(name: str) -> str:
    """A name as a folder name, in lower case as Trino looks it up."""
    if not name or "/" in name or "\0" in name or name.startswith("."):
        raise MetastoreError(f"{name!r} cannot be the name of a schema or table in a file metastore")
    return name.lower()


def _to_json(table: HiveTable) -> dict[str, Any]:
    return {
        "writerVersion": _WRITER,
        "owner": table.owner,
        "tableType": table.table_type,
        "dataColumns": [_column(column) for column in table.columns],
        "partitionColumns": [_column(column) for column in table.partition_columns],
        "parameters": dict(table.parameters),
        **_storage_json(table.format, table.location),
    }


def _partition_json(table: HiveTable, partition: HivePartition) -> dict[str, Any]:
    columns = [_column(column) for column in table.columns]
    return {"columns": columns, "parameters": {}, **_storage_json(table.format, partition.location)}


def _storage_json(form: StorageFormat, location: str) -> dict[str, Any]:
    classes = {"serde": form.serde, "inputFormat": form.input_format, "outputFormat": form.output_format}
    return {
        "originalStorageFormat": classes,
        "serdeParameters": dict(form.serde_parameters),
        "externalLocation": location,
        "columnStatistics": {},
    }


def _parsed(text: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MetastoreError(f"{path}: not JSON of Trino's file metastore: {error}") from error
    if not isinstance(value, dict):
        raise MetastoreError(f"{path}: not a JSON object of Trino's file metastore")
    return value


def _column(column: HiveColumn) -> dict[str, Any]:
    comment = {} if column.comment is None else {"comment": column.comment}
    return {"name": column.name, "type": column.type, **comment, "properties": {}}


def _from_json(schema: str, name: str, value: Mapping[str, Any]) -> HiveTable:
    # Trino writes built-in formats by name: {"storageFormat": "PARQUET"}
    classes = value.get("originalStorageFormat") or {}
    return HiveTable(
        schema=schema,
        name=name,
        columns=_columns(value["dataColumns"]),
        location=value.get("externalLocation") or "",
        format=StorageFormat(
            classes.get("serde") or "",
            classes.get("inputFormat") or "",
            classes.get("outputFormat") or "",
            value.get("serdeParameters") or {},
        ),
        parameters=value.get("parameters") or {},
        partition_columns=_columns(value.get("partitionColumns") or []),
        table_type=value["tableType"],
        owner=value.get("owner") or "",
        view_text=value.get("viewOriginalText") or "",
    )


def _columns(values: list[Mapping[str, Any]]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(value["name"], value["type"], value.get("comment")) for value in values)
