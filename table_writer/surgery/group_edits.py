"""Edits of the row groups that a write touches: changed columns, rebuilt row groups, row groups at the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from table_format.schema.nested import holds
from table_writer.files.file_change import FileChange
from table_writer.metadata.indexed_leaves import root_of
from table_writer.rows.merge import RowChanges, merged_rows, merged_values, with_constants
from table_writer.surgery.cost import EditSize
from table_writer.surgery.opened import OpenedFile, StoredRows
from table_writer.surgery.policy import CannotSplice, SurgeryPolicy
from table_writer.surgery.splice import Dropped, GroupEdit, NewColumns

types = pa.types


def changed_columns(old: pa.Table, new: pa.Table, names: Iterable[str]) -> list[str]:
    """The columns in which some row differs; where that is not certain they count as different.

    Values are equal when their bits are: 0.0 differs from -0.0, and NaNs are equal with equal bits.

    Args:
        old: rows as they are.
        new: the rows that replace them, one by one.
        names: columns of both to compare.
    """
    return [name for name in names if not _same(_values(old, name), _values(new, name))]


def _values(table: pa.Table, name: str) -> Any:
    column = one_chunk(table.column(name))
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _same(old: Any, new: Any) -> bool:
    if old.type != new.type or len(old) != len(new):
        return False
    if types.is_floating(old.type):
        return _same_bits(old, new)
    if holds(old.type, types.is_floating):
        return False  # Arrow does not distinguish 0.0 and -0.0 there
    return bool(old.equals(new))


def _same_bits(old: Any, new: Any) -> bool:
    valid = valid_mask(old)
    if not np.array_equal(valid, valid_mask(new)):
        return False
    width = f"u{old.type.bit_width // 8}"
    return np.array_equal(to_numpy(old).view(width)[valid], to_numpy(new).view(width)[valid])


Rows = npt.NDArray[np.int64]

_STAMPS = (COMMIT_TIME, COMMIT_SEQNO)

_OVERFULL = 1.5
_SAMPLED = 8  # columns that are compared first


def _none() -> Rows:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Touched:
    """Changes of a write to one row group.

    Attributes:
        number: ordinal of the group.
        replaced: its rows that get new values.
        by: the batch's row for each of them.
        gone: its rows that are deleted.
        inserted: rows of the batch that are added to it.
        folded: its rows move to the end of the file, together with new ones.
    """

    number: int
    replaced: Rows = field(default_factory=_none)
    by: Rows = field(default_factory=_none)
    gone: Rows = field(default_factory=_none)
    inserted: Rows = field(default_factory=_none)
    folded: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all of its columns are encoded again."""
        return bool(len(self.gone) or len(self.inserted) or self.folded)


