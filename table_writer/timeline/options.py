"""Options of the writing protocol, under Apache Hudi's own keys, with types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from table_format.config.option_values import alias, choice, flag, names, whole_number
from table_format.errors import OptionError

#: Least age of files that a repair deletes.
REPAIR_MINUTES: Final = "hoodie.catalog.repair.minutes"
#: Days after which partitions expire.
TTL_DAYS: Final = "hoodie.partition.ttl.strategy.days.retain"

_TTL_CLASS: Final = "hoodie.partition.ttl.strategy.class"
BLOOM_COLUMNS: Final = "hoodie.metadata.index.bloom.filter.column.list"
BLOOM_GROUPS: Final = "hoodie.metadata.index.bloom.filter.file.group.count"

_Policy = TypeVar("_Policy", bound=Enum)


class FailedWrites(Enum):
    """When failed writes are rolled back (`hoodie.clean.failed.writes.policy`)."""

    EAGER = "EAGER"
    """The next write rolls back every pending write, whether its writer is alive or not."""
    LAZY = "LAZY"
    """The next write rolls back those whose writer is known to be dead or has been silent for too long."""
    NEVER = "NEVER"
    """Writes do not roll back others."""


class TtlStrategy(Enum):
    """From when on a partition's time to live counts (`hoodie.partition.ttl.management.strategy.type`)."""

    LAST_WRITE = "KEEP_BY_TIME"
    CREATION = "KEEP_BY_CREATION_TIME"


_TTL_CLASSES: Final = {
    TtlStrategy.LAST_WRITE: "org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy",
    TtlStrategy.CREATION: "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy",
}


