"""Copies of file slices: one Parquet file with the rows that a query sees of the slice, for engines that merge none."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.snapshot.snapshot import Snapshot
from catalog.splits.slice_rows import SliceFiles, slice_batches
from table_format.base_file.options import BaseFileOptions
from table_format.errors import HudiError, StorageError

parquet: Any = pq  # the stubs lag behind the functions

_OPTIONS: Final = BaseFileOptions(block_size=32 << 20)
# Without it Hive takes dates before 1582-10-15 for days of the Julian calendar.
_TEXTS: Final = {"writer.date.proleptic": "true"}


def write_slice(snapshot: Snapshot, files: SliceFiles, path: str) -> int:
    """Write the rows of a slice, with the columns and types that the table has.

    No more than a row group is held at a time, unless the slice has log files: then all of it.

    Args:
        snapshot: of the table.
        files: of the slice.
        path: of the new file, in the table's folder.

    Returns:
        Bytes of the file.

    Raises:
        CorruptFileError: a file of the slice cannot be read.
        UnsupportedTableError: log files of a kind that is not read, or partition columns that nothing tells.
        StorageError: the file cannot be written.
    """
    schema = pa.schema([field.remove_metadata() for field in snapshot.schema])
    groups = _groups(snapshot, files, schema)
    first = next(groups, schema.empty_table())
    with _named(path), snapshot.client.storage.open_output(path) as stream:
        arguments = _OPTIONS.writer_arguments(first)
        with parquet.ParquetWriter(stream, schema, store_schema=False, **arguments) as writer:
            for group in itertools.chain([first], groups):
                if group.num_rows:
                    writer.write_table(group, row_group_size=group.num_rows)
            writer.add_key_value_metadata(_TEXTS)
        size: int = stream.tell()
    return size


def _groups(snapshot: Snapshot, files: SliceFiles, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in pieces of a row group's size."""
    held: list[pa.Table] = []
    for _, piece in slice_batches(snapshot, files, schema.names):
        held.append(piece.cast(schema))
        if sum(one.nbytes for one in held) >= _OPTIONS.block_size:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    try:
        yield
    except HudiError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error}") from error
