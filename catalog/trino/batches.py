"""The splits of a plan in batches, and the tokens between them.

The token names the snapshot and the last file that was handed out. The plan itself is kept here for a while; a service
that does not have it plans again at the same snapshot. Another plan may keep other files, and may divide them
otherwise, so what goes on is not "from the 1,000th split", but "after this row group of this file": all plans go by
partition and file group.
"""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute

from catalog.planner import Plan
from catalog.row_groups import divide
from catalog.snapshot import Snapshot
from catalog.split_table import log_paths
from catalog.trino.scans import OpenScans, Recent
from catalog.trino.split_id import Purpose, SplitCodec, TrinoSplit
from table_format.arrow_numpy import to_numpy
from table_format.base_file import footer
from table_format.errors import CorruptFileError, MissingFileError, ServiceError, SplitError

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_KEPT_SCANS = 256
_FOOTER_THREADS = 8
_CHUNK = 256
_ALL_GROUPS = -1


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
        template: a split without its file.
    """

    plan: Plan
    template: TrinoSplit

    @classmethod
    def of(cls, plan: Plan, template: TrinoSplit) -> PlannedScan:
        """With the files in the order of partition and file group, and an id if the template has none."""
        named = template if template.scan else replace(template, scan=secrets.token_hex(8))
        return cls(_sorted(plan), named)


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

    def is_inside(self, parts: Sequence[TrinoSplit]) -> bool:
        """Whether some of the parts of a file were handed out, and others not."""
        same = bool(parts) and (parts[0].partition, parts[0].file_id) == (self.partition, self.file_id)
        return same and self.group != _ALL_GROUPS

    def to_bytes(self) -> bytes:
        return json.dumps(astuple(self)).encode()

    @classmethod
    def of(cls, payload: bytes) -> _Place:
        try:
            return cls(*json.loads(payload))
        except (ValueError, TypeError) as error:
            raise SplitError(f"a token of splits that is signed and cannot be read: {error}") from None


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
        return self._batch(scan, _Place(template.scan, template.table, template.instant), most)

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
        kept = self._kept.get(place.scan)
        if kept is not None:
            return self._batch(kept, place, most)
        scan = replan(place.pin)
        scan = replace(scan, template=replace(scan.template, scan=place.scan))
        return self._batch(scan, replace(place, position=_position_after(scan.plan, place)), most)

    def _batch(self, scan: PlannedScan, place: _Place, most: int) -> SplitBatch:
        """The splits from a place on."""
        if most < 1:
            raise ServiceError(f"{most} splits were asked for: it has to be at least one")
        found = list(itertools.islice(self._from(scan, place), most + 1))
        next_place = found[most - 1][1] if len(found) > most else None
        ids = [self._codec.pack(split) for split, _ in found[:most]]
        self._open.handed_out(place.scan, len(ids), all_out=next_place is None)
        if next_place is None:
            return SplitBatch(ids)
        self._kept.put(place.scan, scan)
        return SplitBatch(ids, self._codec.seal(Purpose.SPLITS_TOKEN, next_place.to_bytes()))

    def _from(self, scan: PlannedScan, place: _Place) -> Iterator[tuple[TrinoSplit, _Place]]:
        """Each split from a place on, and the place after it."""
        count = len(scan.plan)
        for start in range(place.position, count, _CHUNK):
            splits = file_splits(scan.plan, start, min(_CHUNK, count - start), scan.template, self._split_size)
            for position, parts in enumerate(splits, start):
                left = parts
                if position == place.position and place.is_inside(parts):
                    left = _behind(scan.plan.snapshot, parts, place.group)
                for split in left:
                    inside = split is not left[-1] and split.row_groups is not None
                    at = (
                        (position, split.row_groups[-1]) if inside and split.row_groups else (position + 1, _ALL_GROUPS)
                    )
                    yield (
                        split,
                        replace(place, position=at[0], partition=split.partition, file_id=split.file_id, group=at[1]),
                    )


def _sorted(plan: Plan) -> Plan:
    """The plan with its files in the order of partition and file group, which no refresh changes."""
    snapshot = plan.snapshot
    if len(plan) < 2:
        return plan
    files = snapshot.take_files(plan.rows).select(["partition", "file_id"])
    order = to_numpy(pc.sort_indices(files, sort_keys=[("partition", "ascending"), ("file_id", "ascending")]))
    order = order.astype(np.int64)
    return replace(plan, rows=plan.rows[order], fully_matching=plan.fully_matching[order])


def _position_after(plan: Plan, place: _Place) -> int:
    """The position in a sorted plan from which on files come that were not handed out, or not wholly."""
    if place.partition is None:
        return 0
    files = plan.snapshot.take_files(plan.rows)
    partition, file_id = files.column("partition"), files.column("file_id")
    less = pc.less if place.group != _ALL_GROUPS else pc.less_equal
    before = pc.or_(
        pc.less(partition, place.partition),
        pc.and_(pc.equal(partition, place.partition), less(file_id, place.file_id)),
    )
    return int(pc.sum(before, min_count=0).as_py() or 0)


def file_splits(
    plan: Plan, start: int, count: int, template: TrinoSplit, split_size: int | None
) -> list[list[TrinoSplit]]:
    """The splits of some files of a plan: one each, or several for a large base file without log files.

    Args:
        plan: what is read.
        start: position of the first file.
        count: files.
        template: what all splits have in common.
        split_size: base files of more bytes are divided by row groups; None for no division.
    """
    snapshot = plan.snapshot
    rows = plan.rows[start : start + count]
    files = snapshot.take_files(rows)
    columns: dict[str, list[Any]] = {
        name: files.column(name).to_pylist() for name in ("partition", "file_id", "path", "instant", "size", "logs")
    }
    paths: list[Any] = log_paths(files).to_pylist()
    whole = [
        replace(
            template,
            partition=partition,
            file_id=file_id,
            base=path,
            base_instant=str(instant),
            logs=tuple((log, int(one["size"] or 0)) for log, one in zip(log_files, logs or (), strict=True)),
        )
        for partition, file_id, path, instant, logs, log_files in zip(
            *(columns[name] for name in ("partition", "file_id", "path", "instant", "logs")), paths, strict=True
        )
    ]
    found: list[list[TrinoSplit]] = [[split] for split in whole]
    large = [
        at
        for at, split in enumerate(whole)
        if split_size is not None
        and split.base is not None
        and not split.logs
        and (columns["size"][at] or 0) > split_size
    ]
    if large and snapshot.schema_history is None:
        with ThreadPoolExecutor(_FOOTER_THREADS, thread_name_prefix="hudi-footer") as pool:
            for at, parts in zip(large, pool.map(lambda at: _parts(plan, whole[at], split_size), large), strict=True):
                found[at] = parts
    return found


def _behind(snapshot: Snapshot, parts: Sequence[TrinoSplit], group: int) -> list[TrinoSplit]:
    """What of a file comes behind a row group."""
    found = []
    for split in parts:
        groups = split.row_groups
        if groups is None:  # the plan before divided this file, and this one does not
            groups = tuple(range(footer(snapshot.client.storage, str(split.base)).metadata.num_row_groups))
        left = tuple(one for one in groups if one > group)
        if left:
            found.append(replace(split, row_groups=left))
    return found


def _parts(plan: Plan, split: TrinoSplit, split_size: int | None) -> list[TrinoSplit]:
    try:
        found = footer(plan.snapshot.client.storage, str(split.base))
    except (MissingFileError, CorruptFileError):
        return [split]  # whoever reads the file will say so
    return [replace(split, row_groups=part.row_groups) for part in divide(found, plan.expression, split_size or 0)]
