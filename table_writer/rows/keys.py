"""Rows with their record key, partition path and bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import from_numpy
from table_format.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index_entries import refuse_long_keys
from table_format.schema.evolution import conform
from table_writer.plan.plan import BUCKET_COLUMN, KeyPlan

pc: Any = compute  # the stubs lag behind the functions


def keyed_rows(plan: KeyPlan, table: pa.Table, payload: Iterable[str]) -> pa.Table:
    """Rows with their record key, partition path (if the table is partitioned) and bucket behind the payload columns.

    Without buckets (`plan.buckets` is 0) there is no bucket column.

    Raises:
        RecordError: a row without a key, or with one that is too long for the record index.
        SchemaError: a key or partition column is missing.
    """
    generator = plan.generator
    keys = generator.record_keys(table)
    if plan.indexed:
        refuse_long_keys(keys)
    result = table.select(list(payload))
    result = result.append_column(RECORD_KEY, keys)
    if plan.spec.is_partitioned:
        result = result.append_column(PARTITION_PATH, pc.dictionary_encode(generator.partition_paths(table)))
    if not plan.buckets:
        return result
    buckets = generator.bucket_ids(table, plan.buckets, plan.hash_fields, keys)
    return result.append_column(BUCKET_COLUMN, from_numpy(buckets.astype(np.int32)))


def user_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Rows in the table's types, without meta columns, each column in one piece."""
    table = pa.Table.from_batches(list(batches))
    table = table.drop_columns([name for name in META_COLUMNS if name in table.column_names])
    return conform(table, schema).combine_chunks()


def flushes(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches with rows, as many at a time as some bytes hold."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            size += batch.nbytes
        if size >= most:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending
