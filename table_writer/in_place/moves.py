"""Records that a change in place moves to other partitions: deleted in the old one, inserted in the new one, at once.

Where the record index of the whole table finds records, a write moves them itself. Elsewhere a record is found within
its partition, and moves as two rows: one that deletes it where it was, and its new version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import RecordError
from table_format.keys.key_generator import KeyGenerator
from table_format.meta_columns import IS_DELETED
from table_format.schema.evolution import conform
from table_writer.in_place.clauses import CLAUSE, OLD
from table_writer.plan import option_registry as registry
from table_writer.plan.plan import FROM_COLUMN

#: Of a write that may move records.
OPTIONS: Final = {registry.MOVE_PARTITION.key: "true"}
#: Record key of a row, and its partition paths before (null for new ones) and after the change (null for deleted ones).
KEY: Final = "_hudi_catalog_key"
BEFORE: Final = "_hudi_catalog_before"
AFTER: Final = "_hudi_catalog_after"


@dataclass(frozen=True)
class Placing:
    """Finds partitions of the rows of a change; a task, too.

    Attributes:
        generator: of the table's keys.
        identity: columns of key and partition, with the table's types.
        inserting: numbers of the clauses that insert.
    """

    generator: KeyGenerator
    identity: pa.Schema
    inserting: Sequence[int]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """`KEY`, `BEFORE` and `AFTER` of rows, which have their columns of identity as they were under `OLD`.

        Raises:
            RecordError: a key without a value, or a partition that cannot be a folder.
        """
        names = self.identity.names
        new = conform(rows.select(names), self.identity)
        old = conform(rows.select([OLD + name for name in names]).rename_columns(names), self.identity)
        inserted = pc.is_in(rows[CLAUSE], value_set=pa.array(self.inserting, rows[CLAUSE].type))
        nowhere = pa.scalar(None, pa.string())
        before = pc.if_else(inserted, nowhere, self.generator.partition_paths(old))
        after = pc.if_else(pc.fill_null(rows[IS_DELETED], False), nowhere, self.generator.partition_paths(new))
        keys = self.generator.record_keys(new, self.generator.key_fields(new))
        return pa.table({KEY: keys, BEFORE: before, AFTER: after})


@dataclass
class Moves:
    """Sorts out the rows of a change: those that are written at once, and those that delete, which come last.

    A row that deletes a place which a new version takes is left out: of two rows for one place, one would be lost.

    Attributes:
        placing: finds partitions.
        by_index: whether writes find records by the record index of the whole table.
        new_keys: of the rows seen, how many must be inserted; known at the end.
        gone_keys: likewise how many records must be deleted.
        matched: likewise how many are rows of the table.
    """

    placing: Placing
    by_index: bool
    new_keys: int = 0
    gone_keys: int = 0
    matched: int = 0
    _taken: list[pa.Table] = field(default_factory=list)
    _left: list[pa.Table] = field(default_factory=list)

    def rows_to_write(self, rows: pa.Table) -> pa.Table:
        """The new versions among some rows of the change."""
        places = self.placing(rows)
        self.matched += len(rows) - places[BEFORE].null_count
        stays = pc.is_valid(places[AFTER])
        moved = pc.fill_null(pc.not_equal(places[BEFORE], places[AFTER]), False)
        fresh = pc.or_(pc.is_null(places[BEFORE]), moved)
        taken = pa.table({"place": self._places(places, AFTER), "fresh": fresh})
        self._taken.append(taken.filter(stays))
        left = pa.table({"place": self._places(places, BEFORE), "moved": moved})
        for name in self.placing.identity.names:
            left = left.append_column(name, rows[OLD + name])
        if FROM_COLUMN in rows.column_names:
            left = left.append_column(FROM_COLUMN, rows[FROM_COLUMN])
            if not self.by_index:  # the index has what was in their places before
                known = pc.if_else(moved, pa.scalar(None, pa.int64()), rows[FROM_COLUMN])
                rows = rows.set_column(rows.column_names.index(FROM_COLUMN), FROM_COLUMN, known)
        self._left.append(left.filter(pc.or_(moved, pc.invert(stays))))
        return rows.filter(stays)

    def _places(self, rows: pa.Table, partition: str) -> Any:
        """What only one row of the table has: its key, within its partition unless the index is of the whole table."""
        key = one_chunk(rows[KEY])
        return key if self.by_index else pc.binary_join_element_wise(rows[partition], key, "\0")

    def rows_to_delete(self) -> pa.Table:
        """Keys and partitions of the records to delete, once all rows were seen.

        Raises:
            RecordError: two records would have one place.
        """
        if not self._taken:
            return pa.table({})
        taken, left = pa.concat_tables(self._taken), pa.concat_tables(self._left)
        every = taken["place"]
        if self.by_index:  # there the one row of a key says all of it
            deleted = left.filter(pc.invert(left["moved"]))
            every = pa.chunked_array([*every.chunks, *deleted["place"].chunks], pa.string())
        _refuse_meeting(every)
        if self.by_index:
            self.new_keys, self.gone_keys, left = _count(taken["fresh"]), len(left), deleted
        else:
            came_free = pc.is_in(taken["place"], value_set=one_chunk(left["place"]))
            self.new_keys = _count(pc.and_(taken["fresh"], pc.invert(came_free)))
            left = left.filter(pc.invert(pc.is_in(left["place"], value_set=one_chunk(taken["place"]))))
            self.gone_keys = len(left)
        return left.drop_columns(["place", "moved"])


def _refuse_meeting(places: Any) -> None:
    counts = pc.value_counts(places)
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(several):
        place = several.field("values")[0].as_py()
        raise meeting_records(place.replace("\0", "/"), len(several))


def meeting_records(place: str, count: int = 1) -> RecordError:
    """The refusal of a change after which two rows would be one record."""
    return RecordError(
        f"{count} record(s) would come from several rows, such as {place!r}: there are several rows in the source or "
        "in the table, or a row moves to a partition that has, or gets, another row of its key; leave one of them out"
    )


def _count(flags: Any) -> int:
    return int(pc.sum(flags, min_count=0).as_py())
