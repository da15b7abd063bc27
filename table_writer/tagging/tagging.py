"""Tagging: what a write does with each row of its batch, by where the record index has the row's key.

Works on the rows' keys and ordering values alone, so that it runs on the driver for small batches and in Spark's tasks
for others; the outcome is row positions and numbers of file groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import RecordError, RecordIndexError, SchemaError
from table_format.meta_columns import IS_DELETED, PARTITION_PATH, RECORD_KEY
from table_writer.rows.merge import sorted_rows
from table_writer.rows.ordering import ordering_columns
from table_writer.tagging.moves import MovePlan, lost_moves

pc: Any = compute  # the stubs lag behind the functions
Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Lookup = Callable[[Any, Any], pa.Table]
"""Keys, and their partitions for an index of one partition each (else None), to a table of `LOCATIONS_SCHEMA`."""

NEW = -1
"""Number of the file group of a row that is to be inserted somewhere."""
_DELETED = "deleted"
_ORDERING = "ordering"
_BETWEEN = "\0"


class Known(Enum):
    """What becomes of a row whose key the index knows."""

    MERGE = "merge"
    """It goes to the file group that has the key."""
    DROP = "drop"
    FAIL = "fail"
    REPLACE = "replace"
    """It is inserted, since the partition that has the key is replaced; `Tags.elsewhere` tells of other partitions."""


@dataclass(frozen=True)
class TagPlan:
    """How rows are tagged.

    Attributes:
        files: partition and file id of each current file group, joined as by `file_names_of`, at its number.
        partitions: the partition of each current file group.
        known: see `Known`.
        by_partition: keys are unique in each partition only, and so is the index.
        move: a record whose partition changes moves there; else it stays in the partition that has it.
        delete: rows are keys to delete.
        moves: how the older of two versions is told where ordering values decide; None where the later write wins.
    """

    files: pa.Array[Any]
    partitions: pa.Array[Any]
    known: Known = Known.MERGE
    by_partition: bool = False
    move: bool = False
    delete: bool = False
    moves: MovePlan | None = None


@dataclass(frozen=True)
class Tags:
    """What to do, one entry a row to write; a row of the batch may have none, one or two.

    Attributes:
        rows: position of the row.
        numbers: of its file group; `NEW` for rows to insert.
        gone: the row only deletes its key there.
        elsewhere: of `Known.REPLACE`: partitions in which keys of the batch lie, with their count and an example.
    """

    rows: Rows
    numbers: Numbers
    gone: Mask
    elsewhere: dict[str, tuple[int, str]]


def file_names_of(partitions: Any, file_ids: Any) -> Any:
    """Partition and file id as one text, which no other pair has."""
    return pc.binary_join_element_wise(one_chunk(partitions), one_chunk(file_ids), _BETWEEN)


def slim_rows(rows: pa.Table, ordering: Sequence[str]) -> pa.Table:
    """What tagging needs of keyed rows: key, partition path, deletion mark and ordering values.

    Raises:
        SchemaError: the deletion mark is no boolean.
    """
    columns = {RECORD_KEY: rows.column(RECORD_KEY)}
    if PARTITION_PATH in rows.column_names:
        columns[PARTITION_PATH] = rows.column(PARTITION_PATH)
    if IS_DELETED in rows.column_names:
        flags: Any = rows.column(IS_DELETED)
        if not pa.types.is_boolean(flags.type):
            raise SchemaError(f"column {IS_DELETED} is {flags.type}; it must be boolean")
        columns[_DELETED] = pc.fill_null(flags, False)
    for number, field in enumerate(ordering):
        if field in rows.column_names:
            columns[f"{_ORDERING}{number}"] = ordering_columns(rows, [field])[0]
    return pa.table(columns)


def tag_rows(slim: pa.Table, lookup: Lookup | None, plan: TagPlan) -> Tags:
    """Make some rows unique by key, and tell where each of them goes.

    Args:
        slim: see `slim_rows`, in the order in which the rows came; all rows of a key must be among them.
        lookup: of the record index; None inserts every row.
        plan: see `TagPlan`.

    Raises:
        RecordError: a key is there already and `known` is FAIL.
        RecordIndexError: the index names a file group that the table does not have.
    """
    keys = one_chunk(slim[RECORD_KEY])
    own = one_chunk(slim[PARTITION_PATH]) if PARTITION_PATH in slim.column_names else None
    identity = keys if own is None or not plan.by_partition else file_names_of(_texts(own), keys)
    ordering = [] if plan.delete else _ordering(slim)
    rows = sorted_rows(identity, unique=True, ordering=ordering)
    keys, own = keys.take(from_numpy(rows)), None if own is None else _texts(own.take(from_numpy(rows)))
    numbers = np.full(len(rows), NEW, np.int32)
    if lookup is not None and len(rows):
        locations = lookup(keys, own if plan.by_partition else None)
        numbers = _numbers_of(keys, own if plan.by_partition else None, locations, plan)
    deletes = np.full(len(rows), plan.delete)
    if _DELETED in slim.column_names:
        deletes |= to_numpy(one_chunk(slim[_DELETED]).take(from_numpy(rows))).astype(np.bool_)
    located = numbers != NEW
    # what is only inserted has nothing to delete
    kept = ~deletes | (located & (plan.known is Known.MERGE))
    if not kept.all():
        chosen = np.flatnonzero(kept)
        rows, numbers, located, deletes = rows[chosen], numbers[chosen], located[chosen], deletes[chosen]
        keys, own = keys.take(from_numpy(chosen)), None if own is None else own.take(from_numpy(chosen))
    if plan.known is not Known.MERGE:
        return _known(rows, numbers, keys, plan)
    if not plan.move or own is None:
        return Tags(rows, numbers, np.zeros(len(rows), np.bool_), {})
    moving = np.flatnonzero(located & ~deletes)
    homes = plan.partitions.take(from_numpy(numbers[moving]))
    moving = moving[to_numpy(pc.not_equal(homes, own.take(from_numpy(moving)))).astype(np.bool_)]
    if len(moving) == 0:
        return Tags(rows, numbers, np.zeros(len(rows), np.bool_), {})
    lost = np.zeros(len(moving), np.bool_)
    if plan.moves is not None:
        values = slim.select([name for name in slim.column_names if name.startswith(_ORDERING)])
        coming = {int(name.removeprefix(_ORDERING)): one_chunk(values[name]) for name in values.column_names}
        coming = {number: column.take(from_numpy(rows[moving])) for number, column in coming.items()}
        lost = lost_moves(plan.moves, keys.take(from_numpy(moving)), numbers[moving], coming)
    return _moved(rows, numbers, moving, lost)


def _moved(rows: Rows, numbers: Numbers, moving: Rows, lost: Mask) -> Tags:
    """Rows whose partition changed go out of their old file group and are inserted; those that lost are left out."""
    kept = np.ones(len(rows), np.bool_)
    kept[moving[lost]] = False
    won = moving[~lost]
    old = numbers[won]
    numbers = numbers.copy()
    numbers[won] = NEW
    gone = np.zeros(int(kept.sum()) + len(won), np.bool_)
    gone[int(kept.sum()) :] = True
    return Tags(np.concatenate([rows[kept], rows[won]]), np.concatenate([numbers[kept], old]), gone, {})


def _known(rows: Rows, numbers: Numbers, keys: Any, plan: TagPlan) -> Tags:
    located = numbers != NEW
    nothing = np.zeros(len(rows), np.bool_)
    if plan.known is Known.REPLACE:
        elsewhere = _elsewhere(numbers[located], keys.filter(from_numpy(located)), plan)
        return Tags(rows, np.full(len(rows), NEW, np.int32), nothing, elsewhere)
    if plan.known is Known.FAIL and located.any():
        key = keys[int(np.flatnonzero(located)[0])].as_py()
        raise RecordError(
            f"{int(located.sum())} row(s) have a record key that the table has already, such as {key!r}, and "
            "hoodie.datasource.insert.dup.policy is fail; use upsert, or drop the rows"
        )
    return Tags(rows[~located], numbers[~located], nothing[~located], {})


def _elsewhere(numbers: Numbers, keys: Any, plan: TagPlan) -> dict[str, tuple[int, str]]:
    homes = plan.partitions.take(from_numpy(numbers)).dictionary_encode()
    codes = to_numpy(homes.indices)
    names, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    return {
        homes.dictionary[int(name)].as_py(): (int(count), keys[int(first)].as_py())
        for name, first, count in zip(names, firsts, counts, strict=True)
    }


def _numbers_of(keys: Any, partitions: Any, locations: pa.Table, plan: TagPlan) -> Numbers:
    """The number of each key's file group; `NEW` where the index does not know the key."""
    numbers = np.full(len(keys), NEW, np.int32)
    if locations.num_rows == 0:
        return numbers
    entries, wanted = one_chunk(locations["key"]), keys
    if partitions is not None:
        entries, wanted = file_names_of(locations["partition"], entries), file_names_of(partitions, keys)
    at = pc.index_in(wanted, value_set=entries)
    known = valid_mask(at)
    files = pc.index_in(file_names_of(locations["partition"], locations["file_id"]), value_set=plan.files)
    if files.null_count:
        row = locations.slice(int(np.flatnonzero(~valid_mask(files))[0]), 1).to_pylist()[0]
        raise RecordIndexError(
            f"the record index has key {row['key']!r} in file group {row['file_id']} of partition "
            f"{row['partition']!r}, which the table does not have: rebuild it by `hudi-catalog index bootstrap`"
        )
    numbers[known] = to_numpy(files)[to_numpy(at)[known]]
    return numbers


def _ordering(slim: pa.Table) -> list[Any]:
    return [one_chunk(slim[name]) for name in slim.column_names if name.startswith(_ORDERING)]


def _texts(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
