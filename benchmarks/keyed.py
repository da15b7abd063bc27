"""A table of many narrow rows with random UUIDs as record keys, written without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.actions.commit import WriteStat
from table_format.codecs.arrow_numpy import fixed_rows, from_numpy
from table_format.codecs.avro_schema import schema_text
from table_format.config.properties import ensure_partition_metadata
from table_format.slices.file_names import BaseFileName, new_file_id
from table_format.storage import Storage
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.encoding.base_file import write_base_file
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.timeline.markers import create_marker

NAME = "keyed"
ROWS_PER_FILE = 1_000_000
SHARE = 0.01  # of the keys are looked up
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
PROPERTIES = {
    "hoodie.table.name": NAME,
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.precombine.field": "v",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.timeline.timezone": "UTC",
}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_GROUPS = (8, 4, 4, 4, 12)


def keys_of_file(number: int, count: int) -> pa.Array[Any]:
    """Random UUIDs of version 4 in sorted order; the same ones each time."""
    random = np.random.default_rng(number)
    high = np.sort(random.integers(0, 1 << 64, count, np.uint64) & ~np.uint64(0xF000) | np.uint64(0x4000))
    low = random.integers(0, 1 << 64, count, np.uint64) >> np.uint64(2) | np.uint64(1 << 63)
    octets = np.stack([high, low], axis=1).astype(">u8").view(np.uint8).reshape(count, 16)
    digits = np.empty((count, 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[octets >> 4], _HEX[octets & 15]
    texts = np.full((count, 36), ord("-"), np.uint8)
    read = written = 0
    for size in _GROUPS:
        texts[:, written : written + size] = digits[:, read : read + size]
        read, written = read + size, written + size + 1
    keys: pa.Array[Any] = fixed_rows(texts).cast(pa.string())
    return keys


def build(path: Path, rows: int) -> Path:
    """Write the table where it is not there yet, without a record index; its folder."""
    if path.exists():
        return path
    options = {"hoodie.metadata.index.column.stats.enable": "false"}
    client = create_table(Storage(str(path)), PROPERTIES, options)
    counts = [min(ROWS_PER_FILE, rows - start) for start in range(0, rows, ROWS_PER_FILE)]
    with WriteTransaction.begin(client, "commit", "BULK_INSERT", options) as transaction:
        transaction.mark_inflight()
        ensure_partition_metadata(transaction.storage, "", transaction.instant)
        with ThreadPoolExecutor(2) as pool:
            stats = list(pool.map(lambda item: _write(transaction, *item), enumerate(counts)))
        transaction.commit(stats, schema_json=schema_text(SCHEMA, NAME))
    return path


def _write(transaction: WriteTransaction, number: int, count: int) -> WriteStat:
    keys = keys_of_file(number, count)
    name = str(BaseFileName(new_file_id(), f"{number}-0-0", transaction.instant))
    create_marker(transaction.storage, transaction.instant, "", name, "CREATE")
    table = add_meta_columns(
        pa.table([keys, from_numpy(np.arange(count))], schema=SCHEMA),
        instant=transaction.instant,
        task=number,
        keys=keys,
        partition="",
        file_name=name,
    )
    # what random texts do not gain by is left out
    options = {"hoodie.parquet.bloom.filter.enabled": "false", "hoodie.parquet.dictionary.enabled": "false"}
    schema = schema_text(SCHEMA, NAME, meta_fields=True)
    result = write_base_file(transaction.storage, name, table, schema, options)
    return WriteStat(
        file_id=name.split("_", 1)[0],
        path=name,
        partition_path="",
        num_writes=count,
        num_inserts=count,
        total_write_bytes=result.size,
        file_size_in_bytes=result.size,
    )


def wanted(path: Path, rows: int) -> Path:
    """A Parquet file with a share of the table's keys, drawn at random, in random order."""
    if not path.exists():
        chosen = []
        for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
            count = min(ROWS_PER_FILE, rows - start)
            places = np.random.default_rng((1, number)).permutation(count)[: int(count * SHARE)]
            chosen.append(keys_of_file(number, count).take(from_numpy(places)))
        keys: Any = pa.concat_arrays(chosen)
        order = np.random.default_rng(2).permutation(len(keys))
        columns = [keys.take(from_numpy(order)), pa.repeat(0, len(keys))]
        pq.write_table(pa.table(columns, schema=SCHEMA), path)
    return path
