"""Verifying the record index against the table's data, and repairing it."""

from __future__ import annotations

import contextlib
import functools
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from table_format.errors import (
    ConflictError,
    MissingFileError,
    OptionError,
    RecordIndexError,
    SchemaError,
    TransactionError,
)
from table_format.instant import Action, instant_epoch_ms
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import GLOBAL, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.commit.transaction import WriteTransaction
from table_writer.execution.executor import Mapper
from table_writer.execution.spill_folder import SpillFolder
from table_writer.metadata.index_deltas import delta_folder
from table_writer.metadata.key_source import KeyReader, KeySource, current_sources, portions_by_bytes, require_keys
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.build import Progress
from table_writer.record_index.compare import (
    DUPLICATE,
    KINDS,
    MISPLACED,
    Comparison,
    Example,
    GroupFindings,
    compare_since,
    verified_to,
    write_entries,
)
from table_writer.record_index.group_file import SliceLocations
from table_writer.record_index.runs import RunSet, write_run
from table_writer.timeline.instants import WITHOUT_FILES
from table_writer.timeline.options import FailedWrites, ProtocolOptions

_FOLDER: Final = ".hoodie/.catalog/record_index_verify"
_ATTEMPTS: Final = 3
_EXAMPLES: Final = 20


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of a verification.

    Attributes:
        counts: faults by kind (`compare.KINDS`).
        examples: some of the keys with a fault.
        keys: distinct keys of the data that were compared.
        entries: entries of the index.
        slices: file slices that were read.
        slices_total: file slices of the table.
        groups: file groups of the index.
        repaired: how the index was repaired: `entries` (by a commit), `rebuilt`, or None.
        instant: of the commit that repaired it.
        seconds: how long it took.
        since: the instant since which writes were verified; None for the whole table.
        verified_to: the newest write that the data and the index had, and no pending one precedes: the next
            verification may begin there.
    """

    counts: Mapping[str, int]
    examples: tuple[Example, ...]
    keys: int
    entries: int
    slices: int
    slices_total: int
    groups: int
    repaired: str | None
    instant: str | None
    seconds: float
    since: str | None = None
    verified_to: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether there is no fault."""
        return not any(self.counts.values())

    @property
    def index_faults(self) -> int:
        """Faults of the index; duplicates are the data's."""
        return sum(count for kind, count in self.counts.items() if kind != DUPLICATE)


def verify_index(
    client: TableClient,
    options: Mapping[str, str] | None = None,
    *,
    sample: float | None = None,
    since: str | None = None,
    repair: bool = False,
    mapper: Mapper = in_threads,
    shared: bool = False,
    progress: Progress = lambda _: None,
) -> VerifyReport:
    """Compare the record index of a table with its data.

    Args:
        client: the table, of any kind that can be read.
        options: of the table's writers, for a repair.
        sample: the share of file slices to read; entries of other slices are not checked. None reads all.
        since: an instant or an ISO 8601 time: only file groups that later writes touched are compared, at a cost that
            follows these writes. None compares all.
        repair: repair the index by a commit without data, or rebuild it if a commit cannot reach the fault.
            Duplicates are faults of the data, and stay.
        mapper: runs the tasks, in threads or in Spark.
        shared: whether workers share only the table's storage; their temporary files then lie there.
        progress: called with each step, as a few words.

    Raises:
        RecordIndexError: the table has no record index, or its files hold no record keys.
        OptionError: a sample out of range, or together with a repair or an instant; or files of that instant's state
            were cleaned.
        ConflictError: other writes kept coming during the repair.
        TransactionError: a write is under way that the repair of a single writer would roll back.
    """
    if sample is not None and not 0 < sample <= 1:
        raise OptionError(f"a sample of {sample}: give the share of file slices to read, above 0 and up to 1")
    if repair and sample is not None:
        raise OptionError("only a complete comparison can repair the index: leave the sample out")
    if since is not None and (repair or sample is not None):
        raise OptionError("a comparison since an instant takes no sample, and repairs nothing: leave the others out")
    started = time.monotonic()
    client.reload()
    require_keys(client)
    if since is not None:
        return _verify_since(client, since, mapper, progress, started)
    to = verified_to(client.timeline())
    job = _Job(client, mapper, progress, shared=shared)
    findings = _compare(job, sample)
    repaired: tuple[str | None, str | None] = None, None
    if repair and findings.index_faults:
        findings, repaired = _repair(job, findings, dict(options or {}))
    return VerifyReport(
        counts=findings.counts,
        examples=findings.examples,
        keys=sum(group.keys for group in findings.groups),
        entries=sum(group.entries for group in findings.groups),
        slices=findings.slices,
        slices_total=findings.slices_total,
        groups=len(findings.groups),
        repaired=repaired[0],
        instant=repaired[1],
        seconds=time.monotonic() - started,
        verified_to=to,
    )


