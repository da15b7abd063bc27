"""Locating record keys in a file: the row groups that may hold them, by its footer, before rows are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.footer import BaseFileFooter
from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import CorruptFileError
from table_format.meta_columns import RECORD_KEY
from table_writer.rows.merge import positions_after

Mask = npt.NDArray[np.bool_]

# Looking a key up in the bloom filter costs about as much as reading ten keys of the file.
_ROWS_PER_BLOOM_PROBE = 10
# With more keys than one in a thousand rows, hardly a row group has no key in the range of a page.
_ROWS_PER_PAGE_PROBE = 1000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The record keys of a row group.

    Attributes:
        rows: of the group.
        first: a lower bound of its keys, by bytes; None if it is unknown.
        last: an upper bound of its keys.
    """

    rows: int
    first: str | None
    last: str | None


def key_ranges(metadata: pq.FileMetaData) -> list[KeyRange]:
    """The keys of each row group by its statistics, which may be truncated bounds."""
    ranges = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        ranges.append(KeyRange(group.num_rows, *_bounds(group)))
    return ranges


def candidate_groups(
    footer: BaseFileFooter,
    ranges: Sequence[KeyRange],
    keys: Any,
    pages: Callable[[int], Sequence[KeyRange] | None] | None = None,
) -> list[int]:
    """Numbers of the row groups that may hold one of some keys.

    For few keys the file's bloom filter is probed, and the page indexes of row groups.

    Args:
        footer: of the file.
        ranges: see `key_ranges`.
        keys: record keys in their order by bytes, a string array without nulls.
        pages: returns the keys of each page of a row group; None if some are unknown.
    """
    if len(keys) == 0:
        return []
    candidates = _in_ranges(ranges, keys)
    rows = sum(ranges[number].rows for number in candidates)
    if len(keys) * _ROWS_PER_BLOOM_PROBE >= rows:
        return candidates
    known = _may_be_known(footer, keys)
    if known is not None and not known.all():
        keys = keys.take(from_numpy(np.flatnonzero(known)))
        candidates = _in_ranges(ranges, keys)
    if pages is None or len(keys) * _ROWS_PER_PAGE_PROBE >= rows:
        return candidates
    return [number for number in candidates if _may_hold(pages(number), keys)]


def _in_ranges(ranges: Sequence[KeyRange], keys: Any) -> list[int]:
    """Row groups in whose range one of the keys lies."""
    bounded = [number for number, bounds in enumerate(ranges) if bounds.first is not None and bounds.last is not None]
    firsts = pa.array([ranges[number].first for number in bounded], pa.string())
    lasts = pa.array([ranges[number].last for number in bounded], pa.string())
    up_to_last = positions_after(keys, lasts)
    # keys before the first: those at or before it, without one that equals it
    up_to_first = positions_after(keys, firsts)
    at_first = _equal_before(keys, firsts, up_to_first)
    inside = (up_to_last > up_to_first) | at_first
    unbounded = set(range(len(ranges))) - set(bounded) if len(keys) else set()
    return sorted(unbounded | {number for number, is_inside in zip(bounded, inside, strict=True) if is_inside})


def _may_hold(pages: Sequence[KeyRange] | None, keys: Any) -> bool:
    return pages is None or bool(_in_ranges(pages, keys))


def _equal_before(keys: Any, texts: Any, ends: npt.NDArray[np.int64]) -> Mask:
    """Where the last key at or before a text is the text itself."""
    if len(keys) == 0:
        return np.zeros(len(texts), np.bool_)
    probe = keys.take(from_numpy(np.maximum(ends - 1, 0)))
    return np.array(
        [bool(end) and left == right for end, left, right in zip(ends, probe, texts, strict=True)], np.bool_
    )


def _may_be_known(footer: BaseFileFooter, keys: Any) -> Mask | None:
    try:
        bloom = footer.bloom
    except CorruptFileError:
        return None  # without a readable filter any key may be there
    return None if bloom is None else bloom.may_contain(keys)


def _bounds(group: Any) -> tuple[str, str] | tuple[None, None]:
    for index in range(group.num_columns):
        chunk = group.column(index)
        if chunk.path_in_schema == RECORD_KEY:
            break
    else:
        return None, None
    try:
        statistics = chunk.statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        least, greatest = statistics.min, statistics.max
    except (UnicodeDecodeError, pa.ArrowException):
        return None, None  # a bound that was truncated within a character
    # pyarrow before 20 returns an empty text for a missing bound, e.g. where a key is very long.
    if not (isinstance(least, str) and isinstance(greatest, str) and greatest):
        return None, None
    return least, greatest
