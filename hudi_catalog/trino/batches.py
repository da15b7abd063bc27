"""The splits of a plan in batches, and the tokens between them.

The token names the snapshot and the last file that was handed out. The plan itself is kept here for a while; a service
that does not have it plans again at the same snapshot. Another plan may keep other files, and may divide them
otherwise, so what goes on is not "from the 1,000th split", but "after this row group of this file": all plans go by
partition and file group.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from catalog.planner import Plan
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import IndexedColumn, Snapshot
from catalog.splits.splitter import SplitRules, Splitter
from hudi_catalog.server.recent import Recent
from hudi_catalog.trino.split_id import Purpose, SplitCodec, TrinoSplit
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy, to_numpy
from table_format.errors import ServiceError, SplitError
from table_format.meta_columns import RECORD_KEY

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take
nulls: Any = pa.nulls  # its stubs take one type at a time
_KEPT_SCANS = 256
_ALL_GROUPS = -1
# A batch ends behind so many bytes of split ids, so that no client's limit of a frame is met.
_MOST_BYTES = 4 << 20
# Files that are divided at once.
_CHUNK = 256
# To merge log files costs several times what it costs to read a base file of their size.
_MERGING = 4
# Small files go together, so that not each one costs a request; but not so that workers have nothing to do.
_MOST_FILES = 64
_LEAST_SPLITS = 32


@dataclass(frozen=True)
class SplitBatch:
    """Some splits of a scan.

    Attributes:
        split_ids: their ids.
        next_token: what to ask for the next ones with; None when these are the last.
    """

    split_ids: list[bytes]
    next_token: bytes | None = None


@dataclass(frozen=True, eq=False)
class PlannedScan:
    """A plan, and what its splits have in common.

    Attributes:
        plan: which files to read.
        template: a split without its files.
        row_counts: of each file, null where they are not known; None when rows are read.
    """

    plan: Plan
    template: TrinoSplit
    row_counts: Any = None

    @classmethod
    def of(cls, plan: Plan, template: TrinoSplit, *, counted: bool = False) -> PlannedScan:
        """With the files in the order of partition and file group, and an id if the template has none.

        Args:
            plan: as made.
            template: a split without its files.
            counted: rows are only counted, and all of them count.
        """
        named = template if template.scan else replace(template, scan=secrets.token_hex(8))
        ordered = in_order(plan)
        return cls(ordered, named, row_counts(ordered) if counted else None)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A file slice or a part of one, as it is handed out.

    Attributes:
        position: of the slice in the plan.
        slice: to be read.
        ends_slice: whether no part of the slice comes after this one.
    """

    position: int
    slice: FileSlice
    ends_slice: bool

    @property
    def weight(self) -> int:
        """Bytes, as a measure of the work; none for rows that are counted already."""
        one = self.slice
        if one.row_groups is None and one.record_count is not None:
            return 0
        return one.size * _MERGING if one.logs else one.length


@dataclass(frozen=True)
class _Place:
    """How far the splits of a scan were handed out.

    Attributes:
        scan: id of the scan.
        table: its name.
        pin: of its snapshot.
        position: of the file in the sorted plan of the service that wrote this.
        partition: of the last file, None before the first.
        file_id: of the last file.
        group: its last row group; -1 when all of the file was handed out.
    """

    scan: str
    table: str
    pin: str
    position: int = 0
    partition: str | None = None
    file_id: str = ""
    group: int = _ALL_GROUPS

    def is_inside(self, slice_: FileSlice) -> bool:
        """Whether some row groups of the slice's file were handed out, and others not."""
        return self.group != _ALL_GROUPS and (slice_.partition, slice_.file_id) == (self.partition, self.file_id)

    def after(self, piece: _Piece) -> _Place:
        """The place behind a piece."""
        one = piece.slice
        if piece.ends_slice or one.row_groups is None:
            position, group = piece.position + 1, _ALL_GROUPS
        else:
            position, group = piece.position, one.row_groups[-1]
        return replace(self, position=position, partition=one.partition, file_id=one.file_id, group=group)

    def to_bytes(self) -> bytes:
        return json.dumps(astuple(self)).encode()

    @classmethod
    def of(cls, payload: bytes) -> _Place:
        try:
            return cls(*json.loads(payload))
        except (ValueError, TypeError) as error:
            raise SplitError(
                f"a token of splits that is signed and unreadable ({error}): run the query again"
            ) from None


