"""Options of the writing protocol, under Apache Hudi's own keys, with types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from table_format.errors import OptionError
from table_format.record_index.growth import IndexOptions

_TRUE_FALSE: Final = {"true": True, "false": False}
_Choice = TypeVar("_Choice", bound=Enum)


class FailedWrites(Enum):
    """Who clears up after dead writers (`hoodie.clean.failed.writes.policy`)."""

    EAGER = "EAGER"
    """The next writer, all that is pending: there is one writer at a time."""
    LAZY = "LAZY"
    """The next writer, where the heartbeat has expired: others may be alive."""
    NEVER = "NEVER"
    """Nobody."""


class CleaningPolicy(Enum):
    """What cleaning keeps (`hoodie.clean.policy`)."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Hudi's file-system lock.

    Attributes:
        path: folder of the lock file; None for the table's `.hoodie`.
        expire_minutes: age at which anybody may break a lock; 0 for never.
        retries: how often to try again.
        wait_ms: longest pause between two tries; retries times this is the longest wait.
    """

    path: str | None = None
    expire_minutes: int = 0
    retries: int = 50
    wait_ms: int = 5000


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """Cleaning of old file versions.

    Attributes:
        automatic: after each commit.
        policy: see `CleaningPolicy`.
        commits: writes whose state of the table stays readable.
        hours: age up to which states stay readable.
        versions: versions kept of each file group.
        incremental: look only at partitions that changed since the last clean.
    """

    automatic: bool = True
    policy: CleaningPolicy = CleaningPolicy.COMMITS
    commits: int = 10
    hours: int = 24
    versions: int = 3
    incremental: bool = True


@dataclass(frozen=True, slots=True)
class ProtocolOptions:
    """All options of the protocol.

    Attributes:
        optimistic: several writers at a time, under the table lock.
        failed_writes: see `FailedWrites`.
        heartbeat_interval_ms: how often a lazy writer shows that it lives.
        heartbeat_misses: missed heartbeats after which it counts as dead.
        metadata: keep a metadata table.
        column_stats: give a new metadata table the column statistics index.
        column_stats_shards: over how many file groups that index is spread, for good.
        record_index: what a record index of a new table is to be like, if there is to be one.
        lock: see `LockOptions`.
        clean: see `CleanOptions`.
    """

    optimistic: bool = False
    failed_writes: FailedWrites = FailedWrites.EAGER
    heartbeat_interval_ms: int = 60_000
    heartbeat_misses: int = 2
    metadata: bool = True
    column_stats: bool = True
    column_stats_shards: int = 2
    record_index: IndexOptions = field(default_factory=IndexOptions)
    lock: LockOptions = LockOptions()
    clean: CleanOptions = CleanOptions()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ProtocolOptions:
        """Read options; keys of other parts of Hudi are passed over.

        Raises:
            OptionError: a value that cannot be used; the message names its key.
        """
        optimistic = _concurrency(options)
        return cls(
            optimistic=optimistic,
            failed_writes=_failed_writes(options, optimistic=optimistic),
            heartbeat_interval_ms=_int(options, 60_000, 1, "hoodie.client.heartbeat.interval_in_ms"),
            heartbeat_misses=_int(options, 2, 1, "hoodie.client.heartbeat.tolerable.misses"),
            metadata=_bool(options, "hoodie.metadata.enable", default=True),
            column_stats=_bool(options, "hoodie.metadata.index.column.stats.enable", default=True),
            column_stats_shards=_int(options, 2, 1, "hoodie.metadata.index.column.stats.file.group.count"),
            record_index=IndexOptions.parse(options),
            lock=_lock(options),
            clean=_clean(options),
        )


def _concurrency(options: Mapping[str, str]) -> bool:
    key = "hoodie.write.concurrency.mode"
    mode = options.get(key, "single_writer").strip().lower()
    if mode not in ("single_writer", "optimistic_concurrency_control"):
        raise OptionError(f"{key}={options[key]!r}: give single_writer or optimistic_concurrency_control")
    return mode == "optimistic_concurrency_control"


def _failed_writes(options: Mapping[str, str], *, optimistic: bool) -> FailedWrites:
    keys = ("hoodie.clean.failed.writes.policy", "hoodie.cleaner.policy.failed.writes")
    default = FailedWrites.LAZY if optimistic else FailedWrites.EAGER
    key, policy = _choice(options, FailedWrites, default, *keys)
    if optimistic and policy is FailedWrites.EAGER:
        raise OptionError(
            f"{key}=EAGER would roll back other live writers under optimistic concurrency control: give LAZY"
        )
    return policy


def _lock(options: Mapping[str, str]) -> LockOptions:
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
        expire_minutes=_int(options, 0, 0, "hoodie.write.lock.filesystem.expire"),
        retries=_int(options, 50, 0, "hoodie.write.lock.client.num_retries", "hoodie.write.lock.num_retries"),
        wait_ms=_int(
            options,
            5000,
            1,
            "hoodie.write.lock.client.wait_time_ms_between_retry",
            "hoodie.write.lock.wait_time_ms_between_retry",
        ),
    )


def _clean(options: Mapping[str, str]) -> CleanOptions:
    _, policy = _choice(options, CleaningPolicy, CleaningPolicy.COMMITS, "hoodie.clean.policy", "hoodie.cleaner.policy")
    if _bool(options, "hoodie.clean.async.enabled", "hoodie.clean.async", default=False):
        raise OptionError(
            "hoodie.clean.async=true: there is no background cleaning; call clean() or leave it automatic"
        )
    return CleanOptions(
        automatic=_bool(options, "hoodie.clean.automatic", default=True),
        policy=policy,
        commits=_int(options, 10, 1, "hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained"),
        hours=_int(options, 24, 0, "hoodie.clean.hours.retained", "hoodie.cleaner.hours.retained"),
        versions=_int(options, 3, 1, "hoodie.clean.fileversions.retained", "hoodie.cleaner.fileversions.retained"),
        incremental=_bool(options, "hoodie.clean.incremental.enabled", "hoodie.cleaner.incremental.mode", default=True),
    )


def _first(options: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str, str | None]:
    return next(((key, options[key].strip()) for key in keys if key in options), (keys[0], None))


def _int(options: Mapping[str, str], default: int, least: int, *keys: str) -> int:
    key, text = _first(options, keys)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise OptionError(f"{key}={text!r}: give a whole number of at least {least}")
    return int(text)


def _bool(options: Mapping[str, str], *keys: str, default: bool) -> bool:
    key, text = _first(options, keys)
    if text is None:
        return default
    if text.lower() not in _TRUE_FALSE:
        raise OptionError(f"{key}={text!r}: give true or false")
    return _TRUE_FALSE[text.lower()]


def _choice(options: Mapping[str, str], kind: type[_Choice], default: _Choice, *keys: str) -> tuple[str, _Choice]:
    key, text = _first(options, keys)
    if text is None:
        return key, default
    try:
        return key, kind(text.upper())
    except ValueError as error:
        raise OptionError(f"{key}={text!r}: give one of {', '.join(member.value for member in kind)}") from error
