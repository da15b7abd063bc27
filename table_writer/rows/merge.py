"""Merging rows by record key: the rows of a batch with each other, then with the rows of a base file.

The work is done on whole columns of keys. Its results are row positions, so that each column is moved only once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, to_numpy, valid_mask
from table_format.errors import RecordError, SchemaError
from table_format.keys.key_order import is_sorted, sorted_order
from table_format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from table_writer.encoding.meta_columns import constant
from table_writer.plan.operations import Duplicates
from table_writer.rows.ordering import not_older

Rows = npt.NDArray[np.int64]


def merged_values(old: pa.Table, new: pa.Table, rows: Rows, places: Rows, unwritten: Collection[str] = ()) -> pa.Table:
    """Old and new rows as one table with the columns of the old rows.

    Args:
        old: rows of a file, all columns or some.
        new: rows of a batch, with at least these columns.
        rows: source of each row; see `MergedRows`.
        places: for each of `rows` the old row that it is or replaces, -1 for none.
        unwritten: columns that retain the old row's value, and are null in inserted rows.
    """
    written = [name for name in old.column_names if name not in unwritten]
    added = _encoded_as(new.select(written), old.select(written).schema)
    both = pa.concat_tables([old.select(written), added]).unify_dictionaries()
    columns: dict[str, Any] = dict(zip(written, both.take(from_numpy(rows)).columns, strict=True))
    if len(written) < old.num_columns:
        places_or_null = from_numpy(places, places >= 0)
        retained = [name for name in old.column_names if name in unwritten]
        columns |= {name: old.column(name).take(places_or_null) for name in retained}
    return pa.table([columns[name] for name in old.column_names], names=old.column_names)


def with_constants(table: pa.Table, partition: str, name: str) -> pa.Table:
    """Add partition path and file name at their places among the meta columns."""
    position = len((COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY))
    for column, text in ((PARTITION_PATH, partition), (FILE_NAME, name)):
        values = constant(text, len(table))
        table = table.add_column(position, pa.field(column, values.type), values)
        position += 1
    if table.column_names[: len(META_COLUMNS)] != list(META_COLUMNS):
        raise SchemaError(f"meta columns are out of place: {table.column_names[: len(META_COLUMNS)]}")
    return table


def _encoded_as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same columns, dictionary-encoded where the schema says so and nowhere else."""
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            columns.append(pc.dictionary_encode(column))
        else:
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
    return pa.table(columns, schema=schema)


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The rows of the new version of a file.

    Attributes:
        rows: source of each row, in key order: numbers below the count of old rows are old rows, the others new rows.
        places: for each of `rows` the old row that it is or replaces; -1 for inserts.
        inserted: number of keys that the old file lacks.
        updated: number of old rows whose values are replaced.
        deleted: number of old rows that are removed.
    """

    rows: Rows
    places: Rows
    inserted: int
    updated: int
    deleted: int

    @property
    def changed(self) -> bool:
        """Whether the merge changes the file."""
        return bool(self.inserted or self.updated or self.deleted)


def sorted_rows(keys: Any, *, unique: bool, ordering: Sequence[Any] = ()) -> Rows:
    """Positions of rows in the order of their keys.

    Args:
        keys: record key of each row, a string array.
        unique: keep one row per key: the one with the greatest ordering values; among equals, the last.
        ordering: ordering values, see `ordering_columns`; without them the last row of a key wins.
    """
    order = sorted_order(keys)
    if not unique or len(order) < 2:
        return order
    ordered = keys.take(from_numpy(order))
    same = np.zeros(len(order), np.bool_)
    same[1:] = to_numpy(pc.equal(ordered.slice(1), ordered.slice(0, len(order) - 1)))
    return winners(order, same, ordering)


def winners(order: Rows, same: Mask, ordering: Sequence[Any]) -> Rows:
    """One row per key, of rows in key order; see `sorted_rows`.

    Args:
        order: positions of the rows.
        same: where a row has the key of the row before.
        ordering: see `sorted_rows`.
    """
    if not same.any():
        return order
    groups = np.cumsum(~same) - 1
    repeated = same.copy()
    repeated[:-1] |= same[1:]
    rows, group = order[repeated], groups[repeated]
    columns = {"group": from_numpy(group)}
    for number, column in enumerate(ordering):
        values = column.take(from_numpy(rows))
        # nulls come first; releases of Arrow name this option differently
        columns[f"known{number}"] = from_numpy(valid_mask(values).astype(np.int8))
        columns[f"ordering{number}"] = values
    columns["row"] = from_numpy(rows)
    keys = [(name, "ascending") for name in columns]
    ranked = to_numpy(pc.sort_indices(pa.table(columns), sort_keys=keys)).astype(np.int64)
    last = np.ones(len(ranked), np.bool_)
    last[:-1] = group[ranked[1:]] != group[ranked[:-1]]
    chosen = ranked[last]
    result = order[~same]
    result[group[chosen]] = rows[chosen]
    return result


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What a batch does to rows of a file.

    Attributes:
        replaced: old rows that take the values of a new row; several for one key if the file holds it several times.
        by: the new row for each of `replaced`.
        gone: old rows that are deleted.
        inserted: new rows that are added.
    """

    replaced: Rows
    by: Rows
    gone: Rows
    inserted: Rows

    @property
    def changed(self) -> bool:
        """Whether the batch changes the file."""
        return bool(len(self.replaced) or len(self.gone) or len(self.inserted))


