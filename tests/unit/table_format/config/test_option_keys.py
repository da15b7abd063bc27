"""Unknown keys, and keys that are not implemented."""

import inspect
import warnings

import pytest

from table_format.config.option_keys import (
    UNSUPPORTED_OPTIONS,
    UnsupportedOption,
    apache_keys,
    check_writer_options,
    is_apache_key,
)
from table_format.errors import OptionError, OptionWarning, did_you_mean


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("hoodie.upsert.shufle.parallelism", r"does nothing \(did you mean hoodie\.upsert\.shuffle\.parallelism\?\)"),
        ("hoodie.datasource.write.recordKey.field", r"mean hoodie\.datasource\.write\.recordkey\.field\?"),
        ("hoodie.bucket.index.num.bucket", r"mean hoodie\.bucket\.index\.num\.buckets\?"),
        ("hoodie.catlog.write.tasks", r"mean hoodie\.catalog\.write\.tasks\?"),
        ("hoodie.deltastreamer.keygen.timebased.timezon", r"mean hoodie\.deltastreamer\.keygen\.timebased\.timezone"),
        ("hodie.table.name", r"begin with hoodie\. \(did you mean hoodie\.table\.name\?\)"),
        ("Hoodie.table.name", r"did you mean hoodie\.table\.name\?"),
        ("hudi.table.name", r"did you mean hoodie\.table\.name\?"),
        (" hoodie.table.name", r"did you mean hoodie\.table\.name\?"),
        ("datasource.write.recordkey.field", r"mean hoodie\.datasource\.write\.recordkey\.field\?"),
        ("hoddie.nothing.like.it", r"begin with hoodie\.$"),
        ("hoodie.frobnicate", r"does nothing$"),
    ],
)
def test_a_misspelt_key_is_warned_of_with_the_nearest(key: str, message: str) -> None:
    with pytest.warns(OptionWarning, match=message) as warned:
        check_writer_options({key: "1"})
    assert len(warned) == 1


@pytest.mark.parametrize(
    "key",
    [
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.metrics.reporter.type",
        "hoodie.streamer.source.kafka.topic",
        "hoodie.record.merge.property.x",
        "hoodie.catalog.sync.format",
        "path",
        "mergeSchema",
        "parquet.block.size",
        "spark.sql.shuffle.partitions",
        "fs.s3a.endpoint",
    ],
)
def test_keys_that_do_not_concern_a_writer_are_passed_over(key: str) -> None:
    check_writer_options({key: "1"})  # a warning is an error here


@pytest.mark.parametrize(
    "key", ["hoodie.catalog.write.task", "hoodie.Catalog.write.tasks", "hoodie.catalog.write_tasks"]
)
def test_an_unknown_key_of_our_own_is_refused_with_the_nearest(key: str) -> None:
    with pytest.raises(OptionError, match=r"no such option \(did you mean hoodie\.catalog\.write\.tasks\?\)"):
        check_writer_options({key: "1"})
    with pytest.raises(OptionError, match=r"no such option; there are hoodie\.catalog\."):
        check_writer_options({"hoodie.catalog.scan.threads": "1"})


@pytest.mark.parametrize("rule", UNSUPPORTED_OPTIONS, ids=lambda rule: rule.key)
def test_options_whose_work_is_not_done(rule: UnsupportedOption) -> None:
    key = f"{rule.key}retry.count" if rule.key.endswith(".") else rule.key
    asked = next(value for value in ("true", "false", "org.else.Where") if value not in rule.harmless)
    if rule.refused:
        with pytest.raises(OptionError) as refused:
            check_writer_options({key: asked})
        message = str(refused.value)
    else:
        with pytest.warns(OptionWarning) as warnings:
            check_writer_options({key: asked})
        message = str(warnings[0].message)
    assert all(part in message for part in (f"{key}='{asked}'", rule.reason, rule.remedy))
    for value in rule.harmless:
        check_writer_options({key: f" org.apache.hudi.{value.upper()}" if value else ""})


def test_locks_of_others_are_refused_where_no_provider_is_named() -> None:
    zookeeper = {"hoodie.write.lock.zookeeper.url": "zk:2181"}
    ours = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}
    with pytest.raises(OptionError, match="FileSystemBasedLockProvider"):
        check_writer_options(zookeeper)
    check_writer_options(zookeeper | ours)
    check_writer_options(zookeeper, ours)


def test_a_warning_points_at_the_users_line_and_comes_once_for_it() -> None:
    lines = set()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for _ in range(3):
            check_writer_options({"hoodie.frobnicate": "1"})
            lines.add(inspect.currentframe().f_lineno - 1)
    assert [(warning.filename, {warning.lineno}) for warning in warned] == [(__file__, lines)]


def test_apaches_keys_are_keys() -> None:
    assert len(apache_keys()) > 700
    assert all(key.startswith("hoodie.") and not key.endswith(".") for key in apache_keys())
    assert is_apache_key("hoodie.datasource.write.recordkey.field")
    assert not is_apache_key("hoodie.catalog.write.tasks")


def test_hints_name_what_is_much_alike() -> None:
    assert did_you_mean("raed", ["read", "show"]) == " (did you mean read?)"
    assert did_you_mean("PRICE", ["price", "prices"]) == " (did you mean price?)"
    assert did_you_mean("colum", ["column", "colour"]) == " (did you mean column?)"
    assert did_you_mean("x", ["read", "show"]) == ""
