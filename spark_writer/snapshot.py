"""A table's current rows as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema

from spark_writer.session import use_this_interpreter
from spark_writer.worker_errors import Batches, Worker, in_worker
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.codecs.avro_schema_tree import columns_of_hudi_types
from table_format.meta_columns import META_FIELDS
from table_format.metadata_table.reader import MetadataTable
from table_format.schema.evolution import storage_schema
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import SCHEMA_KEY, TableClient
from table_format.table.schema_history import SchemaHistory, internal_schemas, read_columns
from table_format.timeline.timeline import Timeline

_ROWS = 10_000


def snapshot(session: SparkSession, client: TableClient) -> DataFrame:
    """The rows of the latest file slices, read by Spark's own Parquet reader.

    Where a column was widened (int to long, say), older files hold the narrower type, which Spark's reader does not
    take in all supported versions; where columns were renamed or dropped, they have other names: then workers read the
    files by pyarrow. So they do where a column is of a type that only Hudi knows. The DataFrame has the table's name as
    its alias, by which a write of rows made from it knows where they come from.
    """
    return _rows(session, client).alias(client.config.name)


def _rows(session: SparkSession, client: TableClient) -> DataFrame:
    timeline = client.timeline()
    columns = storage_schema(client.table_schema(timeline))
    schema = pa.schema([*META_FIELDS, *columns]).remove_metadata()
    metadata = MetadataTable.open(client, timeline)
    files = list_data_files(client.storage) if metadata is None else metadata.files()
    latest = latest_base_files(files, timeline)
    paths: list[Any] = latest["path"].to_pylist()
    kind = _spark_schema(schema)
    if not paths:
        return session.createDataFrame([], kind)
    history = internal_schemas(timeline)
    if history is not None:
        instants: list[Any] = latest["instant"].unique().to_pylist()
        history = history.pinned(history.current, instants)
    by_workers = history is not None or columns_of_hudi_types(client.table_schema_json(timeline))
    if by_workers or _widened(timeline, columns):
        listed = session.createDataFrame([(path,) for path in paths], "path string")
        use_this_interpreter(session)
        tasks = listed.repartition(min(len(paths), 200), "path")
        return tasks.mapInArrow(_reader(client.storage, schema, history), kind)
    # Hudi's dates and timestamps are of the calendar in use today, whatever release wrote them.
    reader = session.read.schema(kind).option("datetimeRebaseMode", "CORRECTED")
    return reader.parquet(*map(client.storage.full_uri, paths))


def _spark_schema(schema: pa.Schema) -> spark.StructType:
    result: spark.StructType = from_arrow_schema(schema)
    return result


def _widened(timeline: Timeline, columns: pa.Schema) -> bool:
    """Whether some commit wrote a column under another type than the table has now."""
    texts = {timeline.extra_metadata(instant).get(SCHEMA_KEY) for instant in timeline.writes}
    for text in texts - {None, ""}:
        for field in storage_schema(avro_to_arrow(text or "")):
            position = columns.get_field_index(field.name)
            if position >= 0 and columns.field(position).type != field.type:
                return True
    return False


def _reader(storage: Storage, schema: pa.Schema, history: SchemaHistory | None) -> Worker:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            paths: list[Any] = batch.column("path").to_pylist()
            for path in paths:
                yield from read_columns(storage, path, schema, history).to_batches(max_chunksize=_ROWS)

    return in_worker(run, lazy=True)
