"""An upsert or a delete on a base file by surgery: what did not change is copied, what did is decoded and encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.base_file.footer import AVRO_SCHEMA, MODEL_NAME
from table_format.base_file.writer import BaseFileOptions
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.meta_columns import FILE_NAME, RECORD_KEY
from table_writer.files.merge_request import FileFacts, MergeRequest, NewVersion
from table_writer.files.written import EncodedWork
from table_writer.rows.merge import RowChanges
from table_writer.surgery.group_edits import GroupEdits, Touched
from table_writer.surgery.inserts import is_small, place_inserts
from table_writer.surgery.key_texts import key_texts
from table_writer.surgery.locate import KeyRange, candidate_groups
from table_writer.surgery.opened import OpenedFile, open_file
from table_writer.surgery.policy import Mode, SurgeryPolicy
from table_writer.surgery.refusal import CannotSplice
from table_writer.surgery.splice import FileEdit, splice
from table_writer.surgery.statistics import spliced_statistics

Rows = npt.NDArray[np.int64]

_SAMPLE = 8192


def merge_by_surgery(request: MergeRequest) -> NewVersion | None:
    """Merge rows into a file without decoding more of it than they touch.

    Returns:
        None when nothing changes.

    Raises:
        CannotSplice: the file is to be written anew as a whole, because it or the options or the bounds of the policy
            ask for it.
        HudiError: as for a whole rewrite.
    """
    plan = request.plan
    policy = SurgeryPolicy.of(plan.file_options)
    if policy.mode is Mode.NEVER:
        raise CannotSplice("the options say so")
    if plan.history is not None and not plan.history.is_current(request.path):
        raise CannotSplice("the table's columns have changed since")
    with open_file(plan.storage, request.path, avro_to_arrow(plan.footer_schema)) as opened:
        _refuse(policy.too_small(opened.footer.size))
        return _Merge(request, policy, opened).run()


def _refuse(reason: str | None) -> None:
    if reason is not None:
        raise CannotSplice(reason)


class _Merge:
    def __init__(self, request: MergeRequest, policy: SurgeryPolicy, opened: OpenedFile) -> None:
        self.request = request
        self.policy = policy
        self.opened = opened
        self.settings = BaseFileOptions.of(request.plan.file_options)

    def run(self) -> NewVersion | None:
        """Locate, compare, edit."""
        opened = self.opened
        with opened.key_pages() as pages:
            candidates = candidate_groups(opened.footer, opened.ranges, self.request.incoming.keys, pages)
        old = self.opened.read(candidates, list(dict.fromkeys([RECORD_KEY, *self.request.ordering])))
        old_keys = one_chunk(old.column(RECORD_KEY))
        changes = self.request.changes(old, old_keys)
        if not changes.changed:
            return None
        touched, appended = self._touched(candidates, changes)
        edits = GroupEdits(self.request, self.opened, self.policy)
        groups, rows_at_end = edits.make(touched, appended, self._full_rows())
        edit = FileEdit(
            groups=groups,
            appended=rows_at_end,
            constants={FILE_NAME: self.request.name},
            texts=self._texts(),
        )
        return self._spliced(edit, old_keys, changes)

    def _touched(self, candidates: list[int], changes: RowChanges) -> tuple[list[Touched], Rows]:
        """The row groups to edit, and the new rows that go behind them."""
        touched = _by_group(candidates, [bounds.rows for bounds in self.opened.ranges], changes)
        encoded = {group.number for group in touched if len(group.gone)}
        full = self._full_rows()
        places = place_inserts(
            self.opened.ranges,
            self.request.incoming.keys,
            changes.inserted,
            encoded=encoded,
            full=full,
            most_small=self.policy.max_small,
        )
        found = {group.number: group for group in touched}
        for number, rows in places.into.items():
            found[number].inserted = rows
        for number in places.folded:
            found.setdefault(number, Touched(number)).folded = True
        self._check_order(list(found.values()), places.appended, full)
        return [found[number] for number in sorted(found)], places.appended

    def _check_order(self, touched: list[Touched], appended: Rows, full: int) -> None:
        """Refuse an edit that leaves the file in too many or too mixed row groups."""
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
            keys = self.request.incoming.keys
            ranges.append(KeyRange(at_end, keys[int(appended[0])].as_py(), keys[int(appended[-1])].as_py()))
        before = sum(is_small(bounds.rows, full) for bounds in self.opened.ranges)
        small = sum(is_small(bounds.rows, full) for bounds in ranges)
        _refuse(self.policy.too_many_small(small) if small > max(1, before) else None)
        _refuse(self.policy.too_loose(ranges) if at_end else None)

    def _full_rows(self) -> int:
        """Rows of a full row group."""
        if self.request.plan.delete:
            return max(bounds.rows for bounds in self.opened.ranges)
        return self.settings.rows_per_group(self.request.added.slice(0, _SAMPLE))

    def _texts(self) -> dict[str, str | None]:
        plan = self.request.plan
        return {**plan.footer_texts, AVRO_SCHEMA: plan.footer_schema, MODEL_NAME: "avro"}

    def _spliced(self, edit: FileEdit, old_keys: Any, changes: RowChanges) -> NewVersion:
        plan, request = self.request.plan, self.request
        keys = key_texts(
            plan.storage,
            request.path,
            self.opened.footer,
            edit,
            self.settings,
            inserted=request.incoming.keys.take(from_numpy(changes.inserted)),
        )
        edit = FileEdit(edit.groups, edit.appended, edit.constants, {**edit.texts, **keys})
        request.announce()
        result = splice(plan.storage, request.path, request.target, edit, self.settings, footer=self.opened.structs)
        statistics: pa.Table | None = None
        if plan.indexed is not None:
            statistics = spliced_statistics(
                plan.storage,
                request.target,
                result.metadata,
                self.opened.schema,
                plan.indexed,
                file_name=request.name,
                partition=request.partition,
            )
        work = EncodedWork(
            bytes_encoded=result.bytes_encoded,
            bytes_copied=result.bytes_copied,
            chunks_encoded=result.chunks_encoded,
            groups_touched=result.groups_touched,
            spliced=1,
        )
        facts = FileFacts(result.size, result.row_count, work, statistics)
        return NewVersion.of(request, old_keys, changes, facts)


def _by_group(candidates: list[int], rows: list[int], changes: RowChanges) -> list[Touched]:
    """Changes to rows of the candidate groups, one after the other, as changes to rows of each."""
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
