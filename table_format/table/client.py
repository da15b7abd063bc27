"""`TableClient`: one table's storage, properties, timeline and schema (Hudi's meta client)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.avro_schema import avro_to_arrow, without_meta_columns
from table_format.config.table_config import TableConfig, load_table_config
from table_format.errors import CorruptFileError, SchemaError, StorageError
from table_format.slices.file_slices import list_data_files, read_optimized_slices
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline, load_timeline
from table_format.timeline.undoing import without_undone

SCHEMA_KEY = "schema"


class TableClient:
    """A table's storage and properties; timeline and schema are read again at each call.

    Attributes:
        storage: rooted at the table's base folder.
        config: the properties, as of `open` or the last `reload`.
    """

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self.storage = storage
        self.config = config

    @classmethod
    def open(cls, location: str | os.PathLike[str] | Storage, options: Mapping[str, Any] | None = None) -> TableClient:
        """Open the table at a location.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedTableError: its version is not supported.
        """
        storage = location if isinstance(location, Storage) else Storage(location, options)
        return cls(storage, load_table_config(storage))

    def reload(self) -> TableConfig:
        """Read the properties again."""
        self.config = load_table_config(self.storage)
        return self.config

    def timeline(self, known: Timeline | None = None) -> Timeline:
        """Load the current timeline, without writes that a restore or rollback under way takes back.

        Where it has no instants, the properties are read again, since the table may be gone, or its timeline be in
        another folder after an upgrade.

        Args:
            known: loaded earlier; what it has read of completed instants is not read again.

        Raises:
            TableNotFoundError: the table is gone.
        """
        timeline = self._load_timeline()
        if not timeline.instants:
            now = load_table_config(self.storage)
            if now.timeline_folder != self.config.timeline_folder:
                self.config = now
                timeline = self._load_timeline()
        timeline = without_undone(timeline)
        return timeline if known is None else timeline.with_cache_of(known)

    def _load_timeline(self) -> Timeline:
        config = self.config
        return load_timeline(
            self.storage,
            config.timeline_folder,
            config.layout_version,
            timezone=config.timeline_timezone,
            history_folder=config.history_folder,
        )

    def table_schema(self, timeline: Timeline | None = None, as_of: str | None = None) -> pa.Schema:
        """The table's columns, without the meta columns.

        The Avro schema of the newest commit that has one (at or before `as_of`), else the one given at creation, else
        that of a data file. Partition columns that the table's files leave out, and its schemas with them, are at the
        end, as text (as Hudi's `TableSchemaResolver` has them).

        Raises:
            SchemaError: there is none, as in a table without commits that was created without a schema.
        """
        text = self.table_schema_json(timeline, as_of)
        stored = self._schema_of_file(timeline, as_of) if text is None else avro_to_arrow(text)
        return _with_left_out(without_meta_columns(stored), self.config)

    def _schema_of_file(self, timeline: Timeline | None, as_of: str | None) -> pa.Schema:
        timeline = timeline or self.timeline()
        files = read_optimized_slices(list_data_files(self.storage), timeline, as_of=as_of)
        if files.num_rows == 0:
            raise SchemaError(f"{self.storage.uri}: no commit, property or data file has the table's columns yet")
        path = files["path"][files.num_rows - 1].as_py()
        try:
            with self.storage.open_input(path) as stream:
                return pq.read_schema(stream).remove_metadata()
        except StorageError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise CorruptFileError(path, 0, f"not a Parquet file, or a damaged one: {error}") from error

    def table_schema_json(self, timeline: Timeline | None = None, as_of: str | None = None) -> str | None:
        """The Avro schema text behind `table_schema`, if the timeline or the properties have one."""
        timeline = timeline or self.timeline()
        for instant in reversed(timeline.writes):
            if as_of is None or instant.time <= as_of:
                text = timeline.extra_metadata(instant).get(SCHEMA_KEY)
                if text:
                    return text
        return self.config.create_schema


def _with_left_out(schema: pa.Schema, config: TableConfig) -> pa.Schema:
    """A schema with the partition columns that the table's files leave out and it does not name."""
    if not config.drop_partition_columns:
        return schema
    named = {name.lower() for name in schema.names}
    absent = [name for name in config.partition_fields if name.split(".")[0].lower() not in named]
    return pa.schema([*schema, *(pa.field(name, pa.string()) for name in absent)])
