"""The columns in which locations of records are handed about, and which keys can have one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import to_numpy
from table_format.errors import RecordError
from table_format.hfile.writer import LONGEST_KEY

pc: Any = compute  # the stubs lag behind the functions

_SHOWN: Final = 40

_LOCATIONS: dict[str, pa.DataType] = {
    "key": pa.string(),
    "partition": pa.string(),
    "file_id": pa.string(),
    "instant_ms": pa.int64(),
    "position": pa.int64(),
}
LOCATIONS_SCHEMA = pa.schema(_LOCATIONS)
"""A location: record key, partition path, file id, the instant that put the record there (epoch milliseconds of the
instant in the writer's zone, as the index stores it), and the record's row in the base file where the index says so."""

_CHANGES: dict[str, pa.DataType] = {
    "key": pa.string(),
    "partition": pa.string(),
    "file_id": pa.string(),
    "deleted": pa.bool_(),
}
CHANGES_SCHEMA = pa.schema(_CHANGES)
"""What a write does to the index: keys with their new place, or deleted keys (file id null; the partition matters in a
partition-scoped index only). Where one write does both to a key, as in a move between partitions, the place counts."""


def refuse_long_keys(keys: Any, path: str = "") -> None:
    """Refuse record keys that no record index can hold.

    Args:
        keys: a string array.
        path: of the file that has them; none where they are still to be written.

    Raises:
        RecordError: one of them is too long.
    """
    lengths = pc.fill_null(pc.binary_length(keys), 0)
    if len(keys) == 0 or pc.max(lengths).as_py() <= LONGEST_KEY:
        return
    sizes = to_numpy(lengths)
    longer = np.flatnonzero(sizes > LONGEST_KEY)
    start = keys[int(longer[0])].as_py()[:_SHOWN]
    where = f"{path}: " if path else ""
    raise RecordError(
        f"{where}{len(longer)} row(s) have a record key that is too long for the record index, which takes "
        f"{LONGEST_KEY} bytes; the first has {sizes[longer[0]]} and begins with {start!r}. Make the key of fewer or "
        "shorter fields, such as a hash of a long one, or leave these rows out; a table with buckets needs no record "
        "index"
    )
