"""An upsert or delete on a base file by surgery: unchanged column chunks are copied, changed ones encoded again."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.base_file.footer import AVRO_SCHEMA, MODEL_NAME
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.meta_columns import FILE_NAME, RECORD_KEY
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.files.file_change import EncodedWork, FileChange, WrittenFile
from table_writer.files.rewrite import rewrite_rows
from table_writer.metadata.file_contents import statistics_of_file
from table_writer.rows.merge import RowChanges, positions_after
from table_writer.surgery.group_edits import GroupEdits, Touched
from table_writer.surgery.key_texts import key_texts
from table_writer.surgery.locate import KeyRange, candidate_groups
from table_writer.surgery.opened import OpenedFile, open_file
from table_writer.surgery.policy import CannotSplice, Mode, SurgeryPolicy
from table_writer.surgery.splice import FileEdit, splice

Rows = npt.NDArray[np.int64]

_OVERFULL = 1.5

_SMALL = 0.5


@dataclass(frozen=True, slots=True)
class InsertPlaces:
    """Row groups for new rows.

    Attributes:
        into: rows for row groups that are encoded anyway.
        appended: rows for new row groups at the end.
        folded: small row groups whose rows move to the end with them.
    """

    appended: Rows
    into: Mapping[int, Rows] = field(default_factory=dict)
    folded: Sequence[int] = ()


def is_small(rows: int, full: int) -> bool:
    """Whether a row group is small, where a full one has `full` rows."""
    return rows < _SMALL * full


def place_inserts(
    ranges: Sequence[KeyRange], keys: Any, inserted: Rows, *, encoded: Collection[int], full: int, most_small: int
) -> InsertPlaces:
    """Choose a row group for each new row.

    Small row groups are merged with the rows at the end where those are at least half as many, as in a log-structured
    merge: a file that gets a few rows at a time has few small groups, and each row moves only a few times.

    Args:
        ranges: of the file's row groups.
        keys: record keys of the batch, in order.
        inserted: rows of the batch that are new.
        encoded: row groups all of whose columns are encoded anyway.
        full: rows of a full row group.
        most_small: how many small groups the file may have.
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
    rows_by_group = {number: inserted[groups == number] for number in encoded}
    return {
        number: rows
        for number, rows in rows_by_group.items()
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


_SAMPLE = 8192


def merge_by_surgery(change: FileChange, *, or_whole: bool = False) -> WrittenFile | None:
    """Merge rows into a file without decoding more of it than they touch.

    Args:
        change: of the file.
        or_whole: rewrite the file where an edit would not pay; what was read of it to decide so is not read again.

    Returns:
        None when nothing changes.

    Raises:
        CannotSplice: the file has to be rewritten whole, because of the file, the options or the policy's bounds.
        HudiError: as for a whole rewrite.
    """
    plan = change.plan
    policy = SurgeryPolicy.of(plan.file_options)
    if policy.mode is Mode.NEVER:
        raise CannotSplice("the options say so")
    if plan.history is not None and not plan.history.is_current(change.path):
        raise CannotSplice("the table's columns have changed since the file was written")
    schema = avro_to_arrow(plan.footer_schema)
    with open_file(plan.storage, change.path, schema, lambda size: _refuse(policy.too_small(size))) as opened:
        return _Merge(change, policy, opened).run(or_whole=or_whole)


def _refuse(reason: str | None) -> None:
    if reason is not None:
        raise CannotSplice(reason)


class _Merge:
    def __init__(self, change: FileChange, policy: SurgeryPolicy, opened: OpenedFile) -> None:
        self.change = change
        self.policy = policy
        self.opened = opened
        self.settings = BaseFileOptions.of(change.plan.file_options)

    def run(self, *, or_whole: bool) -> WrittenFile | None:
        """Locate the keys, compare rows, edit the file; None when nothing changes."""
        opened = self.opened
        keys = self.change.incoming.keys
        candidates = candidate_groups(opened.footer, opened.ranges, keys, opened.key_pages)
        old = opened.read_keys(candidates, [RECORD_KEY, *self.change.compared])
        old_keys = one_chunk(old.column(RECORD_KEY))
        changes = self.change.row_changes(old, old_keys)
        if not changes.changed:
            return None
        edits = GroupEdits(self.change, self.opened, self.policy)
        try:
            edit = self._edit(edits, candidates, changes)
        except CannotSplice:
            all_keys = len(candidates) == opened.footer.metadata.num_row_groups
            if not or_whole or edits.sample is None or not all_keys:
                raise
            rows = opened.whole(old, *edits.sample)
            return rewrite_rows(self.change, rows, old_keys, changes, opened.footer)
        return self._spliced(edit, old_keys, changes)

    def _edit(self, edits: GroupEdits, candidates: list[int], changes: RowChanges) -> FileEdit:
        touched, appended = self._touched(candidates, changes)
        groups, rows_at_end = edits.make(touched, appended, self._full_rows())
        return FileEdit(
            groups=groups,
            appended=rows_at_end,
            constants={FILE_NAME: self.change.name},
            texts=self._texts(),
        )

    def _touched(self, candidates: list[int], changes: RowChanges) -> tuple[list[Touched], Rows]:
        """The row groups to edit, and the new rows to append."""
        touched = _by_group(candidates, [bounds.rows for bounds in self.opened.ranges], changes)
        encoded = {group.number for group in touched if len(group.gone)}
        full = self._full_rows()
        places = place_inserts(
            self.opened.ranges,
            self.change.incoming.keys,
            changes.inserted,
            encoded=encoded,
            full=full,
            most_small=self.policy.max_small,
        )
        by_number = {group.number: group for group in touched}
        for number, rows in places.into.items():
            by_number[number].inserted = rows
        for number in places.folded:
            by_number.setdefault(number, Touched(number)).folded = True
        self._check_order(list(by_number.values()), places.appended, full)
        return [by_number[number] for number in sorted(by_number)], places.appended

    def _check_order(self, touched: list[Touched], appended: Rows, full: int) -> None:
        """Refuse an edit that leaves too many small row groups, or too many with overlapping keys."""
        after = dict(enumerate(self.opened.ranges))
        at_end = len(appended)
        for group in touched:
            rows = after[group.number].rows - len(group.gone) + len(group.inserted)
            at_end += rows if group.folded else 0
            after[group.number] = KeyRange(rows, after[group.number].first, after[group.number].last)
            if group.folded or rows == 0:
                del after[group.number]
        ranges = list(after.values())
        if not ranges and not at_end:
            raise CannotSplice("no row would be left")
        if at_end:
            keys = self.change.incoming.keys
            ranges.append(KeyRange(at_end, keys[int(appended[0])].as_py(), keys[int(appended[-1])].as_py()))
        before = sum(is_small(bounds.rows, full) for bounds in self.opened.ranges)
        small = sum(is_small(bounds.rows, full) for bounds in ranges)
        _refuse(self.policy.too_many_small(small) if small > max(1, before) else None)
        _refuse(self.policy.too_loose(ranges) if at_end else None)

    def _full_rows(self) -> int:
        """Rows of a full row group."""
        if self.change.plan.delete:
            return max(bounds.rows for bounds in self.opened.ranges)
        return self.settings.rows_per_group(self.change.added.slice(0, _SAMPLE))

    def _texts(self) -> dict[str, str | None]:
        plan = self.change.plan
        return {**plan.footer_texts, AVRO_SCHEMA: plan.footer_schema, MODEL_NAME: "avro"}

    def _spliced(self, edit: FileEdit, old_keys: Any, changes: RowChanges) -> WrittenFile:
        plan, change = self.change.plan, self.change
        structs = self.opened.structs  # may still refuse, which has to be before the file is announced
        keys = key_texts(
            plan.storage,
            change.path,
            self.opened.footer,
            edit,
            self.settings,
            inserted=change.incoming.keys.take(from_numpy(changes.inserted)),
        )
        edit = FileEdit(edit.groups, edit.appended, edit.constants, {**edit.texts, **keys})
        change.announce()
        result = splice(plan.storage, change.path, change.target, edit, self.settings, footer=structs)
        statistics: pa.Table | None = None
        if plan.indexed is not None:
            statistics = statistics_of_file(
                plan.storage,
                change.target,
                result.metadata,
                self.opened.schema,
                plan.indexed,
                file_name=change.name,
                partition=change.partition,
            )
        work = EncodedWork(
            bytes_encoded=result.bytes_encoded,
            bytes_copied=result.bytes_copied,
            chunks_encoded=result.chunks_encoded,
            groups_touched=result.groups_touched,
            spliced=1,
        )
        return change.merged(
            old_keys, changes, size=result.size, row_count=result.row_count, work=work, statistics=statistics
        )


def _by_group(candidates: list[int], rows: list[int], changes: RowChanges) -> list[Touched]:
    """Changes to the concatenated rows of the candidate groups, as changes to rows of each group."""
    ends = np.cumsum([rows[number] for number in candidates])
    touched = []
    for number, end in zip(candidates, ends, strict=True):
        start = end - rows[number]
        replaced = (changes.replaced >= start) & (changes.replaced < end)
        gone = (changes.gone >= start) & (changes.gone < end)
        if replaced.any() or gone.any():
            group = Touched(
                number, changes.replaced[replaced] - start, changes.by[replaced], changes.gone[gone] - start
            )
            touched.append(group)
    return touched
