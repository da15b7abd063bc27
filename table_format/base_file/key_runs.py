"""Parts of a base file in which rows ascend by record key, as far as its footer says so."""

from __future__ import annotations

import itertools
from typing import TypeAlias

import pyarrow.parquet as pq

from table_format.base_file.footer import BaseFileFooter
from table_format.meta_columns import RECORD_KEY

Run: TypeAlias = tuple[int, int]
"""Where row groups begin, and their length with what follows them; bytes."""


def key_runs(footer: BaseFileFooter) -> list[Run] | None:
    """The runs of a base file; None if some row group does not claim to be in the order of its record keys.

    A row group claims it by `sorting_columns`, as our writer's do. Row groups that follow each other are one run where
    their statistics show that no key of the second one is less than one of the first. A wrong claim makes a wrong run:
    who relies on the order looks at each row.
    """
    metadata, leaf = footer.metadata, footer.leaf_ordinals.get(RECORD_KEY)
    if leaf is None:
        return None
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    firsts: list[int] = []  # row groups that begin a run
    greatest: bytes | None = None
    for number, group in enumerate(groups):
        order = [(column.column_index, column.descending) for column in group.sorting_columns[:1]]
        bounds = group.column(leaf).statistics
        if order != [(leaf, False)] or bounds is None or not bounds.has_min_max or bounds.null_count:
            return None
        if greatest is None or str(bounds.min).encode() < greatest:
            firsts.append(number)
        greatest = str(bounds.max).encode()
    return _ranges(groups, firsts, footer.size)


def _ranges(groups: list[pq.RowGroupMetaData], firsts: list[int], size: int) -> list[Run] | None:
    """The runs; None if readers, which take the row groups whose middles are in a range, would take other ones."""
    places = [0, *(_start(groups[number]) for number in firsts[1:]), size]
    ends = [*firsts[1:], len(groups)]
    runs = list(itertools.pairwise(places))
    for (start, end), first, last in zip(runs, firsts or [0], ends, strict=True):
        for group in groups[first:last]:
            if not start <= _middle(group) < end:
                return None
    return [(start, end - start) for start, end in runs]


def _start(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    offsets = (first.dictionary_page_offset, first.data_page_offset)
    return min(int(offset) for offset in offsets if offset)


def _middle(group: pq.RowGroupMetaData) -> int:
    """As Parquet's Java library has it (`filterFileMetaDataByMidpoint`)."""
    return _start(group) + sum(group.column(number).total_compressed_size for number in range(group.num_columns)) // 2
