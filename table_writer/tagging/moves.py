"""Records that move to another partition, with ordering values: an older version must not move a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy
from table_writer.rows.ordering import not_older, ordering_columns
from table_writer.tagging.current_rows import CurrentRows

Mask = npt.NDArray[np.bool_]


def lost_moves(current: CurrentRows, keys: Any, groups: Any, ordering: Mapping[int, Any]) -> Mask:
    """Which of some new versions are older than the table's, so that nothing may come of them.

    Only key and ordering columns of the files that have such records are read, one file at a time.

    Args:
        current: which reads the ordering fields.
        keys: record keys, unique.
        groups: the file group that has each of them by the index, see `group_keys`.
        ordering: ordering values of the new versions, see `ordering_columns`, by the place of their field among
            those that are read; those of fields that the batch lacks are null.

    Raises:
        RecordIndexError: see `CurrentRows.read`.
    """
    lost = np.zeros(len(keys), np.bool_)
    for positions, old in current.read(keys, groups):
        present = ordering_columns(old, current.fields)
        coming = [
            ordering[place].take(from_numpy(positions)) if place in ordering else pa.nulls(len(positions), column.type)
            for place, column in enumerate(present)
        ]
        lost[positions] = ~not_older(coming, present, len(positions))
    return lost
