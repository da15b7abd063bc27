"""What follows a commit: the sync to a metastore and the like, and warnings of services that the table waits for.

Packages register what runs as entry points; the writer knows none of them. A tool is named by the class that Apache's
options name, so that `hoodie.meta.sync.client.tool.class` chooses among what is installed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

from catalog.amounts import bytes_text
from table_format.config.table_config import TableConfig
from table_format.errors import AfterCommitError, OptionError
from table_format.instant import WRITE_ACTIONS, Action, instant_epoch_ms, is_calendar_time
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.cluster import ClusteringPolicy, commits_since
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import index_type
from table_writer.summary import WriteSummary
from table_writer.timeline.options import CleaningPolicy, FailedWrites, ProtocolOptions

GROUP: Final = "hudi_catalog.after_commit"
HIVE_SYNC: Final = "org.apache.hudi.hive.HiveSyncTool"

_log = logging.getLogger(__name__)
_DAY_MS: Final = 24 * 60 * 60 * 1000
#: How far beyond its bound something is before a warning: bounds are passed a little all the time.
_FACTOR: Final = 2
_FEWEST: Final = 20
_FILES: Final = 100
_SMALL: Final = 1 << 20

_warned: Final[set[tuple[str, str]]] = set()
_lock: Final = threading.Lock()

Settings = Callable[[str], str | None]
"""A setting of the executor's Hadoop configuration by its name, such as `hive.metastore.uris`; None without one."""
Follow = Callable[[str], str]
"""Called with the instant of a commit; returns a few words on what it did."""
Prepare = Callable[[TableClient, Mapping[str, str], Settings], Follow]
"""Called before a write with the table, the job's options and the settings; refuses options that it cannot follow."""


@dataclass(frozen=True)
class AfterCommit:
    """The steps that a write's options ask for after its commit.

    Attributes:
        follows: what to call, by the tools' names.
    """

    follows: Mapping[str, Follow]

    @classmethod
    def prepare(cls, settings: Settings, client: TableClient, options: WriteOptions) -> AfterCommit:
        """Find the tools that the options name, and let each check the options.

        Raises:
            OptionError: a tool is not installed, or refuses an option; nothing was written yet.
        """
        follows: dict[str, Follow] = {}
        for name in _wanted(options):
            tool = next(iter(entry_points(group=GROUP, name=name)), None)
            if tool is None:
                known = ", ".join(sorted(entry_points(group=GROUP).names)) or "none"
                raise OptionError(
                    f"{registry.SYNC_TOOLS.key}: no {name} is installed; entry points of {GROUP} are {known}. "
                    "hudi-catalog's own is there once it is installed by pip"
                )
            prepare: Prepare = tool.load()
            follows[name] = prepare(client, options.texts, settings)
        return cls(follows)

    def run(self, instant: str) -> list[str]:
        """Run all steps, each whether or not others failed.

        Args:
            instant: of the commit.

        Returns:
            What was done, one line per step.

        Raises:
            AfterCommitError: one or more failed; the commit is complete.
        """
        done: list[str] = []
        problems: list[tuple[str, Exception]] = []
        for name, follow in self.follows.items():
            try:
                done.append(follow(instant))
            except Exception as error:  # noqa: BLE001  # whatever it is, the commit stands, and the message must say so
                problems.append((name, error))
        if problems:
            causes = "; ".join(f"{name}: {error}" for name, error in problems)
            raise AfterCommitError(instant, causes) from problems[0][1]
        return done


def _wanted(options: WriteOptions) -> tuple[str, ...]:
    """Names of the tools to run after the commit."""
    tools = options.names(registry.SYNC_TOOLS) if options.flag(registry.META_SYNC) else ()
    hive = (HIVE_SYNC,) if options.flag(registry.HIVE_SYNC) else ()
    return tuple(dict.fromkeys((*tools, *hive)))


def warn_of_needs(client: TableClient, timeline: Timeline, summary: WriteSummary, options: WriteOptions) -> None:
    """Log what the table needs, each need once for a table and process.

    It costs nothing: only the timeline that the write has loaded, and its summary, are looked at.

    Args:
        client: the table.
        timeline: as the write began.
        summary: of the write.
        options: of the write.
    """
    uri = client.storage.uri
    for kind, text in _needs(client, timeline, summary, options):
        with _lock:
            known = (uri, kind) in _warned
            _warned.add((uri, kind))
        if not known:
            _log.warning("%s: %s", uri, text)


def _needs(
    client: TableClient, timeline: Timeline, summary: WriteSummary, given: WriteOptions
) -> Iterator[tuple[str, str]]:
    uri, options = client.storage.uri, ProtocolOptions.parse(given.texts)
    run = f"run `hudi-catalog maintain {uri}`"
    writes = [instant for instant in timeline.pending if instant.action in WRITE_ACTIONS]
    if options.failed_writes is FailedWrites.NEVER and writes:
        which = f"{len(writes):,} pending, the oldest {writes[0].time}"
        yield "dead", f"writes of dead writers are not rolled back ({which}): {run} with another policy"
    elif writes and is_calendar_time(writes[0].time):
        days = (time.time() * 1000 - instant_epoch_ms(writes[0].time[:17], client.config.timeline_timezone)) / _DAY_MS
        if days >= 1:
            yield "pending", f"{writes[0]} has been pending for {days:,.0f} days, and holds services back: {run}"
    if len(timeline.writes) > _FACTOR * options.archive.most:
        yield "archive", f"{len(timeline.writes):,} writes on the active timeline make each write slower: {run}"
    clean = options.clean
    if not clean.automatic:
        last = max((instant.time for instant in timeline.completed if instant.action == Action.CLEAN), default="")
        since = sum(1 for write in timeline.writes if write.time > last)
        retained = clean.commits if clean.policy is CleaningPolicy.COMMITS else 0
        if since > max(_FEWEST, _FACTOR * retained):
            yield "clean", f"cleaning is off, and {since:,} writes came since the last one: {run}"
    policy = ClusteringPolicy.of(given)
    if policy.apart and not policy.inline and not policy.scheduled:
        since = commits_since(timeline)
        if since > _FACTOR * policy.commits:
            yield "cluster", f"clustering is left to maintenance, and {since:,} writes came since the last one: {run}"
    files = summary.files_written
    if files >= _FILES and summary.bytes_written < files * _SMALL:
        mean = summary.bytes_written // files
        text = f"a write of {files:,} files of {bytes_text(mean)} on average: "
        yield "small", text + (_fewer_buckets(client.config, given, mean) or f"see `hudi-catalog stats {uri}`")


def _fewer_buckets(config: TableConfig, options: WriteOptions, mean: int) -> str:
    """The bucket count with which files of some bytes would have their target size; empty where it is not the cause."""
    if index_type(options, config) != "BUCKET":
        return ""
    buckets = config.bucket_count or options.number(registry.BUCKETS) or 1
    target = options.number(registry.FILE_SIZE) or 1
    fitting = -(-mean * buckets // target)
    if fitting >= buckets:
        return ""
    scope = "each partition" if config.partition_fields else "the table"
    return (
        f"{registry.BUCKETS.key}={buckets} divides {scope} into so many; {fitting} would fit files of "
        f"{bytes_text(target)} ({registry.FILE_SIZE.key})"
    )
