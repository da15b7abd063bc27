"""Tagging: decides what a write does with each row of a batch, by the location of its key in the record index.

Uses only the rows' keys and ordering values, so that it runs on the driver for small batches and in tasks for others;
the outcome is row positions and numbers of file groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import RecordError, SchemaError
from table_format.meta_columns import IS_DELETED, PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index_shard import Found
from table_format.slices.file_names import BETWEEN, group_keys
from table_writer.plan.plan import FROM_COLUMN, HOME_COLUMN
from table_writer.rows.key_identity import key_forms, refuse_shared_keys
from table_writer.rows.merge import sorted_rows
from table_writer.rows.ordering import held_fields, ordering_columns
from table_writer.rows.several_rows import group_number, several_rows
from table_writer.tagging.current_rows import CurrentRows, lost_moves, refuse_others_of_key

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Lookup = Callable[[Any, Any], Found]
"""Finds keys, for an index by partition in their partitions (else None); see `RecordIndex.find`."""

NEW = -1
"""File group number of rows to insert."""
_DELETED = "deleted"
_ORDERING = "ordering"
_FORMS = "forms"
_NO_GROUPS = pa.array([], pa.string())


class Known(Enum):
    """What happens to a row whose key is in the index."""

    MERGE = "merge"
    """Merge it into the key's file group."""
    DROP = "drop"
    FAIL = "fail"
    REPLACE = "replace"
    """Insert it, since the key's partition is replaced; `Tags.elsewhere` counts keys in other partitions."""


@dataclass(frozen=True)
class TagPlan:
    """How rows are tagged.

    Attributes:
        known: see `Known`.
        by_partition: keys are unique in each partition only, and so is the index.
        move: a record whose partition changes moves there; else it stays in its partition.
        delete: rows are keys to delete.
        moves: reads ordering values of current versions; None if the later write wins.
        selected: no other rows may change than those that a condition selected; see `RowSource.is_selected`.
        shared: see `FilePlan`.
        dropped: reads the fields of the record key where new versions are left out; None where none are, or keys show
            their fields.
    """

    known: Known = Known.MERGE
    by_partition: bool = False
    move: bool = False
    delete: bool = False
    moves: CurrentRows | None = None
    selected: bool = False
    shared: tuple[str, ...] = ()
    dropped: CurrentRows | None = None


@dataclass(frozen=True)
class Tags:
    """What to do, one entry per row to write; a row of the batch may have none, one or two.

    The file groups are those of the index. Whether the table has them is for the driver to find out.

    Attributes:
        rows: position of the row.
        numbers: of its file group in `groups`; `NEW` for rows to insert.
        gone: the row only deletes its key there.
        groups: partition and file id of file groups that have keys of the batch, joined as by `group_keys`.
        relied: file groups, named so, that no row goes to, but on account of which rows are left out or inserted.
        elsewhere: of `Known.REPLACE`: partitions in which keys of the batch lie, with their count and an example.
    """

    rows: Rows
    numbers: Numbers
    gone: Mask
    groups: pa.Array[Any]
    relied: frozenset[str] = frozenset()
    elsewhere: dict[str, tuple[int, str]] = field(default_factory=dict)

    def part(self, chosen: Any) -> Tags:
        """Some of the entries, by a slice or their positions, without the fields that apply to all."""
        return Tags(self.rows[chosen], self.numbers[chosen], self.gone[chosen], self.groups)


def place_of(name: str) -> tuple[str, str]:
    """Partition and file id of a text that `group_keys` makes."""
    partition, _, file_id = name.partition(BETWEEN)
    return partition, file_id


def partitions_of_names(names: Any) -> Any:
    """The partition of each of the texts that `group_keys` makes."""
    return pc.list_element(pc.split_pattern(names, BETWEEN), 0)


def slim_rows(rows: pa.Table, ordering: Sequence[str], shared: Sequence[str] = ()) -> pa.Table:
    """The columns of keyed rows that tagging needs: key, partition, bucket, file, deletion mark, ordering values.

    Where record keys may be those of several records (`shared`, see `FilePlan`), also what tells these apart.

    Raises:
        SchemaError: the deletion mark is not a boolean.
    """
    columns = {RECORD_KEY: rows.column(RECORD_KEY)}
    if PARTITION_PATH in rows.column_names:
        columns[PARTITION_PATH] = rows.column(PARTITION_PATH)
    for name in (HOME_COLUMN, FROM_COLUMN):
        if name in rows.column_names:
            columns[name] = rows.column(name)
    if IS_DELETED in rows.column_names:
        flags: Any = rows.column(IS_DELETED)
        if not pa.types.is_boolean(flags.type):
            raise SchemaError(f"column {IS_DELETED} is {flags.type}; it must be boolean")
        columns[_DELETED] = pc.fill_null(flags, False)
    for number, name in enumerate(ordering):
        if held_fields(rows.schema, [name]):
            columns[f"{_ORDERING}{number}"] = ordering_columns(rows, [name])[0]
    forms = key_forms(rows, shared)
    if forms is not None:
        columns[_FORMS] = forms
    return pa.table(columns)