class SplitBatches:
    """Hands out the splits of planned scans.

    Args:
        codec: signs split ids and tokens.
        scans: follows the scans that are under way.
        split_size: base files of more bytes are divided by row groups; None for no division.
    """

    def __init__(self, codec: SplitCodec, scans: OpenScans, split_size: int | None) -> None:
        self._codec = codec
        self._open = scans
        self._split_size = split_size
        self._splitter = Splitter(SplitRules())
        self._kept: Recent[PlannedScan] = Recent(_KEPT_SCANS)

    def first(self, scan: PlannedScan, most: int) -> SplitBatch:
        """The first splits of a scan.

        Args:
            scan: as planned.
            most: splits at most.

        Raises:
            ServiceError: that is none.
        """
        template = scan.template
        return self._batch(scan, _Place(template.scan, template.table, template.pin), most)

    def next(self, token: bytes, table: str, replan: Callable[[str], PlannedScan], most: int) -> SplitBatch:
        """The splits behind those of an earlier batch.

        Args:
            token: of that batch.
            table: its name.
            replan: plans the scan again at the snapshot of a pin, in case that its plan is no longer kept.
            most: splits at most.

        Raises:
            SplitError: the token is forged or too old, or the table's state of then is not known any more.
        """
        place = _Place.of(self._codec.open(Purpose.SPLITS_TOKEN, token))
        if place.table != table:
            raise SplitError(f"a token of splits of {place.table} for {table}")
        scan = self._kept.get(place.scan)
        if scan is None:
            scan = replan(place.pin)
            scan = replace(scan, template=replace(scan.template, scan=place.scan))
        return self._batch(scan, replace(place, position=_position(scan.plan, place)), most)

    def _batch(self, scan: PlannedScan, place: _Place, most: int) -> SplitBatch:
        """The splits from a place on."""
        if most < 1:
            raise ServiceError(f"{most} splits were asked for: it has to be at least one")
        ids: list[bytes] = []
        size, next_place, last = 0, None, place
        for split, after in self._from(scan, place):
            if len(ids) == most or size > _MOST_BYTES:
                next_place = last
                break
            ids.append(self._codec.pack(split))
            size += len(ids[-1])
            last = after
        self._open.handed_out(place.scan, len(ids), all_out=next_place is None)
        if next_place is None:
            self._kept.drop(place.scan)
            return SplitBatch(ids)
        self._kept.put(place.scan, scan)
        return SplitBatch(ids, self._codec.seal(Purpose.SPLITS_TOKEN, next_place.to_bytes()))

    def _from(self, scan: PlannedScan, place: _Place) -> Iterator[tuple[TrinoSplit, _Place]]:
        """Each split from a place on, and the place after it: small files together, parts of large ones alone."""
        most_bytes = self._bundle_bytes(scan.plan)
        bundle: list[_Piece] = []
        held = 0
        for piece in self._pieces(scan, place):
            fits = len(bundle) < _MOST_FILES and held + piece.weight <= most_bytes
            if bundle and not (fits and _is_whole(piece) and _is_whole(bundle[-1])):
                yield _split(scan, bundle), place.after(bundle[-1])
                bundle, held = [], 0
            bundle.append(piece)
            held += piece.weight
        if bundle:
            yield _split(scan, bundle), place.after(bundle[-1])

    def _pieces(self, scan: PlannedScan, place: _Place) -> Iterator[_Piece]:
        """The slices of a plan from a place on, or their parts, divided as they are asked for."""
        plan, counts = scan.plan, scan.row_counts
        for begin in range(place.position, len(plan), _CHUNK):
            slices = plan.snapshot.file_slices(plan.rows[begin : begin + _CHUNK])
            if counts is not None:
                known = counts.slice(begin, _CHUNK).to_pylist()
                slices = [replace(one, record_count=count) for one, count in zip(slices, known, strict=True)]
            for position, parts in enumerate(self._divided(plan, slices), begin):
                for number, part in enumerate(parts, 1):
                    left = behind(plan.snapshot, part, place.group) if place.is_inside(part) else part
                    if left is not None:
                        yield _Piece(position, left, number == len(parts))

    def _divided(self, plan: Plan, slices: Sequence[FileSlice]) -> list[list[FileSlice]]:
        parts = [[one] for one in slices]
        if self._split_size is None or plan.snapshot.schema_history is not None:
            return parts  # footers do not tell under which name a file holds a column
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
        fair = plan.bytes_kept // _LEAST_SPLITS
        return fair if self._split_size is None else min(fair, self._split_size)


def _position(plan: Plan, place: _Place) -> int:
    """Where a plan goes on: the token may come from another service, whose plan keeps other files."""
    if place.partition is None:
        return 0
    whole = place.group == _ALL_GROUPS
    last = place.position - whole
    if 0 <= last < len(plan):
        found = plan.snapshot.take_files(plan.rows[last : last + 1]).select(["partition", "file_id"]).to_pylist()[0]
        if found == {"partition": place.partition, "file_id": place.file_id}:
            return place.position
    return position_after(plan, place.partition, place.file_id, whole=whole)


def _is_whole(piece: _Piece) -> bool:
    return piece.slice.row_groups is None


def _split(scan: PlannedScan, bundle: Sequence[_Piece]) -> TrinoSplit:
    return replace(scan.template, slices=tuple(piece.slice for piece in bundle))


@dataclass
class _Progress:
    """How far a scan is.

    Attributes:
        unread: splits that were handed out and not read to their end.
        all_out: whether all splits were handed out.
        touched: when it was last asked for something.
    """

    unread: int
    all_out: bool
    touched: float


class OpenScans:
    """Counts the scans that are not read to their end, so that a service can let them finish before it stops.

    A query with LIMIT leaves splits unread, and tells nobody: a scan that nobody asks for anything for some time counts
    as ended.

    Args:
        idle_seconds: that time.
        limit: scans that are followed; the oldest are forgotten.
        clock: monotonic seconds.
    """

    def __init__(
        self, idle_seconds: float = 10.0, limit: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle = idle_seconds
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._scans: OrderedDict[str, _Progress] = OrderedDict()

    def handed_out(self, scan: str, splits: int, *, all_out: bool) -> None:
        """More splits of a scan, the last ones or not."""
        with self._lock:
            found = self._scans.setdefault(scan, _Progress(0, all_out, 0.0))
            found.unread += splits
            found.all_out = all_out
            self._touch(scan, found)

    def asked(self, scan: str, *, finished: bool) -> None:
        """A page of a split was asked for, the last one or not."""
        with self._lock:
            found = self._scans.get(scan)
            if found is None:
                return
            found.unread -= finished
            self._touch(scan, found)

    def count(self) -> int:
        """How many are under way."""
        with self._lock:
            oldest = self._clock() - self._idle
            while self._scans and next(iter(self._scans.values())).touched < oldest:
                self._scans.popitem(last=False)
            return len(self._scans)

    def _touch(self, scan: str, found: _Progress) -> None:
        found.touched = self._clock()
        self._scans.move_to_end(scan)
        if found.all_out and found.unread <= 0:
            del self._scans[scan]
        while len(self._scans) > self._limit:
            self._scans.popitem(last=False)


def in_order(plan: Plan) -> Plan:
    """The plan with its files in the order of partition and file group, which no refresh changes."""
    if len(plan) < 2:
        return plan
    files = plan.snapshot.take_files(plan.rows).select(["partition", "file_id"])
    order = to_numpy(pc.sort_indices(files, sort_keys=[("partition", "ascending"), ("file_id", "ascending")]))
    order = order.astype(np.int64)
    return replace(plan, rows=plan.rows[order], fully_matching=plan.fully_matching[order])


def position_after(plan: Plan, partition: str, file_id: str, *, whole: bool) -> int:
    """The position, in a plan in order, of the first file behind another one, which need not be in the plan.

    Args:
        plan: in order.
        partition: of the other file.
        file_id: of the other file.
        whole: whether that file itself is behind too.
    """
    files = plan.snapshot.take_files(plan.rows)
    partitions, file_ids = files.column("partition"), files.column("file_id")
    less = pc.less_equal if whole else pc.less
    before = pc.or_(pc.less(partitions, partition), pc.and_(pc.equal(partitions, partition), less(file_ids, file_id)))
    return int(pc.sum(before, min_count=0).as_py() or 0)


def row_counts(plan: Plan) -> Any:
    """Rows of each file, by the statistics of the record keys; null where they do not tell, or log files change them.

    Args:
        plan: of any filter.
    """
    snapshot = plan.snapshot
    keys = snapshot.indexed_column(RECORD_KEY, pa.string()) if RECORD_KEY in snapshot.schema.names else None
    if not isinstance(keys, IndexedColumn):
        return nulls(len(plan), pa.int64())
    plain = from_numpy(~snapshot.has_logs[plan.rows])
    return pc.if_else(plain, keys.row_count.take(from_numpy(plan.rows)).cast(pa.int64()), pa.scalar(None, pa.int64()))


def behind(snapshot: Snapshot, slice_: FileSlice, group: int) -> FileSlice | None:
    """The part of a slice after a row group; None if there is none."""
    groups = slice_.row_groups
    if groups is None:  # this plan does not divide the file, and the one before did
        groups = tuple(range(footer(snapshot.client.storage, str(slice_.base)).metadata.num_row_groups))
    left = tuple(one for one in groups if one > group)
    return replace(slice_, row_groups=left, record_count=None) if left else None