def _verify_since(client: TableClient, since: str, mapper: Mapper, progress: Progress, started: float) -> VerifyReport:
    compared = compare_since(client, since, mapper, progress)
    return VerifyReport(
        counts=compared.counts,
        examples=compared.examples,
        keys=compared.keys,
        entries=compared.entries,
        slices=compared.slices,
        slices_total=compared.slices,
        groups=compared.groups,
        repaired=None,
        instant=None,
        seconds=time.monotonic() - started,
        since=compared.since,
        verified_to=compared.verified_to,
    )


@dataclass(frozen=True, slots=True)
class _Findings:
    layout: IndexLayout
    groups: Sequence[GroupFindings]
    slices: int
    slices_total: int

    @property
    def counts(self) -> dict[str, int]:
        return {kind: sum(group.counts[kind] for group in self.groups) for kind in KINDS}

    @property
    def index_faults(self) -> int:
        return sum(count for kind, count in self.counts.items() if kind != DUPLICATE)

    @property
    def examples(self) -> tuple[Example, ...]:
        """Examples of each kind of fault."""
        examples = [example for group in self.groups for example in group.examples]
        each = max(1, _EXAMPLES // len(KINDS))
        return tuple(one for kind in KINDS for one in [e for e in examples if e.kind == kind][:each])


@dataclass(frozen=True)
class _Job:
    """One verification: the table, and how its tasks run."""

    client: TableClient
    mapper: Mapper
    progress: Progress
    shared: bool

    def compare(self, sample: float | None = None, repair: tuple[Storage, str] | None = None) -> _Findings:
        """Compare the index with the data as they are now.

        Args:
            sample: see `verify_index`.
            repair: storage and folder for the delta files of a repair.
        """
        timeline = self.client.timeline()
        index = RecordIndex.open(self.client, timeline)
        sources = current_sources(self.client, timeline)
        checked, rest = _sampled(sources, sample)
        zone = self.client.config.timeline_timezone
        ordered = [*checked, *rest]
        places = SliceLocations.of(ordered, [instant_epoch_ms(source.instant, zone) for source in ordered])
        with self._scratch() as (scratch, folder):
            data = self._read(index, timeline, checked, scratch, folder)
            spread = self._spread(index, places, scratch, folder)
            comparison = Comparison(index, scratch, data, spread, places, len(checked), repair)
            groups = self._groups(index)
            self.progress(f"comparing {data.rows:,} keys with {len(groups):,} file groups of the index")
            return _Findings(index.layout, self.mapper(comparison, groups), len(checked), len(sources))

    def _read(
        self, index: RecordIndex, timeline: Timeline, checked: Sequence[KeySource], scratch: Storage, folder: str
    ) -> RunSet:
        self.progress(f"reading the keys of {len(checked):,} file slices")
        job = functools.partial(write_run, KeyReader(self.client, timeline), index.layout, scratch, folder)
        runs, missing = RunSet.of(self.mapper(job, portions_by_bytes(checked)), checked)
        if missing:
            raise RecordIndexError(f"{missing[0].base or missing[0].file_id}: its keys were not read; run it again")
        return runs

    def _spread(self, index: RecordIndex, places: SliceLocations, scratch: Storage, folder: str) -> RunSet | None:
        """Entries of an index with several families, spread by the newest one; None for one family."""
        layout = index.layout
        if layout.scope != GLOBAL or len(layout.families) == 1:
            return None
        self.progress(f"reading {layout.count:,} file groups of the index")
        job = functools.partial(write_entries, index, places, scratch, f"{folder}/entries")
        runs = self.mapper(job, list(range(layout.count)))
        numbers = tuple(range(len(places.file_ids) + 1))
        return RunSet(tuple(runs), tuple(numbers for _ in runs))

    @staticmethod
    def _groups(index: RecordIndex) -> list[int]:
        """The file groups by which keys are compared."""
        layout = index.layout
        first = 0 if layout.scope != GLOBAL else layout.count - layout.families[-1][1]
        return list(range(first, layout.count))

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[tuple[Storage, str]]:
        if not self.shared:
            with SpillFolder() as spilled:
                yield Storage(spilled.path), "runs"
            return
        folder = f"{_FOLDER}/{uuid.uuid4().hex}"
        try:
            yield self.client.storage, folder
        finally:
            self.client.storage.delete_dir(folder)


def _compare(job: _Job, sample: float | None) -> _Findings:
    """Compare, again where cleaning deleted files meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(MissingFileError):
            return job.compare(sample)
        job.progress("files were cleaned meanwhile; comparing again")
    return job.compare(sample)


def _sampled(sources: Sequence[KeySource], sample: float | None) -> tuple[list[KeySource], list[KeySource]]:
    """The slices to read, and the others."""
    if sample is None or not sources:
        return list(sources), []
    count = min(len(sources), max(1, round(sample * len(sources))))
    chosen = set(random.sample(range(len(sources)), count))
    picked = [source for at, source in enumerate(sources) if at in chosen]
    return picked, [source for at, source in enumerate(sources) if at not in chosen]


def _refuse_live_writers(client: TableClient, options: Mapping[str, str]) -> None:
    """Refuse a repair under the EAGER policy, whose commit would roll back a write that is pending."""
    pending = next((one for one in client.timeline().pending if one.action not in WITHOUT_FILES), None)
    if pending is not None and ProtocolOptions.parse(options).failed_writes is FailedWrites.EAGER:
        raise TransactionError(
            f"{client.storage.uri}: {pending} is pending, and a repair would roll it back. Wait until it has ended, or "
            "leave hoodie.clean.failed.writes.policy at LAZY"
        )


def _repair(job: _Job, findings: _Findings, options: Mapping[str, str]) -> tuple[_Findings, tuple[str, str | None]]:
    """Repair the index; compare and try again where other writes completed meanwhile."""
    client = job.client
    _refuse_live_writers(client, options)
    for attempt in range(_ATTEMPTS):
        if findings.counts[MISPLACED]:
            # a commit cannot reach an entry that lies in the wrong file group
            job.progress("rebuilding the index")
            bootstrap_index(client, options, mapper=job.mapper, progress=job.progress)
            return findings, ("rebuilt", None)
        with WriteTransaction.begin(client, Action.COMMIT, "UPSERT", options) as transaction:
            schema = client.table_schema_json()
            if schema is None:
                raise SchemaError(f"{client.storage.uri}: no commit records the table's columns; write to it first")
            findings = job.compare(None, (client.storage, delta_folder(transaction.instant)))
            if findings.counts[MISPLACED]:
                continue
            deltas = [group.delta for group in findings.groups if group.delta is not None]
            job.progress(f"repairing {findings.index_faults:,} entries")
            try:
                transaction.commit(
                    [],
                    schema_json=schema,
                    index_changes=deltas,
                    index_layout=findings.layout,
                    mapper=job.mapper,
                    alone=True,
                )
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return findings, ("entries", transaction.instant)
    raise ConflictError(
        f"{client.storage.uri}: the record index changes faster than it can be repaired; run it again later"
    )
