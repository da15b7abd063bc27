"""Where the inserted rows of a spliced file go: among the rows of a row group that is encoded anyway, or to the end."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy
from table_writer.rows.merge import positions_after
from table_writer.surgery.locate import KeyRange

Rows = npt.NDArray[np.int64]

_OVERFULL = 1.5
_SMALL = 0.5


@dataclass(frozen=True, slots=True)
class InsertPlaces:
    """Where new rows go.

    Attributes:
        into: rows for row groups that are encoded anyway.
        appended: rows for new row groups at the end.
        folded: small row groups whose rows go there together with them.
    """

    appended: Rows
    into: Mapping[int, Rows] = field(default_factory=dict)
    folded: Sequence[int] = ()


def is_small(rows: int, full: int) -> bool:
    """Whether a row group of so many rows is small, where a full one has `full`."""
    return rows < _SMALL * full


def place_inserts(
    ranges: Sequence[KeyRange], keys: Any, inserted: Rows, *, encoded: Collection[int], full: int, most_small: int
) -> InsertPlaces:
    """Choose a place for each new row.

    Small row groups are taken along to the end where the rows that go there are at least half as many, as in a log-
    structured merge: a file that gets a few rows at a time has few small groups, and each row is moved a few times.

    Args:
        ranges: of the file's row groups.
        keys: record keys of the batch, in order.
        inserted: rows of it that are new.
        encoded: row groups all of whose columns are encoded anyway.
        full: rows of a full row group.
        most_small: small groups that the file may have.
    """
    if len(inserted) == 0:
        return InsertPlaces(inserted)
    into = _into(ranges, keys, inserted, encoded, full)
    placed = np.concatenate([inserted[:0], *into.values()])
    left = np.setdiff1d(inserted, placed)
    return InsertPlaces(left, into, _folded(ranges, len(left), into.keys(), full, most_small))


def in_order(ranges: Sequence[KeyRange]) -> bool:
    """Whether the keys of each row group come after those of the one before it."""
    if any(bounds.first is None or bounds.last is None for bounds in ranges):
        return False
    return all((left.last or "") < (right.first or "") for left, right in itertools.pairwise(ranges))


def _into(
    ranges: Sequence[KeyRange], keys: Any, inserted: Rows, encoded: Collection[int], full: int
) -> dict[int, Rows]:
    if not encoded or not in_order(ranges):
        return {}
    firsts = pa.array([bounds.first for bounds in ranges], pa.string())
    groups = np.maximum(positions_after(firsts, keys.take(from_numpy(inserted))) - 1, 0)
    found = {number: inserted[groups == number] for number in encoded}
    return {
        number: rows
        for number, rows in found.items()
        if len(rows) and ranges[number].rows + len(rows) <= _OVERFULL * max(full, ranges[number].rows)
    }


def _folded(
    ranges: Sequence[KeyRange], appended: int, placed: Collection[int], full: int, most_small: int
) -> list[int]:
    if appended == 0 or not is_small(appended, full):
        return []
    small = [number for number, bounds in enumerate(ranges) if is_small(bounds.rows, full) and number not in placed]
    small.sort(key=lambda number: ranges[number].rows)
    all_of_them = len(small) + 1 > most_small
    folded, rows = [], appended
    for number in small:
        if rows >= full or not (all_of_them or ranges[number].rows <= 2 * rows):
            break
        folded.append(number)
        rows += ranges[number].rows
    return sorted(folded)