class CleaningPolicy(Enum):
    """Which file versions cleaning keeps (`hoodie.clean.policy`)."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Hudi's file-system lock.

    Attributes:
        path: folder of the lock file; None for the table's `.hoodie`.
        expire_minutes: age at which any writer may break a lock; 0 for never.
        retries: number of retries.
        wait_ms: longest pause between two tries; retries times this is the longest wait.
        silence_ms: milliseconds without a touch by its holder after which others may break this lock.
    """

    path: str | None = None
    expire_minutes: int = 0
    retries: int = 50
    wait_ms: int = 5000
    silence_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """Cleaning of old file versions.

    Attributes:
        automatic: after each commit.
        policy: see `CleaningPolicy`.
        commits: newest writes whose states of the table stay readable.
        hours: age up to which states stay readable.
        versions: versions kept of each file group.
        incremental: clean only partitions that changed since the last clean.
        every: commits since the last clean after which the automatic one runs.
    """

    automatic: bool = True
    policy: CleaningPolicy = CleaningPolicy.COMMITS
    commits: int = 10
    hours: int = 24
    versions: int = 3
    incremental: bool = True
    every: int = 1


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Archiving of old instants.

    Attributes:
        automatic: after each commit.
        most: completed writes above which instants are archived.
        least: completed writes that stay on the active timeline.
        after_cleans: archive nothing from the earliest write on that the last clean retained.
        merge: join small files of the archive.
        merge_files: number of files of about the same size that are joined.
        merge_bytes: size from which on a file is not joined with others.
    """

    automatic: bool = True
    most: int = 30
    least: int = 20
    after_cleans: bool = False
    merge: bool = True
    merge_files: int = 10
    merge_bytes: int = 20 << 20


@dataclass(frozen=True, slots=True)
class TtlOptions:
    """Partitions' time to live.

    Attributes:
        inline: after each commit.
        strategy: see `TtlStrategy`.
        days: time to live; 0 or less for no end.
        selected: paths of the partitions that may expire; all if empty.
        most: partitions that one run deletes at most.
    """

    inline: bool = False
    strategy: TtlStrategy = TtlStrategy.LAST_WRITE
    days: int = -1
    selected: tuple[str, ...] = ()
    most: int = 1000


@dataclass(frozen=True, slots=True)
class ProtocolOptions:
    """All options of the protocol.

    Attributes:
        failed_writes: see `FailedWrites`.
        heartbeat_interval_ms: longest time between two heartbeats.
        heartbeat_misses: missed heartbeats after which a writer counts as dead.
        silent_minutes: after which a write without heartbeats counts as dead, unless its files change.
        metadata: create a metadata table with a new table.
        column_stats: create the column statistics index with a new metadata table.
        column_stats_shards: number of file groups of that index, which never changes.
        bloom_filters: create the index of bloom filters with a new metadata table.
        bloom_shards: number of file groups of that index.
        bloom_columns: columns that it is asked for; empty for record keys, which alone have filters.
        repair_minutes: least age of files that belong to nothing and are deleted by a repair.
        lock: see `LockOptions`.
        clean: see `CleanOptions`.
        archive: see `ArchiveOptions`.
        ttl: see `TtlOptions`.
    """

    failed_writes: FailedWrites = FailedWrites.LAZY
    heartbeat_interval_ms: int = 60_000
    heartbeat_misses: int = 2
    silent_minutes: int = 60
    metadata: bool = True
    column_stats: bool = True
    column_stats_shards: int = 2
    bloom_filters: bool = False
    bloom_shards: int = 4
    bloom_columns: tuple[str, ...] = ()
    repair_minutes: int = 60
    lock: LockOptions = LockOptions()
    clean: CleanOptions = CleanOptions()
    archive: ArchiveOptions = ArchiveOptions()
    ttl: TtlOptions = TtlOptions()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ProtocolOptions:
        """Read options; other keys are ignored.

        Raises:
            OptionError: an invalid value; the message names its key.
        """
        interval = whole_number(options, "hoodie.client.heartbeat.interval_in_ms", 60_000, 1)
        misses = whole_number(options, "hoodie.client.heartbeat.tolerable.misses", 2, 1)
        return cls(
            failed_writes=_failed_writes(options, optimistic=_is_optimistic(options)),
            heartbeat_interval_ms=interval,
            heartbeat_misses=misses,
            silent_minutes=whole_number(options, "hoodie.catalog.write.silent.minutes", 60, 1),
            metadata=flag(options, "hoodie.metadata.enable", default=True),
            column_stats=flag(options, "hoodie.metadata.index.column.stats.enable", default=True),
            column_stats_shards=whole_number(options, "hoodie.metadata.index.column.stats.file.group.count", 2, 1),
            bloom_filters=flag(options, "hoodie.metadata.index.bloom.filter.enable"),
            bloom_shards=whole_number(options, BLOOM_GROUPS, 4, 1),
            bloom_columns=names(options, BLOOM_COLUMNS),
            repair_minutes=whole_number(options, REPAIR_MINUTES, 60, 0),
            lock=_lock(options, interval * misses),
            clean=_clean(options),
            archive=_archive(options),
            ttl=_ttl(options),
        )


def _is_optimistic(options: Mapping[str, str]) -> bool:
    """Whether the job expects concurrent writers; locks, heartbeats and conflict checks are on either way."""
    key = "hoodie.write.concurrency.mode"
    mode = options.get(key, "single_writer").strip().lower()
    if mode not in ("single_writer", "optimistic_concurrency_control"):
        raise OptionError(f"{key}={options[key]!r}: give single_writer or optimistic_concurrency_control")
    return mode == "optimistic_concurrency_control"


def _failed_writes(options: Mapping[str, str], *, optimistic: bool) -> FailedWrites:
    key = alias(options, "hoodie.clean.failed.writes.policy", "hoodie.cleaner.policy.failed.writes")
    policy = _policy(options, key, FailedWrites.LAZY)
    if optimistic and policy is FailedWrites.EAGER:
        raise OptionError(
            f"{key}=EAGER would roll back other live writers under optimistic concurrency control: give LAZY"
        )
    return policy


def _lock(options: Mapping[str, str], silence_ms: int) -> LockOptions:
    key = "hoodie.write.lock.provider"
    provider = options.get(key, "").rsplit(".", 1)[-1]
    if provider not in ("", "FileSystemBasedLockProvider"):
        raise OptionError(
            f"{key}={options[key]!r} is not supported; all writers of a table must share one lock: give "
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
        )
    path = options.get("hoodie.write.lock.filesystem.path", "").strip()
    return LockOptions(
        path=path or None,
        expire_minutes=whole_number(options, "hoodie.write.lock.filesystem.expire", 0, 0),
        retries=whole_number(
            options,
            alias(options, "hoodie.write.lock.client.num_retries", "hoodie.write.lock.num_retries"),
            50,
            0,
        ),
        wait_ms=whole_number(
            options,
            alias(
                options,
                "hoodie.write.lock.client.wait_time_ms_between_retry",
                "hoodie.write.lock.wait_time_ms_between_retry",
            ),
            5000,
            1,
        ),
        silence_ms=silence_ms,
    )


def _clean(options: Mapping[str, str]) -> CleanOptions:
    if flag(options, alias(options, "hoodie.clean.async.enabled", "hoodie.clean.async")):
        raise OptionError(
            "hoodie.clean.async=true: there is no background cleaning; call clean() or leave it automatic"
        )
    return CleanOptions(
        automatic=flag(options, "hoodie.clean.automatic", default=True),
        policy=_policy(options, alias(options, "hoodie.clean.policy", "hoodie.cleaner.policy"), CleaningPolicy.COMMITS),
        commits=whole_number(
            options, alias(options, "hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained"), 10, 1
        ),
        hours=whole_number(
            options, alias(options, "hoodie.clean.hours.retained", "hoodie.cleaner.hours.retained"), 24, 0
        ),
        versions=whole_number(
            options,
            alias(options, "hoodie.clean.fileversions.retained", "hoodie.cleaner.fileversions.retained"),
            3,
            1,
        ),
        incremental=flag(
            options,
            alias(options, "hoodie.clean.incremental.enabled", "hoodie.cleaner.incremental.mode"),
            default=True,
        ),
        every=whole_number(
            options, alias(options, "hoodie.clean.trigger.max.commits", "hoodie.clean.max.commits"), 1, 1
        ),
    )


def _archive(options: Mapping[str, str]) -> ArchiveOptions:
    least = whole_number(options, "hoodie.keep.min.commits", 20, 1)
    most = whole_number(options, "hoodie.keep.max.commits", max(30, least + 10), 1)
    if most <= least:
        raise OptionError(
            f"hoodie.keep.max.commits={most}: give more than hoodie.keep.min.commits={least}; archiving begins at more "
            "commits than the one and leaves as many as the other"
        )
    return ArchiveOptions(
        automatic=flag(options, "hoodie.archive.automatic", default=True),
        most=most,
        least=least,
        after_cleans=flag(options, "hoodie.archive.block.on.latest.clean.ectr"),
        merge=flag(options, "hoodie.archive.merge.enable", default=True),
        merge_files=whole_number(options, "hoodie.archive.merge.files.batch.size", 10, 2),
        merge_bytes=whole_number(options, "hoodie.archive.merge.small.file.limit.bytes", 20 << 20, 1),
    )


def _ttl(options: Mapping[str, str]) -> TtlOptions:
    strategy = _policy(options, "hoodie.partition.ttl.management.strategy.type", TtlStrategy.LAST_WRITE)
    named = options.get(_TTL_CLASS, "").strip()
    if named:  # decides where both are set, as in Apache
        by_class = {name: kind for kind, name in _TTL_CLASSES.items()}
        if named not in by_class:
            raise OptionError(f"{_TTL_CLASS}={named!r} is not supported; give {' or '.join(by_class)}")
        strategy = by_class[named]
    selected = options.get("hoodie.partition.ttl.strategy.partition.selected", "")
    return TtlOptions(
        inline=flag(options, "hoodie.partition.ttl.inline"),
        strategy=strategy,
        days=-1 if options.get(TTL_DAYS, "-1").strip() == "-1" else whole_number(options, TTL_DAYS, -1, 0),
        selected=tuple(name.strip().strip("/") for name in selected.split(",") if name.strip()),
        most=whole_number(options, "hoodie.partition.ttl.strategy.max.delete.partitions", 1000, 1),
    )


def _policy(options: Mapping[str, str], key: str, default: _Policy) -> _Policy:
    kind = type(default)
    return kind(choice(options, key, default.value, [each.value for each in kind]))
