"""Look-ups in the record index: in which file group each record key lies (RFC-8, record level index)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from table_format.config.table_config import TableConfig
from table_format.metadata_table.arrow import Column, schema_of
from table_format.metadata_table.layout import RECORD_INDEX
from table_format.metadata_table.sources import PartitionSources, Piece, newest_versions
from table_format.record_index.index import locate
from table_format.record_index.layout import LAYOUT_KEY, IndexLayout

LOCATIONS_SCHEMA = schema_of(key=pa.string(), partition=pa.string(), file_id=pa.string())


def is_private(config: TableConfig) -> bool:
    """Whether a table has, or had, a record index that the metadata table does not list; see `IndexLayout.of`."""
    return RECORD_INDEX not in config.metadata_partitions and bool(config.raw.get(LAYOUT_KEY, "").strip())


def record_locations(sources: PartitionSources, keys: Column, layout: IndexLayout | None = None) -> pa.Table:
    """Where records lie.

    Only shards, and only blocks of their base files, that can hold one of the keys are read.

    Args:
        sources: of the record index.
        keys: record keys as the table's key generator makes them; nulls are passed over.
        layout: of the index; None for that which the names of its file groups tell.

    Returns:
        Schema `LOCATIONS_SCHEMA`; a key that the index does not know has no row. In a partitioned record index, where
        a key stands once for each partition of the data table, there may be several.

    Raises:
        CorruptFileError: the index is damaged.
    """
    layout = layout or IndexLayout.of_groups(sources.groups)
    return locate(sources, layout, keys).select(LOCATIONS_SCHEMA.names)


def count_keys(sources: PartitionSources, most: int) -> int | None:
    """How many keys the index has: each counts once, however often it was written, and deleted ones do not.

    In a partitioned record index, a key counts once for each partition of the data table that has it.

    Args:
        sources: of the record index.
        most: entries that are looked through for it; None is returned for an index with more in its base files.
    """
    opened = sources.open()
    entries = sum(source.reader.entry_count for shard in opened.shards for source in shard if source.reader)
    return sum(_live(pieces) for pieces in opened.everything() if pieces) if entries <= most else None


def _live(pieces: list[Piece]) -> int:
    keys = pa.chunked_array([piece.keys() for piece in pieces], pa.binary())
    gone = np.concatenate([np.full(len(piece.keys()), piece.schema is None) for piece in pieces])
    return len(newest_versions(keys, gone).newest())
