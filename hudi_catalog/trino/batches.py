"""The splits of a plan in batches, the tokens that continue them, and the scans in progress.

A token names the snapshot and the last file returned. Plans are cached for a while; a service without the plan makes it
again at the same snapshot. The new plan may have other files, and may split them otherwise, so a batch does not
continue "from the 1,000th split" but "after this row group of this file": plans are ordered by partition and file
group.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import LruCache
from catalog.planner import Plan
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from catalog.splits.splitter import SplitRules, Splitter
from catalog.statistics.indexed_column import IndexedColumn
from hudi_catalog.trino.split_id import Purpose, SplitCodec, TrinoSplit
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, nulls, to_numpy
from table_format.errors import ServiceError, SplitError
from table_format.meta_columns import RECORD_KEY

_CACHED_SCANS = 256
_ALL_GROUPS = -1
# A batch ends after this many bytes of split ids, well below any client's frame limit.
_MAX_BATCH_BYTES = 4 << 20
# Files split at a time.
_CHUNK = 256
# Merging log files costs several times as much as reading a base file of their size.
_MERGE_COST = 4
# Small files share a split to save requests, as long as there are enough splits to keep the workers busy.
_MAX_FILES = 64
_MIN_SPLITS = 32


@dataclass(frozen=True)
class SplitBatch:
    """Some splits of a scan.

    Attributes:
        split_ids: ids of the splits.
        next_token: token of the next batch; None after the last one.
    """

    split_ids: list[bytes]
    next_token: bytes | None = None


@dataclass(frozen=True, eq=False)
class PlannedScan:
    """A plan, and what its splits have in common.

    Attributes:
        plan: the files to read, ordered by partition and file group.
        template: a split without its files.
        row_counts: rows of each file, null where unknown; None unless the query only counts.
    """

    plan: Plan
    template: TrinoSplit
    row_counts: Any = None

    @classmethod
    def of(cls, plan: Plan, template: TrinoSplit, *, counted: bool = False) -> PlannedScan:
        """A scan with its files in order, and with an id if the template has none.

        Args:
            plan: of the scan.
            template: a split without its files.
            counted: the query only counts rows, without a filter.
        """
        named = template if template.scan else replace(template, scan=secrets.token_hex(8))
        ordered = in_order(plan)
        return cls(ordered, named, row_counts(ordered) if counted else None)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A file slice or a part of one.

    Attributes:
        position: of the slice in the plan.
        slice: to be read.
        ends_slice: whether it is the last part of the slice.
    """

    position: int
    slice: FileSlice
    ends_slice: bool

    @property
    def weight(self) -> int:
        """Bytes to read, as a measure of work; 0 for rows counted from statistics."""
        one = self.slice
        if one.row_groups is None and one.record_count is not None:
            return 0
        return one.size * _MERGE_COST if one.logs else one.length


@dataclass(frozen=True)
class _Continuation:
    """Where a scan continues; the payload of a token.

    Attributes:
        scan: id of the scan.
        table: name of the table.
        pin: pin of the snapshot.
        position: of the next file in the plan of the service that issued the token.
        partition: of the last file; None before the first one.
        file_id: of the last file.
        group: its last row group; -1 when the whole file has been returned.
    """

    scan: str
    table: str
    pin: str
    position: int = 0
    partition: str | None = None
    file_id: str = ""
    group: int = _ALL_GROUPS

    def is_inside(self, slice_: FileSlice) -> bool:
        """Whether some row groups of the slice's file have been returned and others not."""
        return self.group != _ALL_GROUPS and (slice_.partition, slice_.file_id) == (self.partition, self.file_id)

    def after(self, piece: _Piece) -> _Continuation:
        """Where the scan continues after a piece."""
        one = piece.slice
        if piece.ends_slice or one.row_groups is None:
            position, group = piece.position + 1, _ALL_GROUPS
        else:
            position, group = piece.position, one.row_groups[-1]
        return replace(self, position=position, partition=one.partition, file_id=one.file_id, group=group)

    def to_bytes(self) -> bytes:
        return json.dumps(astuple(self)).encode()

    @classmethod
    def of(cls, payload: bytes) -> _Continuation:
        try:
            return cls(*json.loads(payload))
        except (ValueError, TypeError) as error:
            raise SplitError(
                f"a token of splits that is signed but unreadable ({error}): run the query again"
            ) from None


