"""Partitions' time to live: partitions that nobody has written to for some days are deleted as a whole.

The rules are those of Apache Hudi's `KeepByTimeStrategy` and `KeepByCreationTimeStrategy`, and so is what becomes of
the partitions: one replacecommit of the operation `delete_partition`, whose files the next cleans delete.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import memoize
from table_format.config.properties import partition_creator
from table_format.config.table_config import require_writable
from table_format.errors import ArgumentError, HudiError
from table_format.instant import instant_epoch_ms, is_calendar_time
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.commit.conflicts import clustered_slots
from table_writer.execution.executor import Executor
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.slots.partition_files import PartitionFiles
from table_writer.timeline.options import TTL_DAYS, ProtocolOptions, TtlOptions, TtlStrategy
from table_writer.write_job import WriteJob

_log = logging.getLogger(__name__)
_DAY_MS: Final = 24 * 60 * 60 * 1000
#: What the options of a write say of its own rows.
_OF_ITS_ROWS: Final = (registry.PARTITIONS_TO_DELETE.key, registry.TXN_APP.key, registry.TXN_VERSION.key)


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """What became of expired partitions.

    Attributes:
        partitions: paths of those that were, or would be, deleted, those first whose time was over first.
        files: number of their file groups.
        bytes: sizes of their base files; a clean frees them once no state needs them that it retains.
        left: number of further expired partitions: beyond `hoodie.partition.ttl.strategy.max.delete.partitions`, or of
            which files are about to be clustered.
        instant: of the commit; None where nothing was deleted.
    """

    partitions: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    left: int = 0
    instant: str | None = None


def with_days(options: WriteOptions, days: int | None) -> WriteOptions:
    """Options in which partitions live for some days.

    Args:
        options: of the call.
        days: 1 or more; None for what the options say.

    Raises:
        ArgumentError: neither says for how long.
    """
    if days is not None:
        if isinstance(days, bool) or not isinstance(days, int) or days < 1:
            raise ArgumentError(f"days={days!r}: give 1 or more; partitions without a time to live stay")
        return options.with_values({TTL_DAYS: days})
    if ProtocolOptions.parse(options.texts).ttl.days < 1:
        raise ArgumentError(f"nothing says how long partitions live: give days, or the option {TTL_DAYS}")
    return options


def expire_partitions(
    client: TableClient, options: WriteOptions, executor: Executor, *, dry_run: bool = False, now: float | None = None
) -> ExpiryReport:
    """Delete the partitions whose time to live is over.

    They are chosen again once the write has begun: a partition that somebody writes to meanwhile is a conflict, after
    which it is no longer among them.

    Args:
        client: the table.
        options: of the call; `hoodie.partition.ttl.*` count, and those of writes.
        executor: runs the write.
        dry_run: report what would be deleted, and change nothing.
        now: seconds since the epoch; the present by default.

    Raises:
        ConflictError: another writer was faster in every attempt.
        OptionError: an invalid option.
        UnsupportedTableError: a table of this kind can only be read.
    """
    ttl = ProtocolOptions.parse(options.texts).ttl
    require_writable(client.config, client.storage.uri)
    chosen = _Choice(client, ttl, time.time() if now is None else now)
    if not chosen.of(client.timeline()) or dry_run:
        return chosen.report()
    job = WriteJob(
        executor,
        client,
        Operation.DELETE_PARTITION,
        options.with_values(dict.fromkeys(_OF_ITS_ROWS)),
        choose=chosen.once_more,
    )
    try:
        summary = job.run()
    except _NothingExpiredError:
        return chosen.report()
    return chosen.report(summary.instant)


def expire_after_write(client: TableClient, options: WriteOptions, executor: Executor) -> None:
    """Delete expired partitions after a commit, if `hoodie.partition.ttl.inline` asks for it.

    A failure is logged and left to the next run: the commit stands.
    """
    ttl = ProtocolOptions.parse(options.texts).ttl
    if not ttl.inline or ttl.days < 1:
        return
    try:
        report = expire_partitions(client, options, executor)
    except (HudiError, OSError) as error:
        _log.warning("%s: expired partitions are left to the next write: %s", client.storage.uri, error)
        return
    if report.partitions:
        _log.info("%s: %d expired partitions deleted", client.storage.uri, len(report.partitions))


class _NothingExpiredError(Exception):
    """Somebody else deleted, or wrote to, all that had expired; the write is rolled back."""


@dataclass
class _Choice:
    """Chooses expired partitions, and remembers what it chose last.

    Attributes:
        client: the table.
        ttl: see `TtlOptions`.
        now: seconds since the epoch.
    """

    client: TableClient
    ttl: TtlOptions
    now: float
    _paths: list[str] = field(default_factory=list)
    _files: int = 0
    _bytes: int = 0
    _left: int = 0

    def of(self, timeline: Timeline) -> Sequence[str]:
        """Paths of the partitions to delete, by a timeline; the longest expired first."""
        self._paths, self._files, self._bytes, self._left = [], 0, 0, 0
        if self.ttl.days < 1 or not self.client.config.partition_fields or not timeline.writes:
            return self._paths
        partitions = _partitions(PartitionFiles(self.client, timeline).of(self.ttl.selected or None))
        expired = sorted(
            (moment, row)
            for row, moment in enumerate(self._since(partitions))
            if moment is not None and self._is_over(moment)
        )
        rows = self._free(timeline, partitions, [row for _, row in expired])[: self.ttl.most]
        chosen = partitions.take(pa.array(rows, pa.int64()))
        paths: list[Any] = chosen["partition"].to_pylist()
        self._paths = paths
        self._files, self._bytes = (int(pc.sum(chosen[name], min_count=0).as_py()) for name in ("files", "bytes"))
        self._left = len(expired) - len(rows)
        return self._paths

    def _free(self, timeline: Timeline, partitions: pa.Table, rows: list[int]) -> list[int]:
        """Those of some partitions, by their rows, that no pending clustering is about to rewrite."""
        clustered = {partition for partition, _ in clustered_slots(timeline, bucketed=False)}
        paths: list[Any] = partitions["partition"].to_pylist()
        held = [paths[row] for row in rows if paths[row] in clustered]
        if held:
            _log.warning(
                "%s: expired partitions of a planned clustering stay until it has run: %s",
                self.client.storage.uri,
                ", ".join(held),
            )
        return [row for row in rows if paths[row] not in clustered]

    def once_more(self, timeline: Timeline) -> Sequence[str]:
        """The same for a write that has begun.

        Raises:
            _NothingExpiredError: nothing is left to delete.
        """
        if not self.of(timeline):
            raise _NothingExpiredError
        return self._paths

    def report(self, instant: str | None = None) -> ExpiryReport:
        """What was chosen last."""
        return ExpiryReport(tuple(self._paths), self._files, self._bytes, self._left, instant)

    def _since(self, partitions: pa.Table) -> list[str | None]:
        """Instants from which on the partitions' time counts."""
        if self.ttl.strategy is TtlStrategy.LAST_WRITE:
            last: list[Any] = partitions["last"].to_pylist()
            return last
        paths: list[Any] = partitions["partition"].to_pylist()
        # a partition that is deleted and created again begins later: what was young then is at least as young now
        known: dict[str, str] = memoize(self.client.storage, "creators of partitions", dict)
        unsure = [path for path in paths if path not in known or self._is_over(known[path])]
        creators = in_threads(functools.partial(partition_creator, self.client.storage), unsure)
        read = dict(zip(unsure, creators, strict=True))
        known.update((path, moment) for path, moment in read.items() if moment is not None and is_calendar_time(moment))
        return [read[path] if path in read else known[path] for path in paths]

    def _is_over(self, moment: str) -> bool:
        """Whether the time of a partition is over that counts from an instant."""
        oldest = self.now * 1000 - self.ttl.days * _DAY_MS
        zone = self.client.config.timeline_timezone
        return is_calendar_time(moment) and instant_epoch_ms(moment, zone) < oldest


def _partitions(files: pa.Table) -> pa.Table:
    """Partitions of some base files: path, number of files, bytes, and the newest instant; by path."""
    grouped: Any = files.group_by("partition", use_threads=False)
    sums = grouped.aggregate([("file_id", "count"), ("size", "sum"), ("instant", "max")])
    columns = [sums[name] for name in ("partition", "file_id_count", "size_sum", "instant_max")]
    return pa.table(columns, names=["partition", "files", "bytes", "last"]).sort_by("partition")
