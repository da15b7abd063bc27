"""The claim in a footer that rows are in the order of their record keys: Parquet's `sorting_columns` of a row group.

It is made of rows that were compared, never of rows that should be in order: readers that believe it would lose pairs
of a join.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.arrow_numpy import one_chunk
from table_format.keys.key_order import is_sorted
from table_format.meta_columns import RECORD_KEY


def is_in_key_order(rows: pa.Table) -> bool:
    """Whether rows ascend by the bytes of their record keys, none of which is null; equal keys are allowed."""
    if RECORD_KEY not in rows.column_names:
        return False
    keys: Any = one_chunk(rows.column(RECORD_KEY))
    return pa.types.is_string(keys.type) and not keys.null_count and is_sorted(keys)


class WrittenOrder:
    """The order of the rows of a file that come part by part.

    Attributes:
        claimed: the Parquet writer was told that rows are in key order.
        broken: a part was not, or began before the end of the one before it.
    """

    def __init__(self) -> None:
        self.claimed = False
        self.broken = False
        self._last: Any = None

    def add(self, rows: pa.Table) -> None:
        """Look at the next rows."""
        if self.broken or not len(rows):
            return
        if not is_in_key_order(rows):
            self.broken = True
            return
        keys: Any = rows.column(RECORD_KEY)
        self.broken = self._last is not None and keys[0].as_py().encode() < self._last
        self._last = keys[-1].as_py().encode()

    def sorting_columns(self, schema: pa.Schema) -> list[pq.SortingColumn] | None:
        """What the Parquet writer is told, once the first rows were added; None if they are not in order."""
        at = schema.get_field_index(RECORD_KEY)
        # Parquet counts leaves
        if self.broken or self._last is None or any(pa.types.is_nested(kind) for kind in schema.types[:at]):
            return None
        self.claimed = True
        return [pq.SortingColumn(at)]