class SplitBatches:
    """Returns the splits of planned scans in batches.

    Args:
        codec: signs split ids and tokens.
        scans: tracks the scans in progress.
        split_size: base files of more bytes are split by row groups; None for never.
    """

    def __init__(self, codec: SplitCodec, scans: OpenScans, split_size: int | None) -> None:
        self._codec = codec
        self._open = scans
        self._split_size = split_size
        self._splitter = Splitter(SplitRules())
        self._plans: LruCache[str, PlannedScan] = LruCache(_CACHED_SCANS)

    def first(self, scan: PlannedScan, limit: int) -> SplitBatch:
        """The first batch of a scan.

        Args:
            scan: the planned scan.
            limit: greatest number of splits.

        Raises:
            ServiceError: the limit is less than one.
        """
        template = scan.template
        return self._batch(scan, _Continuation(template.scan, template.table, template.pin), limit)

    def next(self, token: bytes, table: str, replan: Callable[[str], PlannedScan], limit: int) -> SplitBatch:
        """The batch after another one.

        Args:
            token: of the previous batch.
            table: name of the table.
            replan: plans the scan again at the snapshot of a pin, if its plan is no longer cached.
            limit: greatest number of splits.

        Raises:
            SplitError: the token is forged or expired, or the snapshot no longer exists.
        """
        start = _Continuation.of(self._codec.open(Purpose.SPLITS_TOKEN, token))
        if start.table != table:
            raise SplitError(f"a token of splits of {start.table} for {table}")
        scan = self._plans.get(start.scan)
        if scan is None:
            scan = replan(start.pin)
            scan = replace(scan, template=replace(scan.template, scan=start.scan))
        return self._batch(scan, replace(start, position=_position(scan.plan, start)), limit)

    def _batch(self, scan: PlannedScan, start: _Continuation, limit: int) -> SplitBatch:
        """The batch from a continuation on."""
        if limit < 1:
            raise ServiceError(f"{limit} splits were requested: it has to be at least one")
        ids: list[bytes] = []
        size, next_start, last = 0, None, start
        for split, after in self._from(scan, start):
            if len(ids) == limit or size > _MAX_BATCH_BYTES:
                next_start = last
                break
            ids.append(self._codec.pack(split))
            size += len(ids[-1])
            last = after
        self._open.splits_returned(start.scan, len(ids), all_returned=next_start is None)
        if next_start is None:
            self._plans.pop(start.scan)
            return SplitBatch(ids)
        self._plans.put(start.scan, scan)
        return SplitBatch(ids, self._codec.seal(Purpose.SPLITS_TOKEN, next_start.to_bytes()))

    def _from(self, scan: PlannedScan, start: _Continuation) -> Iterator[tuple[TrinoSplit, _Continuation]]:
        """Each split, and the continuation after it: small files share a split, parts of large ones do not."""
        bundle_bytes = self._bundle_bytes(scan.plan)
        bundle: list[_Piece] = []
        size = 0
        for piece in self._pieces(scan, start):
            fits = len(bundle) < _MAX_FILES and size + piece.weight <= bundle_bytes
            if bundle and not (fits and _is_whole(piece) and _is_whole(bundle[-1])):
                yield _split(scan, bundle), start.after(bundle[-1])
                bundle, size = [], 0
            bundle.append(piece)
            size += piece.weight
        if bundle:
            yield _split(scan, bundle), start.after(bundle[-1])

    def _pieces(self, scan: PlannedScan, start: _Continuation) -> Iterator[_Piece]:
        """The slices of a plan from a continuation on, or their parts, split lazily."""
        plan, counts = scan.plan, scan.row_counts
        for begin in range(start.position, len(plan), _CHUNK):
            slices = plan.snapshot.file_slices(plan.rows[begin : begin + _CHUNK])
            if counts is not None:
                known = counts.slice(begin, _CHUNK).to_pylist()
                slices = [replace(one, record_count=count) for one, count in zip(slices, known, strict=True)]
            for position, parts in enumerate(self._divided(plan, slices), begin):
                for number, part in enumerate(parts, 1):
                    rest = row_groups_after(plan.snapshot, part, start.group) if start.is_inside(part) else part
                    if rest is not None:
                        yield _Piece(position, rest, number == len(parts))

    def _divided(self, plan: Plan, slices: Sequence[FileSlice]) -> list[list[FileSlice]]:
        parts = [[one] for one in slices]
        if self._split_size is None or not plan.snapshot.footers_apply:
            return parts
        uncounted = [at for at, one in enumerate(slices) if one.record_count is None]
        divided = self._splitter.divide(
            plan.snapshot.client.storage,
            [slices[at] for at in uncounted],
            [plan.expression] * len(uncounted),
            self._split_size,
        )
        for at, of_slice in zip(uncounted, divided, strict=True):
            parts[at] = of_slice
        return parts

    def _bundle_bytes(self, plan: Plan) -> int:
        even_share = plan.bytes_kept // _MIN_SPLITS
        return even_share if self._split_size is None else min(even_share, self._split_size)


