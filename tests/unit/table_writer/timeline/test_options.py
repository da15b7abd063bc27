import pytest

from table_format.errors import OptionError
from table_writer.timeline.options import CleaningPolicy, FailedWrites, ProtocolOptions


def test_defaults_are_apaches_but_for_who_is_rolled_back():
    options = ProtocolOptions.parse({"unknown.key": "x"})
    assert options == ProtocolOptions()
    assert options.failed_writes is FailedWrites.LAZY
    assert (options.clean.policy, options.clean.commits) == (CleaningPolicy.COMMITS, 10)
    assert (options.lock.retries, options.lock.wait_ms, options.lock.expire_minutes) == (50, 5000, 0)
    assert (options.heartbeat_interval_ms, options.heartbeat_misses) == (60_000, 2)


@pytest.mark.parametrize("mode", ["OPTIMISTIC_CONCURRENCY_CONTROL", "single_writer"])
def test_both_modes_of_concurrency_are_safe(mode):
    assert ProtocolOptions.parse({"hoodie.write.concurrency.mode": mode}) == ProtocolOptions()


def test_locks_expire_as_heartbeats_do():
    interval, misses = "hoodie.client.heartbeat.interval_in_ms", "hoodie.client.heartbeat.tolerable.misses"
    assert ProtocolOptions().lock.silence_ms == 120_000
    assert ProtocolOptions.parse({interval: "1000", misses: "5"}).lock.silence_ms == 5000


@pytest.mark.parametrize(
    ("key", "value", "path", "expected"),
    [
        ("hoodie.cleaner.policy.failed.writes", "lazy", "failed_writes", FailedWrites.LAZY),
        ("hoodie.clean.failed.writes.policy", "NEVER", "failed_writes", FailedWrites.NEVER),
        ("hoodie.clean.policy", "KEEP_LATEST_FILE_VERSIONS", "clean.policy", CleaningPolicy.VERSIONS),
        ("hoodie.cleaner.policy", "keep_latest_by_hours", "clean.policy", CleaningPolicy.HOURS),
        ("hoodie.clean.commits.retained", "3", "clean.commits", 3),
        ("hoodie.cleaner.commits.retained", " 4 ", "clean.commits", 4),
        ("hoodie.cleaner.hours.retained", "0", "clean.hours", 0),
        ("hoodie.cleaner.fileversions.retained", "1", "clean.versions", 1),
        ("hoodie.clean.automatic", "FALSE", "clean.automatic", False),
        ("hoodie.write.lock.filesystem.path", "/x", "lock.path", "/x"),
        ("hoodie.write.lock.filesystem.expire", "5", "lock.expire_minutes", 5),
        ("hoodie.write.lock.client.num_retries", "7", "lock.retries", 7),
        ("hoodie.write.lock.wait_time_ms_between_retry", "9", "lock.wait_ms", 9),
        ("hoodie.metadata.enable", "false", "metadata", False),
        ("hoodie.metadata.index.column.stats.enable", "false", "column_stats", False),
    ],
)
def test_values(key, value, path, expected):
    value_ = ProtocolOptions.parse({key: value})
    for name in path.split("."):
        value_ = getattr(value_, name)
    assert value_ == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.write.concurrency.mode", "non_blocking_concurrency_control"),
        ("hoodie.clean.policy", "KEEP_NONE"),
        ("hoodie.cleaner.commits.retained", "0"),
        ("hoodie.cleaner.commits.retained", "ten"),
        ("hoodie.cleaner.hours.retained", "-1"),
        ("hoodie.clean.automatic", "yes"),
        ("hoodie.clean.async", "true"),
        ("hoodie.write.lock.provider", "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"),
        ("hoodie.clean.failed.writes.policy", "SOON"),
    ],
)
def test_values_that_cannot_be_used_are_refused_by_key(key, value):
    with pytest.raises(OptionError, match=key.replace(".", r"\.")):
        ProtocolOptions.parse({key: value})
