"""Does the record index say what the data says? And if not: mending it."""

from __future__ import annotations

import contextlib
import functools
import random
import tempfile
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
from table_format.mapping import Mapper, in_threads
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import GLOBAL, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.index_deltas import delta_folder
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.build import Tell, portions
from table_writer.record_index.compare import (
    DUPLICATE,
    KINDS,
    MISPLACED,
    Comparison,
    Example,
    GroupFindings,
    write_entries,
)
from table_writer.record_index.group_file import Places
from table_writer.record_index.key_source import KeyReader, KeySource, current_sources, require_keys
from table_writer.record_index.runs import RunSet, write_run
from table_writer.timeline.options import FailedWrites, ProtocolOptions

_FOLDER: Final = ".hoodie/.catalog/record_index_verify"
_ATTEMPTS: Final = 3
_EXAMPLES: Final = 20


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found.

    Attributes:
        counts: faults by kind (`compare.KINDS`).
        examples: some of the keys with a fault.
        keys: distinct keys of the data that were looked for.
        entries: entries of the index.
        slices: file slices that were read.
        slices_total: file slices of the table.
        groups: file groups of the index.
        repaired: how the index was mended: `entries` by a commit, `rebuilt`, or None when it was not.
        instant: of the commit that mended it.
        seconds: how long it took.
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

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
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
    repair: bool = False,
    mapper: Mapper = in_threads,
    shared: bool = False,
    tell: Tell = lambda _: None,
) -> VerifyReport:
    """Compare the record index of a table with its data.

    Args:
        client: the table, of any kind that is read.
        options: of the table's writers, for a repair.
        sample: the share of file slices to read; entries of the index that lie in others are passed over. None reads
            all.
        repair: mend the index by a commit without data; where that cannot reach what is wrong, build it anew.
            Duplicates are the data's, and stay.
        mapper: does the work, in threads or in Spark.
        shared: whether workers share nothing but the table's storage, which then holds what they leave to each other.
        tell: takes what goes on.

    Raises:
        RecordIndexError: the table has no record index, or its files hold no record keys.
        OptionError: a sample that is no share, or one that is to be mended.
        ConflictError: other writes kept coming while the index was mended.
        TransactionError: a write is under way that the repair of a single writer would roll back.
    """
    if sample is not None and not 0 < sample <= 1:
        raise OptionError(f"a sample of {sample}: give the share of file slices to read, above 0 and up to 1")
    if repair and sample is not None:
        raise OptionError("only a complete comparison can mend the index: leave the sample out")
    started = time.monotonic()
    client.reload()
    require_keys(client)
    job = _Job(client, mapper, tell, shared=shared)
    found = _compared(job, sample)
    mended: tuple[str | None, str | None] = None, None
    if repair and found.index_faults:
        found, mended = _mend(job, found, dict(options or {}))
    return VerifyReport(
        counts=found.counts,
        examples=found.examples,
        keys=sum(group.keys for group in found.groups),
        entries=sum(group.entries for group in found.groups),
        slices=found.slices,
        slices_total=found.slices_total,
        groups=len(found.groups),
        repaired=mended[0],
        instant=mended[1],
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True, slots=True)
class _Found:
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
        """Some of each kind."""
        found = [example for group in self.groups for example in group.examples]
        each = max(1, _EXAMPLES // len(KINDS))
        return tuple(one for kind in KINDS for one in [e for e in found if e.kind == kind][:each])


@dataclass(frozen=True)
class _Job:
    """What comparing needs, whatever is compared."""

    client: TableClient
    mapper: Mapper
    tell: Tell
    shared: bool

    def compare(self, sample: float | None = None, repair: tuple[Storage, str] | None = None) -> _Found:
        """Compare the index with the data as they are now.

        Args:
            sample: see `verify_index`.
            repair: where to leave what mends the index.
        """
        timeline = self.client.timeline()
        index = RecordIndex.open(self.client, timeline)
        sources = current_sources(self.client, timeline)
        checked, rest = _sampled(sources, sample)
        zone = self.client.config.timeline_timezone
        ordered = [*checked, *rest]
        places = Places.of(ordered, [instant_epoch_ms(source.instant, zone) for source in ordered])
        with self._scratch() as (scratch, folder):
            data = self._read(index, timeline, checked, scratch, folder)
            spread = self._spread(index, places, scratch, folder)
            comparison = Comparison(index, scratch, data, spread, places, len(checked), repair)
            groups = self._groups(index)
            self.tell(f"comparing {data.rows:,} keys with {len(groups):,} file groups of the index")
            return _Found(index.layout, self.mapper(comparison, groups), len(checked), len(sources))

    def _read(
        self, index: RecordIndex, timeline: Timeline, checked: Sequence[KeySource], scratch: Storage, folder: str
    ) -> RunSet:
        self.tell(f"reading the keys of {len(checked):,} file slices")
        job = functools.partial(write_run, KeyReader(self.client, timeline), index.layout, scratch, folder)
        runs, missing = RunSet.of(self.mapper(job, portions(checked)), checked)
        if missing:
            raise RecordIndexError(f"{missing[0].base or missing[0].file_id}: its keys were not read; start anew")
        return runs

    def _spread(self, index: RecordIndex, places: Places, scratch: Storage, folder: str) -> RunSet | None:
        """The entries of an index with several families, spread by the newest one."""
        layout = index.layout
        if layout.scope != GLOBAL or len(layout.families) == 1:
            return None
        self.tell(f"reading {layout.count:,} file groups of the index")
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
            with tempfile.TemporaryDirectory(prefix="hudi-catalog-verify-") as folder:
                yield Storage(folder), "runs"
            return
        folder = f"{_FOLDER}/{uuid.uuid4().hex}"
        try:
            yield self.client.storage, folder
        finally:
            self.client.storage.delete_dir(folder)


def _compared(job: _Job, sample: float | None) -> _Found:
    """Compare; anew where cleaning took files away meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(MissingFileError):
            return job.compare(sample)
        job.tell("files were cleaned meanwhile; beginning anew")
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
    """Who clears up eagerly takes whatever is pending for dead; who mends an index does not know that."""
    pending = next((i for i in client.timeline().pending if i.action != Action.SAVEPOINT), None)
    if pending is not None and ProtocolOptions.parse(options).failed_writes is FailedWrites.EAGER:
        raise TransactionError(
            f"{client.storage.uri}: {pending} is pending, and a repair would roll it back. Wait until it has ended, or "
            "leave hoodie.clean.failed.writes.policy at LAZY"
        )


def _mend(job: _Job, found: _Found, options: Mapping[str, str]) -> tuple[_Found, tuple[str, str | None]]:
    """Mend the index of a table that nothing else is written to meanwhile; else try again."""
    client = job.client
    _refuse_live_writers(client, options)
    for attempt in range(_ATTEMPTS):
        if found.counts[MISPLACED]:
            # what a write says of a key does not reach an entry in another file group
            job.tell("building the index anew")
            bootstrap_index(client, options, mapper=job.mapper, tell=job.tell)
            return found, ("rebuilt", None)
        with WriteTransaction.begin(client, Action.COMMIT, "UPSERT", options) as transaction:
            schema = client.table_schema_json()
            if schema is None:
                raise SchemaError(f"{client.storage.uri}: no commit tells the table's columns; write to it first")
            found = job.compare(None, (client.storage, delta_folder(transaction.instant)))
            if found.counts[MISPLACED]:
                continue
            deltas = [group.delta for group in found.groups if group.delta is not None]
            job.tell(f"mending {found.index_faults:,} entries")
            try:
                transaction.commit(
                    [],
                    schema_json=schema,
                    index_changes=deltas,
                    index_layout=found.layout,
                    mapper=job.mapper,
                    alone=True,
                )
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return found, ("entries", transaction.instant)
    raise ConflictError(f"{client.storage.uri}: the record index changes faster than it can be mended; start anew")
