"""Options of Apache Hudi whose work writers here do not do: those that protect data are refused, others are warned of.

Options that only tune how Apache does its work are none of these: without them the table is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from table_format.errors import OptionError

_OFF: Final = ("", "false")
_PARQUET: Final = ("", "parquet")
_LOCK: Final = "hoodie.write.lock."
_PROVIDER: Final = "hoodie.write.lock.provider"
_OUR_LOCK: Final = "FileSystemBasedLockProvider"
_OTHER_LOCKS: Final = ("zookeeper", "dynamodb", "hivemetastore", "storage")


@dataclass(frozen=True, slots=True)
class Unserved:
    """An option whose work is not done.

    Attributes:
        key: its key; with a dot at the end, all keys that begin so.
        refused: its neglect would harm data; else it is warned of.
        reason: what is not done.
        remedy: what to do instead.
        harmless: values, in lower case and without a Java package, that ask for nothing.
    """

    key: str
    refused: bool
    reason: str
    remedy: str
    harmless: tuple[str, ...] = _OFF

    def concerns(self, key: str, value: str) -> bool:
        """Whether a job that gives the key that value asks for the work."""
        if not (key == self.key or (self.key.endswith(".") and key.startswith(self.key))):
            return False
        return any(part.strip().rsplit(".", 1)[-1].lower() not in self.harmless for part in value.split(","))


def lock_of_others(options: Mapping[str, str]) -> None:
    """Refuse settings of a lock that is not ours, in a job that does not name a lock provider.

    Apache's default provider is ZooKeeper's: a job that gives its address only relies on it.

    Raises:
        OptionError: there are such settings.
    """
    if _PROVIDER in options:
        return  # judged by who takes the lock
    for key in options:
        kind = key.removeprefix(_LOCK).partition(".")[0]
        if key.startswith(_LOCK) and kind in _OTHER_LOCKS:
            raise OptionError(
                f"{key}: writers that lock by {kind} and this one would not see each other; give all writers of the "
                f"table {_PROVIDER}=org.apache.hudi.client.transaction.lock.{_OUR_LOCK}, or leave the option out where "
                "this is the only writer"
            )


_NO_CLUSTERING: Final = ("files are not clustered by this writer", "cluster by a job of Apache Hudi's, or leave it out")
_NO_COMPACTION: Final = ("there are no log files to compact in copy-on-write tables", "leave it out")
_INDEX: Final = ("this index is not kept, and queries go without it", "leave it out")
_PLAIN: Final = ("files are not encrypted", "write this table with Apache Hudi, or encrypt the storage")
_FORMAT: Final = ("base files are Parquet", "leave it out, or write this table with Apache Hudi")
_ALL_CLEANED: Final = ("all partitions are cleaned", "give hoodie.clean.automatic=false")
_CHECK_BEFORE: Final = "check the DataFrame before it is written, or write with Apache Hudi"

UNSERVED: Final = (
    Unserved("hoodie.precommit.validators", True, "nothing validates the commit", _CHECK_BEFORE),
    Unserved("hoodie.prewrite.validators", True, "nothing validates the rows", _CHECK_BEFORE),
    Unserved("parquet.encryption.", True, *_PLAIN, harmless=("",)),
    Unserved("parquet.crypto.factory.class", True, *_PLAIN, harmless=("",)),
    Unserved(
        "hoodie.table.cdc.enabled",
        True,
        "changes are not logged, so that those who read them would miss some",
        "write this table with Apache Hudi, or read changes by incremental queries",
    ),
    Unserved(
        "hoodie.allow.operation.metadata.field",
        True,
        "the operation of each row is not recorded",
        "write this table with Apache Hudi",
    ),
    Unserved(
        "hoodie.payload.delete.field",
        True,
        "no value of a column deletes a record, but the flag _hoodie_is_deleted",
        "add that column, or use the operation delete",
        harmless=("",),
    ),
    Unserved(
        "hoodie.index.class",
        True,
        "records are found by the index of hoodie.index.type, by no class",
        "give hoodie.index.type",
        harmless=("",),
    ),
    Unserved(
        "hoodie.bucket.index.partition.expressions",
        True,
        "all partitions have one number of buckets",
        "give hoodie.bucket.index.num.buckets alone",
        harmless=("",),
    ),
    Unserved("hoodie.base.file.format", True, *_FORMAT, harmless=_PARQUET),
    Unserved("hoodie.table.base.file.format", True, *_FORMAT, harmless=_PARQUET),
    Unserved("hoodie.table.multiple.base.file.formats.enable", True, *_FORMAT),
    Unserved(
        "hoodie.table.services.enabled",
        True,
        "old files would be cleaned all the same",
        "give hoodie.clean.automatic=false",
        harmless=("", "true"),
    ),
    Unserved("hoodie.clean.partition.filter.regex", True, *_ALL_CLEANED, harmless=("",)),
    Unserved("hoodie.clean.partition.filter.selected", True, *_ALL_CLEANED, harmless=("",)),
    Unserved("hoodie.cleaner.partition.filter.regex", True, *_ALL_CLEANED, harmless=("",)),
    Unserved("hoodie.cleaner.partition.filter.selected", True, *_ALL_CLEANED, harmless=("",)),
    Unserved("hoodie.clustering.inline", False, *_NO_CLUSTERING),
    Unserved("hoodie.clustering.schedule.inline", False, *_NO_CLUSTERING),
    Unserved("hoodie.clustering.async.enabled", False, *_NO_CLUSTERING),
    Unserved("hoodie.datasource.clustering.inline.enable", False, *_NO_CLUSTERING),
    Unserved("hoodie.datasource.clustering.async.enable", False, *_NO_CLUSTERING),
    Unserved("hoodie.layout.optimize.enable", False, *_NO_CLUSTERING),
    Unserved("hoodie.compact.inline", False, *_NO_COMPACTION),
    Unserved("hoodie.compact.schedule.inline", False, *_NO_COMPACTION),
    Unserved("hoodie.datasource.compaction.async.enable", False, *_NO_COMPACTION),
    Unserved("hoodie.log.compaction.enable", False, *_NO_COMPACTION),
    Unserved("hoodie.log.compaction.inline", False, *_NO_COMPACTION),
    Unserved("hoodie.archive.async", False, "the timeline is not archived by this writer", "leave it out"),
    Unserved("hoodie.metadata.index.async", False, "indexes are built by the write itself", "leave it out"),
    Unserved("hoodie.metadata.index.bloom.filter.enable", False, *_INDEX),
    Unserved("hoodie.metadata.index.partition.stats.enable", False, *_INDEX),
    Unserved("hoodie.metadata.index.secondary.enable", False, *_INDEX),
    Unserved("hoodie.metadata.index.expression.enable", False, *_INDEX),
    Unserved(
        "hoodie.partition.ttl.inline", False, "partitions do not expire by themselves", "call delete_partition for them"
    ),
    Unserved(
        "hoodie.write.commit.callback.on", False, "nobody is called after a commit", "call after the write, in the job"
    ),
    Unserved(
        "hoodie.client.init.callback.classes",
        False,
        "Java classes are not called",
        "do it in the job, before the write",
        harmless=("",),
    ),
    Unserved(
        "hoodie.datasource.write.commitmeta.key.prefix",
        False,
        "options are not put into the commit",
        "keep checkpoints elsewhere",
        harmless=("", "_"),
    ),
    Unserved(
        "hoodie.datasource.write.streaming.",
        False,
        "a write is one batch, in foreachBatch as well",
        "upsert, which may be repeated, and let the stream keep its checkpoint",
    ),
    Unserved(
        "hoodie.write.track.event.time.watermark",
        False,
        "commits hold no event times",
        "leave it out",
    ),
    Unserved(
        "hoodie.write.schema", False, "columns are those of the DataFrame", "select and cast them", harmless=("",)
    ),
    Unserved(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        False,
        "a table keeps its columns, and those that a batch lacks become null",
        "leave it out",
    ),
    Unserved(
        "hoodie.combine.before.upsert",
        False,
        "an upsert always keeps one row a key",
        "use insert where all are wanted",
        harmless=("", "true"),
    ),
    Unserved(
        "hoodie.datasource.overwrite.mode",
        False,
        "insert_overwrite replaces the partitions of the rows",
        "use insert_overwrite_table to replace all",
        harmless=("", "dynamic"),
    ),
    Unserved(
        "hoodie.bulkinsert.user.defined.partitioner.class",
        False,
        "rows are laid out by hoodie.bulkinsert.sort.mode",
        "sort the DataFrame and give hoodie.bulkinsert.sort.mode=NONE",
        harmless=("",),
    ),
    Unserved(
        "hoodie.parquet.outputtimestamptype",
        False,
        "timestamps are stored in microseconds",
        "leave it out",
        harmless=("", "timestamp_micros"),
    ),
    Unserved("hoodie.parquet.writelegacyformat.enabled", False, "files have Parquet's present form", "leave it out"),
    Unserved("hoodie.metrics.on", False, "there are no metrics of writes", "take them from the summary of the write"),
    Unserved("hoodie.errortable.enable", False, "a row that is refused fails the write", "filter the DataFrame before"),
    Unserved("hoodie.metaserver.enabled", False, "the table's own files are its timeline", "leave it out"),
    Unserved("hoodie.table.service.manager.enabled", False, "there is no such service", "leave it out"),
)
"""All of them, those that are refused first, in the order of the reference."""