def _position(plan: Plan, start: _Continuation) -> int:
    """Where to continue in a plan; the token may come from another service, whose plan has other files."""
    if start.partition is None:
        return 0
    whole = start.group == _ALL_GROUPS
    last = start.position - whole
    if 0 <= last < len(plan):
        files = plan.snapshot.take_files(plan.rows[last : last + 1]).select(["partition", "file_id"]).to_pylist()
        if files == [{"partition": start.partition, "file_id": start.file_id}]:
            return start.position
    return position_after(plan, start.partition, start.file_id, whole=whole)


def _is_whole(piece: _Piece) -> bool:
    return piece.slice.row_groups is None


def _split(scan: PlannedScan, bundle: Sequence[_Piece]) -> TrinoSplit:
    return replace(scan.template, slices=tuple(piece.slice for piece in bundle))


@dataclass
class _ScanProgress:
    """Progress of a scan.

    Attributes:
        unread: splits returned to Trino and not yet read to their end.
        all_returned: whether all splits were returned.
        last_used: time of the last request.
    """

    unread: int
    all_returned: bool
    last_used: float


class OpenScans:
    """Counts the scans in progress, so that a service can let them finish before it stops. Thread-safe.

    A query with LIMIT leaves splits unread without notice, so an idle scan does not count.

    Args:
        idle_seconds: time without a request after which a scan counts as ended.
        limit: number of scans tracked; the least recently used are forgotten.
        clock: monotonic seconds.
    """

    def __init__(
        self, idle_seconds: float = 10.0, limit: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle = idle_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._scans: LruCache[str, _ScanProgress] = LruCache(limit)

    def splits_returned(self, scan: str, splits: int, *, all_returned: bool) -> None:
        """Note that further splits of a scan were returned to Trino."""
        with self._lock:
            progress = self._scans.setdefault(scan, _ScanProgress(0, all_returned, 0.0))
            progress.unread += splits
            progress.all_returned = all_returned
            self._use(scan, progress)

    def page_served(self, scan: str, *, is_last: bool) -> None:
        """Note that a page of a split was served, the split's last one or not."""
        with self._lock:
            progress = self._scans.get(scan)
            if progress is not None:
                progress.unread -= is_last
                self._use(scan, progress)

    def count(self) -> int:
        """Number of scans in progress."""
        oldest = self._clock() - self._idle
        return sum(progress.last_used >= oldest for _, progress in self._scans.items())

    def _use(self, scan: str, progress: _ScanProgress) -> None:
        progress.last_used = self._clock()
        if progress.all_returned and progress.unread <= 0:
            self._scans.pop(scan)


def in_order(plan: Plan) -> Plan:
    """The plan with its files ordered by partition and file group, an order that no refresh changes."""
    if len(plan) < 2:
        return plan
    files = plan.snapshot.take_files(plan.rows).select(["partition", "file_id"])
    order = to_numpy(pc.sort_indices(files, sort_keys=[("partition", "ascending"), ("file_id", "ascending")]))
    order = order.astype(np.int64)
    return replace(plan, rows=plan.rows[order], fully_matching=plan.fully_matching[order])


def position_after(plan: Plan, partition: str, file_id: str, *, whole: bool) -> int:
    """The position in an ordered plan of the first file after another one, which need not be in the plan.

    Args:
        plan: result of `in_order`.
        partition: of the other file.
        file_id: of the other file.
        whole: False to include the other file itself.
    """
    files = plan.snapshot.take_files(plan.rows)
    partitions, file_ids = files.column("partition"), files.column("file_id")
    less = pc.less_equal if whole else pc.less
    before = pc.or_(pc.less(partitions, partition), pc.and_(pc.equal(partitions, partition), less(file_ids, file_id)))
    return int(pc.sum(before, min_count=0).as_py() or 0)


def row_counts(plan: Plan) -> Any:
    """Rows of each file by the record key's statistics; null where unknown, or where log files may change them."""
    snapshot = plan.snapshot
    keys = snapshot.indexed_column(RECORD_KEY, pa.string()) if RECORD_KEY in snapshot.schema.names else None
    if not isinstance(keys, IndexedColumn):
        return nulls(len(plan), pa.int64())
    plain = from_numpy(~snapshot.has_logs[plan.rows])
    return pc.if_else(plain, keys.row_count.take(from_numpy(plan.rows)).cast(pa.int64()), pa.scalar(None, pa.int64()))


def row_groups_after(snapshot: Snapshot, slice_: FileSlice, group: int) -> FileSlice | None:
    """The part of a slice after a row group; None if there is none."""
    groups = slice_.row_groups
    if groups is None:  # this plan does not split the file, and the previous one did
        groups = tuple(range(footer(snapshot.client.storage, str(slice_.base)).metadata.num_row_groups))
    rest = tuple(one for one in groups if one > group)
    return replace(slice_, row_groups=rest, record_count=None) if rest else None