class GroupEdits:
    """Computes the edits of one file.

    Attributes:
        sample: the first row group that was compared and what was read of its rows, while an edit may be refused by
            what it shows.
    """

    def __init__(self, change: FileChange, opened: OpenedFile, policy: SurgeryPolicy) -> None:
        self._change = change
        self._opened = opened
        self._policy = policy
        self._kept = change.incoming.kept_columns
        self._user = [name for name in opened.schema.names if name not in META_COLUMNS and name not in self._kept]
        self.sample: tuple[int, StoredRows] | None = None
        self._rows = [name for name in opened.schema.names if name not in (PARTITION_PATH, FILE_NAME)]

    def make(
        self, touched: Sequence[Touched], appended: Rows, full: int
    ) -> tuple[dict[int, GroupEdit], list[pa.Table]]:
        """The edits of row groups by ordinal, and the new row groups after them.

        Args:
            touched: row groups with changes.
            appended: rows of the batch for the end of the file.
            full: rows of a full row group.

        Raises:
            CannotSplice: a whole rewrite is estimated to cost less.
        """
        self._refuse(touched, len(appended), ())
        self._refuse_by_sample(touched, len(appended))
        edits: dict[int, GroupEdit] = {}
        at_end: list[pa.Table] = []
        sampled = False
        for group in touched:
            if not group.is_whole:
                edits[group.number] = columns = self._updated(group, keep=not sampled)
                if not sampled:
                    self._refuse(touched, len(appended), columns.table.column_names, decoded=1)
                    sampled, self.sample = True, None
                continue
            rows = self._rebuilt(group)
            if group.folded or len(rows) == 0:
                edits[group.number] = Dropped()
                at_end += [rows] if len(rows) else []
            else:
                edits[group.number] = NewColumns(self._with_constants(rows))
        return edits, self._at_end(at_end, appended, full)

    def _updated(self, group: Touched, *, keep: bool) -> NewColumns:
        """The columns in which updated rows differ, and the meta columns of commit time and sequence number."""
        new = self._change.added
        known = self.sample[1] if keep and self.sample is not None else None
        stored = self._opened.read_stored([group.number], [*_STAMPS, *self._user], known)
        self.sample = (group.number, stored) if keep else None
        replaced = stored.table(self._user, from_numpy(group.replaced))
        changed = changed_columns(replaced, new.take(from_numpy(group.by)), self._user)
        old = stored.table([*_STAMPS, *changed])
        rows = np.arange(len(old))
        rows[group.replaced] = len(old) + group.by
        return NewColumns(merged_values(old, new, rows, np.arange(len(old))))

    def _rebuilt(self, group: Touched) -> pa.Table:
        """All rows of a group after the write, without the constant meta columns of partition and file name."""
        old = self._opened.read([group.number], self._rows)
        changes = RowChanges(group.replaced, group.by, group.gone, group.inserted)
        keys = one_chunk(old.column(RECORD_KEY))
        merged = merged_rows(keys, self._change.incoming.keys, changes)
        return merged_values(old, self._new_rows(old), merged.rows, merged.places, self._kept)

    def _new_rows(self, like: pa.Table) -> pa.Table:
        return like.slice(0, 0) if self._change.plan.delete else self._change.added

    def _at_end(self, at_end: list[pa.Table], appended: Rows, full: int) -> list[pa.Table]:
        """Row groups of appended rows and of those of folded row groups."""
        if len(appended):
            new = self._change.added.select(self._rows).take(from_numpy(appended))
            at_end = [*at_end, _as_plain(new)]
        if not at_end:
            return []
        if len(at_end) > 1:
            at_end = [_as_plain(rows) for rows in at_end]
        rows = pa.concat_tables(at_end).unify_dictionaries().combine_chunks()
        rows = self._with_constants(rows.take(pc.sort_indices(one_chunk(rows.column(RECORD_KEY)))))
        count = max(1, round(len(rows) / (full * _OVERFULL) + 0.5)) if len(rows) > full * _OVERFULL else 1
        edges = np.linspace(0, len(rows), count + 1).astype(np.int64)
        return [rows.slice(start, end - start) for start, end in itertools.pairwise(edges.tolist())]

    def _with_constants(self, rows: pa.Table) -> pa.Table:
        return with_constants(rows, self._change.partition, self._change.name)

    def _refuse_by_sample(self, touched: Sequence[Touched], appended: int) -> None:
        """Refuse an edit of columns that are as many as a few of them tell.

        Comparing all columns of a row group that is rewritten then costs up to two fifths of the rewrite.
        """
        group = next((group for group in touched if not group.is_whole), None)
        step = len(self._user) // _SAMPLED
        if group is None or step <= 1 or self._policy.too_costly(self._size(touched, appended, self._user)) is None:
            return
        sample = self._user[step // 2 :: step]
        stored = self._opened.read_stored([group.number], sample)
        self.sample = (group.number, stored)
        old = stored.table(sample, from_numpy(group.replaced))
        changed = set(changed_columns(old, self._change.added.take(from_numpy(group.by)), sample))
        alike = (sample[min(number // step, len(sample) - 1)] for number in range(len(self._user)))
        names = [name for name, sampled in zip(self._user, alike, strict=True) if sampled in changed]
        self._refuse(touched, appended, names)

    def _refuse(self, touched: Sequence[Touched], appended: int, changed: Sequence[str], *, decoded: int = 0) -> None:
        """Refuse an edit that would encode too many bytes, or not pay, by an estimate.

        Args:
            touched: row groups with changes.
            appended: new rows at the end.
            changed: columns that change in each row group that is not rebuilt.
            decoded: how many of the row groups are decoded already.
        """
        size = self._size(touched, appended, changed, decoded=decoded)
        reason = self._policy.too_much(size) or self._policy.too_costly(size)
        if reason is not None:
            raise CannotSplice(reason)

    def _size(self, touched: Sequence[Touched], appended: int, changed: Sequence[str], *, decoded: int = 0) -> EditSize:
        return self._opened.chunks.edit(
            updated=[group.number for group in touched if not group.is_whole],
            rebuilt=[group.number for group in touched if group.is_whole],
            compared=[*_STAMPS, *self._user],
            changed=[*_STAMPS, *changed],
            statistics=_with_unknown_bounds(self._change, self._opened.schema),
            appended=appended,
            decoded=decoded,
        )


def _with_unknown_bounds(change: FileChange, schema: pa.Schema) -> list[str]:
    """Columns whose bounds are not taken from a footer: it does not show NaN, and fields of structs are decoded."""
    roots = {name: root_of(schema, name) for name in change.plan.indexed or ()}
    return [root for name, root in roots.items() if name != root or types.is_floating(schema.field(name).type)]


def _as_plain(rows: pa.Table) -> pa.Table:
    """Without dictionaries, so that rows from several tables have one schema."""
    columns: list[Any] = [one_chunk(column) for column in rows.columns]
    plain = [column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column for column in columns]
    return pa.table(plain, names=rows.column_names)
