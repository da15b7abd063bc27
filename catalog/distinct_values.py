"""How many distinct values a column has, estimated from rows of two files where no statistics tell.

The values that are common to two independent draws tell of how many they were drawn: the estimate that ecologists
know by Chapman's name (capture and recapture).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import LruCache, memoize
from catalog.snapshots.snapshot import Snapshot
from table_format.base_file.footer import BaseFileFooter
from table_format.base_file.reader import base_file_batches
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import HudiError
from table_format.storage import Storage
from table_format.threads import in_threads

types = pa.types
#: Rows of each draw, and bytes of a column that are read at a time for them.
_DRAWN_ROWS, _BUFFER = 65_536, 1 << 20
_MOST_COLUMNS = 32
_MOST_KEPT = 1_000
#: Draws stand while the bytes of the table are between this times theirs and that part of it.
_GROWTH = 1.25


@dataclass(frozen=True)
class Draws:
    """What two draws of a column's values have in common; nulls are left out.

    Attributes:
        drawn: values of both together.
        first: distinct ones of one draw.
        second: distinct ones of the other, 0 if there was no other.
        common: those that both have.
    """

    drawn: int
    first: int
    second: int
    common: int

    def among(self, values: float) -> float:
        """Estimate of the distinct ones among all values of the column, never fewer than were seen."""
        seen = self.first + self.second - self.common
        if values <= self.drawn or not self.drawn:
            return float(seen)
        # each draw has values of its own: a column of this many rows has them in proportion
        most = max(seen, (self.first + self.second) / self.drawn * values)
        if not self.common:
            return most
        chapman = (self.first + 1) * (self.second + 1) / (self.common + 1) - 1
        return min(max(chapman, seen), most)


def in_part(distinct: float, values: float, part: float) -> float:
    """How many of some distinct values a part of the rows has, if each value's rows lie anywhere.

    Args:
        distinct: of all rows.
        values: number of all values, nulls left out.
        part: of the rows, from 0 to 1.
    """
    if distinct <= 0 or part >= 1:
        return distinct
    return -distinct * math.expm1(max(1.0, values / distinct) * math.log1p(-part))


def draws(snapshot: Snapshot, columns: Mapping[str, Any]) -> dict[str, Draws]:
    """Draws of some columns' values from two base files.

    Later snapshots of the open table keep them while it has about as many bytes.

    Args:
        snapshot: of the table.
        columns: types by name; only the first 32 are drawn, and those that the files lack are left out.
    """
    kept: LruCache[Any, tuple[int, Draws | None]]
    kept = memoize(snapshot.client, "draws of columns", lambda: LruCache(_MOST_KEPT))
    size = snapshot.live_bytes
    asked = list(columns.items())[:_MOST_COLUMNS]
    by_name: dict[str, Draws | None] = {}
    for name, kind in asked:
        entry = kept.get((name, kind))
        if entry is not None and entry[0] / _GROWTH <= size <= entry[0] * _GROWTH:
            by_name[name] = entry[1]
    missing = {name: kind for name, kind in asked if name not in by_name}
    if missing:
        drawn = _drawn(snapshot, missing)
        for name, kind in missing.items():
            by_name[name] = drawn.get(name)
            kept.put((name, kind), (size, by_name[name]))
    return {name: one for name, one in by_name.items() if one is not None}


def _drawn(snapshot: Snapshot, columns: Mapping[str, Any]) -> dict[str, Draws]:
    tables = _tables(snapshot, pa.schema(list(columns.items())))
    if len(tables) == 1:
        half = (len(tables[0]) + 1) // 2
        tables = [tables[0].slice(0, half), tables[0].slice(half)]
    by_name = {}
    for name in columns if tables else ():
        values = [one_chunk(table.column(name)).drop_null() for table in tables]
        drawn = sum(map(len, values))
        if drawn:
            first, second = (one.unique() for one in values)
            common = pc.sum(pc.is_in(first, value_set=second)).as_py() or 0
            by_name[name] = Draws(drawn, len(first), len(second), common)
    return by_name


def _tables(snapshot: Snapshot, schema: pa.Schema) -> list[pa.Table]:
    """Rows of two base files, or of one if there is no other that can be read."""
    live = snapshot.live_rows
    places = dict.fromkeys((len(live) // 4, len(live) * 3 // 4)) if len(live) else ()
    paths = [path for place in places if (path := snapshot.path(int(live[place]))) is not None]
    tables = in_threads(functools.partial(_first_batch, snapshot.client.storage, schema), paths)
    return [table for table in tables if table is not None]


def _first_batch(storage: Storage, schema: pa.Schema, path: str) -> pa.Table | None:
    """Rows from the middle row group of a file; None if it has none, or cannot be read."""
    batches = base_file_batches(
        storage, path, schema.names, schema, choose=_middle, batch_rows=_DRAWN_ROWS, buffer_bytes=_BUFFER
    )
    try:
        return next((table for _, table in batches), None)
    except HudiError:  # not worth failing for an estimate: whoever reads the file is told
        return None


def _middle(footer: BaseFileFooter) -> list[int]:
    return [footer.metadata.num_row_groups // 2]