def tag_rows(slim: pa.Table, lookup: Lookup | None, plan: TagPlan) -> Tags:
    """Keep one row of each key, and decide to which file group it goes.

    Args:
        slim: see `slim_rows`, in batch order; must have all rows of each key.
        lookup: of the record index; None inserts every row.
        plan: see `TagPlan`.

    Raises:
        RecordError: a key is there already and `known` is FAIL; or the index names another row than was selected; or
            rows of several records have one key.
        RecordIndexError: a record whose current version is read is not where the index has it.
    """
    keys = one_chunk(slim[RECORD_KEY])
    own = one_chunk(slim[PARTITION_PATH]) if PARTITION_PATH in slim.column_names else None
    identity = _identity(slim, keys, own if plan.by_partition else None)
    ordering = [] if plan.delete else _ordering(slim)
    rows = sorted_rows(identity, unique=True, ordering=ordering)
    keys, own = keys.take(from_numpy(rows)), None if own is None else _texts(own.take(from_numpy(rows)))
    numbers, groups = np.full(len(rows), NEW, np.int32), _NO_GROUPS
    if lookup is not None and len(rows):
        locations = lookup(keys, own if plan.by_partition else None)
        if plan.by_partition and own is not None:
            homes = one_chunk(locations.places["partition"]).take(from_numpy(locations.codes))
            here = pc.equal(homes, own.take(from_numpy(locations.rows)))
            locations = locations.part(to_numpy(here).astype(np.bool_))
        named = group_keys(locations.places["partition"], locations.places["file_id"]).dictionary_encode()
        numbers[locations.rows], groups = to_numpy(named.indices)[locations.codes], named.dictionary
        if FROM_COLUMN in slim.column_names:
            _refuse_others(slim, identity, rows, numbers, groups)
    deletes = np.full(len(rows), plan.delete)
    if _DELETED in slim.column_names:
        deletes |= to_numpy(one_chunk(slim[_DELETED]).take(from_numpy(rows))).astype(np.bool_)
    located = numbers != NEW
    # if all rows are inserted there is nothing to delete
    kept = ~deletes | (located & (plan.known is Known.MERGE))
    if not kept.all():
        chosen = np.flatnonzero(kept)
        rows, numbers, located, deletes = rows[chosen], numbers[chosen], located[chosen], deletes[chosen]
        keys, own = keys.take(from_numpy(chosen)), None if own is None else own.take(from_numpy(chosen))
    if plan.known is not Known.MERGE:
        return _known(Tags(rows, numbers, np.zeros(len(rows), np.bool_), groups), keys, plan, slim)
    tags = Tags(rows, numbers, np.zeros(len(rows), np.bool_), groups)
    if not plan.move or own is None:
        return tags
    moving = np.flatnonzero(located & ~deletes)
    homes = partitions_of_names(groups).take(from_numpy(numbers[moving]))
    moving = moving[to_numpy(pc.not_equal(homes, own.take(from_numpy(moving)))).astype(np.bool_)]
    if len(moving) == 0:
        return tags
    lost = _lost(tags.part(moving), keys.take(from_numpy(moving)), plan, slim)
    return _moved(tags, moving, lost)


def _identity(slim: pa.Table, keys: Any, partitions: Any | None) -> Any:
    """What is unique of each row: its key, and its partition unless that is None."""
    identity = keys if partitions is None else pc.binary_join_element_wise(_texts(partitions), keys, BETWEEN)
    if _FORMS in slim.column_names:
        refuse_shared_keys(identity, one_chunk(slim[_FORMS]), keys)
    return identity


