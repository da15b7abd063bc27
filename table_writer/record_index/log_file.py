"""The log file that one commit writes into one file group of the record index."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.hfile.writer import write_hfile
from table_format.log.writer import write_hfile_block, write_key_delete_block
from table_format.metadata_table import layout
from table_format.metadata_table.arrow import pc
from table_format.metadata_table.record_schema import SCHEMA_JSON
from table_format.record_index.entries import encode_locations
from table_format.record_index.key_order import sorted_order

_LOG = logging.getLogger(__name__)


def write_log_content(changes: pa.Table, instant: str, instant_ms: int, codec: str) -> tuple[bytes, int]:
    """A data block with the keys that are put, sorted, and a delete block with those that are gone.

    Of a key that is put and deleted the place counts, as in a move between partitions.

    Args:
        changes: of one file group, schema `CHANGES_SCHEMA`, at least one.
        instant: the write's.
        instant_ms: the same in milliseconds since the epoch.
        codec: of the HFile.

    Returns:
        The file's content, and the number of records in it, deleted ones included.
    """
    puts = _sorted_once(changes.filter(pc.invert(changes["deleted"])))
    gone: Any = pc.unique(one_chunk(changes.filter(changes["deleted"])["key"]))
    if len(gone) and puts.num_rows:
        gone = gone.filter(pc.invert(pc.is_in(gone, value_set=one_chunk(puts["key"]))))
    blocks: list[bytes] = []
    if puts.num_rows:
        found = encode_locations(puts, instant_ms)
        hfile = write_hfile(found.keys, found.values, schema_json=SCHEMA_JSON, codec=codec)
        blocks.append(write_hfile_block(instant, SCHEMA_JSON, hfile))
    if len(gone):
        keys = gone.cast(pa.binary())
        keys = keys.take(from_numpy(sorted_order(keys)))
        blocks.append(write_key_delete_block(instant, SCHEMA_JSON, keys, layout.RECORD_INDEX))
    return b"".join(blocks), puts.num_rows + len(gone)


def _sorted_once(puts: pa.Table) -> pa.Table:
    """By the bytes of the keys, each once; a key with two places keeps the last by partition and file id."""
    keys = one_chunk(puts["key"]).cast(pa.binary())
    order = from_numpy(sorted_order(keys))
    in_order = keys.take(order)
    if len(keys) < 2 or pc.all(pc.less(in_order[:-1], in_order[1:])).as_py():
        return puts.take(order)
    order = pc.sort_indices(
        puts.append_column("binary", keys), [(name, "ascending") for name in ("binary", "partition", "file_id")]
    )
    in_order = keys.take(order)
    last = np.append(to_numpy(pc.not_equal(in_order[:-1], in_order[1:])), True)
    places = puts.take(order).select(["partition", "file_id"])
    if places.filter(from_numpy(~last)).num_rows and _differ(in_order, places):
        _LOG.warning("a write put records of one key into several places; the record index can name only one of them")
    return puts.take(order.filter(from_numpy(last)))


def _differ(keys: Any, places: pa.Table) -> bool:
    """Whether two neighbours of one key have different places."""
    same_key = pc.equal(keys[:-1], keys[1:])
    columns: Sequence[Any] = [one_chunk(column) for column in places.columns]
    moved = pc.or_(*(pc.not_equal(column[:-1], column[1:]) for column in columns))
    return bool(pc.any(pc.and_(same_key, moved)).as_py())
