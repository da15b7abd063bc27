"""Known option keys: writers warn of options without effect, and refuse unknown ones of our own prefix.

A job that moves over from Apache's jar keeps its options, so Apache's keys that do not concern us are accepted
silently: `apache_option_keys.txt` lists them (made from Apache's releases by `tools/apache_option_keys.py`).
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from table_format.errors import OptionError, OptionWarning, did_you_mean, nearest

_OFF: Final = ("", "false")
_PARQUET: Final = ("", "parquet")
_LOCK: Final = "hoodie.write.lock."
_PROVIDER: Final = "hoodie.write.lock.provider"
_OUR_LOCK: Final = "FileSystemBasedLockProvider"
_OTHER_LOCKS: Final = ("zookeeper", "dynamodb", "hivemetastore", "storage")


@dataclass(frozen=True, slots=True)
class UnsupportedOption:
    """An option of Apache Hudi's that is not implemented.

    Attributes:
        key: its key; with a dot at the end, all keys with that prefix.
        refused: raise an error, since ignoring it would harm data; else warn.
        reason: what is not implemented.
        remedy: what to do instead.
        harmless: values (lower case, without Java package) that have no effect in Apache Hudi either.
    """

    key: str
    refused: bool
    reason: str
    remedy: str
    harmless: tuple[str, ...] = _OFF

    def concerns(self, key: str, value: str) -> bool:
        """Whether the option with this value would have an effect."""
        if not (key == self.key or (self.key.endswith(".") and key.startswith(self.key))):
            return False
        return any(part.strip().rsplit(".", 1)[-1].lower() not in self.harmless for part in value.split(","))


def refuse_other_lock_providers(options: Mapping[str, str]) -> None:
    """Refuse settings of another lock provider in a job that does not name a lock provider.

    Apache's default provider is ZooKeeper: a job that sets only its address relies on it.

    Raises:
        OptionError: there are such settings.
    """
    if _PROVIDER in options:
        return  # checked by the lock itself
    for key in options:
        kind = key.removeprefix(_LOCK).partition(".")[0]
        if key.startswith(_LOCK) and kind in _OTHER_LOCKS:
            raise OptionError(
                f"{key}: writers that lock by {kind} and this one would not see each other; give all writers of the "
                f"table {_PROVIDER}=org.apache.hudi.client.transaction.lock.{_OUR_LOCK}, or leave the option out where "
                "this is the only writer"
            )


_LAYOUT: Final = ("it is Apache Hudi's older switch", "give hoodie.clustering.inline=true")
_NO_COMPACTION: Final = ("there are no log files to compact in copy-on-write tables", "leave it out")
_INDEX: Final = ("this index is not kept, and queries go without it", "leave it out")
_PLAIN: Final = ("files are not encrypted", "write this table with Apache Hudi, or encrypt the storage")
_FORMAT: Final = ("base files are Parquet", "leave it out, or write this table with Apache Hudi")
_ALL_CLEANED: Final = ("all partitions are cleaned", "give hoodie.clean.automatic=false")
_PLANS_STAY: Final = (
    "a planned clustering stays until it has run",
    "run it by maintenance, or cancel it by hudi-catalog rollback",
)
_CHECK_BEFORE: Final = "check the DataFrame before it is written, or write with Apache Hudi"

UNSUPPORTED_OPTIONS: Final = (
    UnsupportedOption("hoodie.precommit.validators", True, "nothing validates the commit", _CHECK_BEFORE),
    UnsupportedOption("hoodie.prewrite.validators", True, "nothing validates the rows", _CHECK_BEFORE),
    UnsupportedOption("parquet.encryption.", True, *_PLAIN, harmless=("",)),
    UnsupportedOption("parquet.crypto.factory.class", True, *_PLAIN, harmless=("",)),
    UnsupportedOption(
        "hoodie.table.cdc.enabled",
        True,
        "changes are not logged, so that those who read them would miss some",
        "write this table with Apache Hudi, or read changes by incremental queries",
    ),
    UnsupportedOption(
        "hoodie.allow.operation.metadata.field",
        True,
        "the operation of each row is not recorded",
        "write this table with Apache Hudi",
    ),
    UnsupportedOption(
        "hoodie.payload.delete.field",
        True,
        "no value of a column deletes a record, but the flag _hoodie_is_deleted",
        "add that column, or use the operation delete",
        harmless=("",),
    ),
    UnsupportedOption(
        "hoodie.index.class",
        True,
        "records are found by the index of hoodie.index.type, not by a class",
        "give hoodie.index.type",
        harmless=("",),
    ),
    UnsupportedOption("hoodie.base.file.format", True, *_FORMAT, harmless=_PARQUET),
    UnsupportedOption("hoodie.table.base.file.format", True, *_FORMAT, harmless=_PARQUET),
    UnsupportedOption("hoodie.table.multiple.base.file.formats.enable", True, *_FORMAT),
    UnsupportedOption(
        "hoodie.table.services.enabled",
        True,
        "old files would be cleaned all the same",
        "give hoodie.clean.automatic=false",
        harmless=("", "true"),
    ),
    UnsupportedOption("hoodie.clean.partition.filter.regex", True, *_ALL_CLEANED, harmless=("",)),
    UnsupportedOption("hoodie.clean.partition.filter.selected", True, *_ALL_CLEANED, harmless=("",)),
    UnsupportedOption("hoodie.cleaner.partition.filter.regex", True, *_ALL_CLEANED, harmless=("",)),
    UnsupportedOption("hoodie.cleaner.partition.filter.selected", True, *_ALL_CLEANED, harmless=("",)),
    UnsupportedOption(
        "hoodie.clean.max.commits.to.clean",
        False,
        "a clean deletes all that its policy no longer keeps",
        "raise hoodie.clean.commits.retained",
        harmless=("", "9223372036854775807"),
    ),
    UnsupportedOption(
        "hoodie.clustering.plan.strategy.earliest.commit.to.cluster",
        False,
        "files are chosen by their size, not by their commit",
        "choose partitions, or leave it out",
        harmless=("",),
    ),
    UnsupportedOption(
        "hoodie.clustering.updates.strategy",
        False,
        "changes of files that a clustering is about to rewrite are refused",
        "leave it out",
        harmless=("", "sparkrejectupdatestrategy"),
    ),
    UnsupportedOption("hoodie.layout.optimize.enable", False, *_LAYOUT),
    UnsupportedOption(
        "hoodie.layout.optimize.curve.build.method",
        False,
        "curves are built from ranks of a sample",
        "leave it out",
        harmless=("", "sample"),
    ),
    UnsupportedOption(
        "hoodie.layout.optimize.build.curve.sample.size",
        False,
        "the sample's size goes by the number of files",
        "leave it out",
        harmless=("",),
    ),
    UnsupportedOption(
        "hoodie.clustering.plan.strategy.file.slices.sort.by",
        False,
        "the largest files are put together first",
        "leave it out",
        harmless=("", "size"),
    ),
    UnsupportedOption("hoodie.clustering.rollback.pending.replacecommit.on.conflict", False, *_PLANS_STAY),
    UnsupportedOption("hoodie.clustering.enable.expirations", False, *_PLANS_STAY),
    UnsupportedOption(
        "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution",
        False,
        "a clustering conflicts with writes that complete before it",
        "leave it out",
    ),
    UnsupportedOption(
        "hoodie.clean.trigger.strategy",
        False,
        "cleaning goes by hoodie.clean.trigger.max.commits",
        "leave it out",
        harmless=("", "num_commits"),
    ),
    UnsupportedOption(
        "hoodie.prewrite.cleaner.policy",
        False,
        "a write rolls dead ones back before it begins, and cleans after its commit",
        "leave it out",
        harmless=("", "none"),
    ),
    UnsupportedOption(
        "hoodie.write.empty.clean.interval.hours",
        False,
        "a clean that has nothing to delete leaves no instant",
        "leave it out",
        harmless=("", "-1"),
    ),
    UnsupportedOption(
        "hoodie.fail.on.timeline.archiving",
        False,
        "a failure of archiving is logged, and the commit stands",
        "run archive() in the job",
        harmless=("", "false"),
    ),
    UnsupportedOption("hoodie.compact.inline", False, *_NO_COMPACTION),
    UnsupportedOption("hoodie.compact.schedule.inline", False, *_NO_COMPACTION),
    UnsupportedOption("hoodie.datasource.compaction.async.enable", False, *_NO_COMPACTION),
    UnsupportedOption("hoodie.log.compaction.enable", False, *_NO_COMPACTION),
    UnsupportedOption("hoodie.log.compaction.inline", False, *_NO_COMPACTION),
    UnsupportedOption("hoodie.archive.async", False, "the timeline is archived by the write itself", "leave it out"),
    UnsupportedOption(
        "hoodie.archive.beyond.savepoint", False, "instants after a savepoint stay active", "leave it out"
    ),
    UnsupportedOption("hoodie.metadata.index.async", False, "indexes are built by the write itself", "leave it out"),
    UnsupportedOption("hoodie.metadata.index.partition.stats.enable", False, *_INDEX),
    UnsupportedOption("hoodie.metadata.index.secondary.enable", False, *_INDEX),
    UnsupportedOption("hoodie.metadata.index.expression.enable", False, *_INDEX),
    UnsupportedOption(
        "hoodie.write.commit.callback.on",
        False,
        "no callback is made after a commit",
        "call after the write, in the job",
    ),
    UnsupportedOption(
        "hoodie.client.init.callback.classes",
        False,
        "Java classes are not called",
        "do it in the job, before the write",
        harmless=("",),
    ),
    UnsupportedOption(
        "hoodie.datasource.write.commitmeta.key.prefix",
        False,
        "options are not put into the commit",
        "keep checkpoints elsewhere",
        harmless=("", "_"),
    ),
    UnsupportedOption(
        "hoodie.datasource.write.streaming.",
        False,
        "a write is one batch, in foreachBatch as well",
        "use stream_writer(app_id) there",
    ),
    UnsupportedOption(
        "hoodie.write.track.event.time.watermark",
        False,
        "commits hold no event times",
        "leave it out",
    ),
    UnsupportedOption(
        "hoodie.write.schema", False, "columns are those of the DataFrame", "select and cast them", harmless=("",)
    ),
    UnsupportedOption(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        False,
        "a table keeps its columns, and those that a batch lacks become null",
        "leave it out",
    ),
    UnsupportedOption(
        "hoodie.combine.before.upsert",
        False,
        "an upsert always keeps one row per key",
        "use insert where all are wanted",
        harmless=("", "true"),
    ),
    UnsupportedOption(
        "hoodie.datasource.overwrite.mode",
        False,
        "insert_overwrite replaces the partitions of the rows",
        "use insert_overwrite_table to replace all",
        harmless=("", "dynamic"),
    ),
    UnsupportedOption(
        "hoodie.bulkinsert.user.defined.partitioner.class",
        False,
        "rows are laid out by hoodie.bulkinsert.sort.mode",
        "sort the DataFrame and give hoodie.bulkinsert.sort.mode=NONE",
        harmless=("",),
    ),
    UnsupportedOption(
        "hoodie.parquet.outputtimestamptype",
        False,
        "timestamps are stored in microseconds",
        "leave it out",
        harmless=("", "timestamp_micros"),
    ),
    UnsupportedOption(
        "hoodie.parquet.writelegacyformat.enabled", False, "files have Parquet's current format", "leave it out"
    ),
    UnsupportedOption(
        "hoodie.metrics.on", False, "there are no metrics of writes", "take them from the summary of the write"
    ),
    UnsupportedOption(
        "hoodie.errortable.enable", False, "a row that is refused fails the write", "filter the DataFrame before"
    ),
    UnsupportedOption("hoodie.metaserver.enabled", False, "the table's own files are its timeline", "leave it out"),
    UnsupportedOption("hoodie.table.service.manager.enabled", False, "there is no such service", "leave it out"),
)
"""Options that are not implemented, refused ones first, in the order of the reference."""


OUR_PREFIX: Final = "hoodie.catalog."

OUR_WRITER_KEYS: Final = (
    "hoodie.catalog.bucket.max.file.size",
    "hoodie.catalog.executor.folder",
    "hoodie.catalog.executor.memory",
    "hoodie.catalog.executor.processes",
    "hoodie.catalog.executor.threads",
    "hoodie.catalog.maintain.services",
    "hoodie.catalog.record.index.driver.rows",
    "hoodie.catalog.record.index.dynamic.lookup",
    "hoodie.catalog.record.index.growth",
    "hoodie.catalog.record.index.hash",
    "hoodie.catalog.record.index.lookup",
    "hoodie.catalog.record.index.packed.keys",
    "hoodie.catalog.repair.minutes",
    "hoodie.catalog.write.partial.columns",
    "hoodie.catalog.write.progress",
    "hoodie.catalog.write.retries",
    "hoodie.catalog.write.silent.minutes",
    "hoodie.catalog.write.split.bytes",
    "hoodie.catalog.write.surgery",
    "hoodie.catalog.write.surgery.max.cost.percent",
    "hoodie.catalog.write.surgery.max.loose.percent",
    "hoodie.catalog.write.surgery.max.small.groups",
    "hoodie.catalog.write.surgery.max.touched.percent",
    "hoodie.catalog.write.surgery.min.file.size",
    "hoodie.catalog.write.driver.bytes",
    "hoodie.catalog.write.direct.scan",
    "hoodie.catalog.write.task.memory",
    "hoodie.catalog.write.tasks",
    "hoodie.catalog.write.txn.app",
    "hoodie.catalog.write.txn.version",
    "hoodie.catalog.write.zstd.level",
)
"""Our own keys that writers read."""

# Read and checked by steps after the commit.
_AFTER_COMMIT_PREFIXES: Final = ("hoodie.catalog.sync.", "hoodie.catalog.metastore.", "hoodie.catalog.hive.service")

# Apache's keys that its Spark bundle does not declare: of RFC-29, of older documentation, of its streamer.
UNDECLARED_APACHE_KEYS: Final = frozenset(
    {
        "hoodie.hash.index.bucket.num",
        "hoodie.datasource.write.indexkey.field",
        "hoodie.keygen.timebased.type",
        "hoodie.deltastreamer.keygen.timebased.type",
    }
)

# Of Apache's streamer and cloud modules, which the bundle does not declare, and prefixes that a user's name follows.
_OPEN_APACHE_PREFIXES: Final = (
    "hoodie.streamer.",
    "hoodie.deltastreamer.",
    "hoodie.aws.",
    "hoodie.gcp.",
    "hoodie.datahub.",
    "hoodie.write.lock.dynamodb.",
    "hoodie.datasource.meta.sync.glue.",
    "hoodie.record.merge.property.",
    "hoodie.metadata.index.expression.",
)

# declared by the bundle one by one, so that misspelt ones are detected
_DECLARED_PREFIX: Final = "hoodie.deltastreamer.keygen."

# Long names with a common prefix would be similar by that alone.
ALIKE: Final = 0.8
_PREFIX: Final = "hoodie."
_PREFIX_ALIKE: Final = 0.7

# Keys of Spark, Hadoop and its formats, such as `parquet.block.size`.
_OTHER_PREFIXES: Final = ("parquet", "spark", "fs", "dfs", "hive", "avro", "orc", "mapreduce", "hadoop")
_PACKAGES: Final = frozenset(
    {"table_format", "pushdown", "catalog", "table_writer", "spark_writer", "hudi_catalog", "contextlib", "functools"}
)


@functools.cache
def apache_keys() -> frozenset[str]:
    """Option keys declared by Apache Hudi's releases."""
    lines = resources.files("table_format.config").joinpath("apache_option_keys.txt").read_text("utf-8").splitlines()
    return UNDECLARED_APACHE_KEYS.union(line for line in lines if not line.startswith("#"))