def _refuse_others(slim: pa.Table, identity: Any, rows: Rows, numbers: Numbers, groups: Any) -> None:
    """Refuse rows that a condition selected in other files than the index has for their keys.

    Args:
        slim: see `tag_rows`.
        identity: what is unique of each row.
        rows: positions of one row of each key.
        numbers: of the file groups of these.
        groups: see `Tags`.
    """
    own: Any = one_chunk(slim[FROM_COLUMN])
    located = np.empty(len(identity), np.int32)
    if len(rows) == len(identity):
        located[rows] = numbers
    else:
        located = numbers[to_numpy(pc.index_in(identity, value_set=identity.take(from_numpy(rows))))]
    named = np.array([*(group_number(place_of(name)[1]) for name in groups.to_pylist()), NEW], np.int64)[located]
    # rows that the index lacks are seen by the number of changed ones
    wrong = np.flatnonzero(valid_mask(own) & (located != NEW) & (to_numpy(own) != named))
    if len(wrong):
        keys = one_chunk(slim[RECORD_KEY]).take(from_numpy(wrong))
        raise several_rows(pc.count_distinct(keys).as_py(), keys[0].as_py(), "the record index names another row")


def _lost(tags: Tags, keys: Any, plan: TagPlan, slim: pa.Table) -> Mask:
    """Which of the rows that move are older than the table's, and are left out."""
    if plan.moves is None:
        return np.zeros(len(tags.rows), np.bool_)
    places = [name for name in slim.column_names if name.startswith(_ORDERING)]
    coming = {int(name.removeprefix(_ORDERING)): one_chunk(slim[name]).take(from_numpy(tags.rows)) for name in places}
    groups = tags.groups.take(from_numpy(tags.numbers))
    lost = lost_moves(plan.moves, keys, groups, coming)
    _refuse_dropped(tags.part(lost), keys.filter(from_numpy(lost)), plan, slim)
    return lost


def _refuse_dropped(tags: Tags, keys: Any, plan: TagPlan, slim: pa.Table) -> None:
    """Refuse to leave out rows whose key is that of another record of the table."""
    if plan.dropped is not None and len(tags.rows):
        forms = one_chunk(slim[_FORMS]).take(from_numpy(tags.rows)) if _FORMS in slim.column_names else None
        refuse_others_of_key(plan.dropped, keys, tags.groups.take(from_numpy(tags.numbers)), forms)


def _moved(tags: Tags, moving: Rows, lost: Mask) -> Tags:
    """Rows whose partition changed go out of their old file group and are inserted; those that lost are left out."""
    kept = np.ones(len(tags.rows), np.bool_)
    kept[moving[lost]] = False
    won = moving[~lost]
    old = tags.numbers[won]
    numbers = tags.numbers.copy()
    numbers[won] = NEW
    gone = np.zeros(int(kept.sum()) + len(won), np.bool_)
    gone[int(kept.sum()) :] = True
    rows = np.concatenate([tags.rows[kept], tags.rows[won]])
    # the files of those that are left out were read: they are there
    return Tags(rows, np.concatenate([numbers[kept], old]), gone, tags.groups)


def _known(tags: Tags, keys: Any, plan: TagPlan, slim: pa.Table) -> Tags:
    located = tags.numbers != NEW
    names: list[Any] = tags.groups.take(from_numpy(np.unique(tags.numbers[located]))).to_pylist()
    relied = frozenset(names)
    if plan.known is Known.REPLACE:
        elsewhere = _elsewhere(tags.numbers[located], keys.filter(from_numpy(located)), tags.groups)
        return replace(tags, numbers=np.full(len(tags.rows), NEW, np.int32), relied=relied, elsewhere=elsewhere)
    if plan.known is Known.FAIL and located.any():
        key = keys[int(np.flatnonzero(located)[0])].as_py()
        raise RecordError(
            f"{int(located.sum())} row(s) have a record key that the table has already, such as {key!r}, and "
            "hoodie.datasource.insert.dup.policy is fail; use upsert, or drop the rows"
        )
    _refuse_dropped(tags.part(located), keys.filter(from_numpy(located)), plan, slim)
    return replace(tags.part(~located), relied=relied)


def _elsewhere(numbers: Numbers, keys: Any, groups: Any) -> dict[str, tuple[int, str]]:
    homes = partitions_of_names(groups).take(from_numpy(numbers)).dictionary_encode()
    codes = to_numpy(homes.indices)
    names, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    return {
        homes.dictionary[int(name)].as_py(): (int(count), keys[int(first)].as_py())
        for name, first, count in zip(names, firsts, counts, strict=True)
    }


def _ordering(slim: pa.Table) -> list[Any]:
    return [one_chunk(slim[name]) for name in slim.column_names if name.startswith(_ORDERING)]


def _texts(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