def row_changes(
    old_keys: Any,
    new_keys: Any,
    *,
    deletes: Mask | None = None,
    gone: Mask | None = None,
    duplicates: Duplicates = Duplicates.MERGE,
    old_ordering: Sequence[Any] = (),
    new_ordering: Sequence[Any] = (),
) -> RowChanges:
    """Compute what new rows do to a file's rows.

    Inserts without merging may leave a key in a file twice. An update then replaces each of these rows, and a delete
    removes all of them, as Apache's merge handle does.

    Args:
        old_keys: record keys of the file's rows, a string array in any order. Rows whose keys are not among the new
            ones may be left out.
        new_keys: record keys of the new rows, in key order; unique unless `duplicates` adds rows.
        deletes: new rows that delete their key; None for none.
        gone: new rows that delete their key regardless of ordering values; None for none.
        duplicates: what happens to new rows whose key is in the file.
        old_ordering: ordering values of the old rows if the greater value wins (event time); empty if the later write
            wins.
        new_ordering: ordering values of the new rows.

    Raises:
        RecordError: a key is in the file and `duplicates` is FAIL.
    """
    none = np.empty(0, np.int64)
    gone = np.zeros(len(new_keys), np.bool_) if gone is None else gone
    deletes = gone if deletes is None else deletes | gone
    if duplicates is not Duplicates.MERGE:
        fresh = ~deletes & _admitted(old_keys, new_keys, duplicates)
        return RowChanges(none, none, none, np.flatnonzero(fresh))
    new_rows = pc.index_in(old_keys, value_set=new_keys)
    matched = np.flatnonzero(valid_mask(new_rows))
    partner = to_numpy(new_rows)[matched].astype(np.int64)
    fresh = ~deletes
    fresh[partner] = False
    wins = np.ones(len(matched), np.bool_)
    if old_ordering:
        new_values = [column.take(from_numpy(partner)) for column in new_ordering]
        old_values = [column.take(from_numpy(matched)) for column in old_ordering]
        wins = not_older(new_values, old_values, len(matched)) | gone[partner]
    removed = wins & deletes[partner]
    replaced = wins & ~deletes[partner]
    return RowChanges(matched[replaced], partner[replaced], matched[removed], np.flatnonzero(fresh))


def merged_rows(old_keys: Any, new_keys: Any, changes: RowChanges) -> MergedRows:
    """The rows of the new version of a file, in key order.

    Args:
        old_keys: record keys of all rows of the file, in any order.
        new_keys: record keys of the new rows, in key order.
        changes: see `row_changes`.
    """
    old_count = len(old_keys)
    sources = np.arange(old_count)
    sources[changes.replaced] = old_count + changes.by
    remains = np.ones(old_count, np.bool_)
    remains[changes.gone] = False
    rows, places = _in_key_order(old_keys, sources, new_keys, changes.inserted, remains)
    return MergedRows(rows, places, len(changes.inserted), len(changes.replaced), len(changes.gone))


def merge_rows(old_keys: Any, new_keys: Any, **rules: Any) -> MergedRows:
    """Merge new rows into a file's rows: `row_changes` with its arguments, then `merged_rows`."""
    return merged_rows(old_keys, new_keys, row_changes(old_keys, new_keys, **rules))


def _admitted(old_keys: Any, new_keys: Any, duplicates: Duplicates) -> Mask:
    if duplicates is Duplicates.ADD:
        return np.ones(len(new_keys), np.bool_)
    known = to_numpy(pc.is_in(new_keys, value_set=old_keys)).astype(np.bool_)
    if duplicates is Duplicates.FAIL and known.any():
        key = new_keys[int(np.flatnonzero(known)[0])].as_py()
        raise RecordError(
            f"{int(known.sum())} row(s) have a record key that the table has already, such as {key!r}, and "
            "hoodie.datasource.insert.dup.policy is fail; use upsert, or drop the rows"
        )
    return ~known


def _in_key_order(old_keys: Any, sources: Rows, new_keys: Any, inserted: Rows, remains: Mask) -> tuple[Rows, Rows]:
    """The remaining old rows and the inserted ones by key; old rows come first among equal keys.

    Returns:
        The source of each row, and the old row that it is or replaces, or -1.
    """
    old_count = len(old_keys)
    old = np.flatnonzero(remains)
    added = np.full(len(inserted), -1)
    if not is_sorted(old_keys):
        keys = pa.concat_arrays([old_keys.take(from_numpy(old)), new_keys.take(from_numpy(inserted))])
        order = to_numpy(pc.sort_indices(keys)).astype(np.int64)
        rows = np.concatenate([sources[old], old_count + inserted])
        return rows[order], np.concatenate([old, added])[order]
    if len(inserted) == 0:
        return sources[remains], old
    ends = positions_after(old_keys, new_keys.take(from_numpy(inserted)))
    places = np.insert(np.where(remains, np.arange(old_count), -2), ends, added)
    rows = np.insert(sources, ends, old_count + inserted)
    left = places != -2
    return rows[left], places[left]


def positions_after(ordered: Any, keys: Any) -> Rows:
    """For each key, the number of keys in a sorted array that are less or equal; one binary search for all keys."""
    low = np.zeros(len(keys), np.int64)
    high = np.full(len(keys), len(ordered), np.int64)
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = (low + high) // 2
        probe = ordered.take(from_numpy(np.minimum(middle, len(ordered) - 1)))
        right = to_numpy(pc.less_equal(probe, keys)).astype(np.bool_) & open_
        low = np.where(right, middle + 1, low)
        high = np.where(open_ & ~right, middle, high)