def is_apache_key(key: str) -> bool:
    """Whether Apache Hudi has an option of that name."""
    open_ended = key.startswith(_OPEN_APACHE_PREFIXES) and not key.startswith(_DECLARED_PREFIX)
    return open_ended or key in apache_keys()


def check_writer_options(options: Mapping[str, str], others: Mapping[str, str] | None = None) -> None:
    """Check the options of a writer's call, before it does anything.

    Warns by `OptionWarning` of keys that neither we nor Apache Hudi have, and of Apache's that are not implemented
    here. Keys that do not look like Hudi's are ignored.

    Args:
        options: options of this call.
        others: further options that apply to it and were checked before.

    Raises:
        OptionError: an unknown key of our own prefix, or an option that would harm data if ignored.
    """
    for key, value in options.items():
        if key.lower().startswith(OUR_PREFIX):
            _check_ours(key)
        elif key.startswith(_PREFIX) and not is_apache_key(key):
            _warn(f"{key}: neither Apache Hudi nor hudi-catalog has this option; it does nothing{_hint(key)}")
        elif not key.startswith(_PREFIX):
            _check_foreign(key)
        rule = next((rule for rule in UNSUPPORTED_OPTIONS if rule.concerns(key, value)), None)
        if rule is not None and rule.refused:
            raise OptionError(f"{key}={value!r}: {rule.reason}; {rule.remedy}")
        if rule is not None:
            _warn(f"{key}={value!r} does nothing here: {rule.reason}; {rule.remedy}")
    refuse_other_lock_providers({**(others or {}), **options})


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the user's line that called into these packages, once per line by Python's warning filters."""
    frame, depth = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)


def _warn(message: str) -> None:
    warn_user(message, OptionWarning)


def _check_ours(key: str) -> None:
    if key not in OUR_WRITER_KEYS and not key.startswith(_AFTER_COMMIT_PREFIXES):
        # without the prefix, which would make all names similar
        names = {known.removeprefix(OUR_PREFIX): known for known in OUR_WRITER_KEYS}
        near = [names[name] for name in nearest(key[len(OUR_PREFIX) :], names, ALIKE)]
        hint = f" (did you mean {' or '.join(near)}?)" if near else f"; there are {', '.join(OUR_WRITER_KEYS)}"
        raise OptionError(f"{key}: a writer has no such option{hint}")


def _check_foreign(key: str) -> None:
    """Warn of a key that Hudi would read if its prefix were spelt right."""
    first, dot, rest = key.strip().partition(".")
    if not dot or first in _OTHER_PREFIXES:
        return
    for right in (_PREFIX + rest, _PREFIX + key.strip()):
        if is_apache_key(right) or right in OUR_WRITER_KEYS:
            _warn(f"{key}: this is not an option of Hudi, whose keys begin with {_PREFIX} (did you mean {right}?)")
            return
    if nearest(first, ["hoodie"], _PREFIX_ALIKE):
        _warn(f"{key}: this is not an option of Hudi, whose keys begin with {_PREFIX}{_hint(_PREFIX + rest)}")


def _hint(key: str) -> str:
    return did_you_mean(key, [*OUR_WRITER_KEYS, *apache_keys()], ALIKE)
