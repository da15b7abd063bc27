"""Every option that the writer reads: key, type, default, meaning, and whose it is."""

from __future__ import annotations

from typing import Final

from table_format.keys.bucket_index import MOST_BUCKETS
from table_writer.plan.bucket_options import BUCKET_FILES, PARTITION_BUCKETS, PARTITION_RULE
from table_writer.plan.clustering_options import CLUSTERING_OPTIONS
from table_writer.plan.executor_options import EXECUTOR_OPTIONS
from table_writer.plan.option import Kind, Option, Origin

TABLE_NAME: Final = Option(
    "hoodie.table.name",
    Kind.TEXT,
    None,
    "The table's name; needed to create one.",
    aliases=("hoodie.datasource.write.table.name",),
)
DATABASE: Final = Option("hoodie.database.name", Kind.TEXT, None, "The table's database.")
TABLE_TYPE: Final = Option(
    "hoodie.datasource.write.table.type",
    Kind.CHOICE,
    "COPY_ON_WRITE",
    "The table's type; only copy-on-write tables are written.",
    aliases=("hoodie.datasource.write.storage.type", "hoodie.table.type"),
    choices=("COPY_ON_WRITE",),
)
TABLE_VERSION: Final = Option(
    "hoodie.write.table.version",
    Kind.CHOICE,
    "6",
    "The version of the table's format; only version 6 is written.",
    aliases=("hoodie.table.version",),
    choices=("6",),
)
OPERATION: Final = Option(
    "hoodie.datasource.write.operation",
    Kind.CHOICE,
    "upsert",
    "What `write_hudi` does with the rows.",
    choices=(
        "upsert",
        "insert",
        "bulk_insert",
        "delete",
        "insert_overwrite",
        "insert_overwrite_table",
        "delete_partition",
    ),
)
RECORD_KEY: Final = Option(
    "hoodie.datasource.write.recordkey.field",
    Kind.LIST,
    None,
    "Fields of the record key, which is unique within a partition; needed to create a table.",
    aliases=("hoodie.table.recordkey.fields",),
)
PARTITION_PATH: Final = Option(
    "hoodie.datasource.write.partitionpath.field",
    Kind.LIST,
    "",
    "Fields of the partition path; none for a table without partitions. A custom key generator takes `field:SIMPLE` "
    "and `field:TIMESTAMP`.",
    aliases=("hoodie.table.partition.fields",),
)
ORDERING: Final = Option(
    "hoodie.datasource.write.precombine.field",
    Kind.LIST,
    "",
    "Fields that order the versions of a record; the greatest wins, of equal ones the later.",
    aliases=("hoodie.table.precombine.field", "hoodie.table.ordering.fields"),
)
KEY_GENERATOR: Final = Option(
    "hoodie.datasource.write.keygenerator.class",
    Kind.TEXT,
    None,
    "Java class name of the key generator. Unset, it follows from the numbers of key and partition fields.",
    aliases=("hoodie.table.keygenerator.class",),
)
KEY_GENERATOR_TYPE: Final = Option(
    "hoodie.datasource.write.keygenerator.type",
    Kind.CHOICE,
    None,
    "The key generator, by its short name.",
    aliases=("hoodie.table.keygenerator.type",),
    choices=("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM"),
)
HIVE_STYLE: Final = Option(
    "hoodie.datasource.write.hive_style_partitioning", Kind.FLAG, "false", "Partition folders are `field=value`."
)
URL_ENCODE: Final = Option(
    "hoodie.datasource.write.partitionpath.urlencode", Kind.FLAG, "false", "Partition values are percent-encoded."
)
TIMEZONE: Final = Option(
    "hoodie.table.timeline.timezone",
    Kind.CHOICE,
    "LOCAL",
    "Zone of the instant times of a new table.",
    choices=("LOCAL", "UTC"),
)
PAYLOAD: Final = Option(
    "hoodie.datasource.write.payload.class",
    Kind.TEXT,
    None,
    "Merge rule by Apache's class name, of a new table or of one that records none: `OverwriteWithLatestAvroPayload` "
    "(the later write wins), `DefaultHoodieRecordPayload` (the greater ordering value wins; the default of new tables "
    "with ordering fields) or `EventTimeAvroPayload` (the same).",
    aliases=("hoodie.compaction.payload.class",),
)
MERGE_MODE: Final = Option(
    "hoodie.record.merge.mode",
    Kind.CHOICE,
    None,
    "Merge rule of a new table by its short name; it is stored as the payload class, which is what version 6 reads.",
    aliases=("hoodie.write.record.merge.mode",),
    choices=("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"),
)
MERGE_STRATEGY: Final = Option(
    "hoodie.record.merge.strategy.id",
    Kind.TEXT,
    None,
    "Merge rule of a new table by the id of Apache's strategy, where neither class nor mode says it.",
    aliases=(
        "hoodie.write.record.merge.strategy.id",
        "hoodie.datasource.write.record.merger.strategy",
        "hoodie.compaction.record.merger.strategy",
    ),
)
RECORD_MERGER: Final = Option(
    "hoodie.datasource.write.record.merger.impls",
    Kind.LIST,
    None,
    "Record mergers of an Apache job: with Spark's the greater ordering value wins whatever the payload class.",
    aliases=("hoodie.write.record.merge.custom.implementation.classes",),
)
PAYLOAD_ORDERING: Final = Option(
    "hoodie.payload.ordering.field",
    Kind.TEXT,
    None,
    "Ignored with a warning, as by Apache's writers. Where no field is named, `ts` confirms 0.15's default.",
)
INDEX_TYPE: Final = Option(
    "hoodie.index.type",
    Kind.CHOICE,
    "BUCKET",
    "The index that finds a record's file. `BUCKET_HASH_INDEX` is RFC-29's name of the bucket index; `RECORD_INDEX` "
    "and `GLOBAL_RECORD_LEVEL_INDEX` are the record index of the whole table, `RECORD_LEVEL_INDEX` that of each "
    "partition. A table of Apache's with another index gets a record index by `hudi-catalog index bootstrap`.",
    choices=("BUCKET", "BUCKET_HASH_INDEX", "RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"),
)
MOVE_PARTITION: Final = Option(
    "hoodie.record.index.update.partition.path",
    Kind.FLAG,
    "false",
    "With the record index of the whole table, an update with another partition path moves the record there; else it "
    "is updated in the partition that has it.",
)
SMALL_FILES: Final = Option(
    "hoodie.parquet.small.file.limit",
    Kind.COUNT,
    str(100 << 20),
    "Files below this many bytes take new records first, with the record index; 0 for none.",
)
FILE_SIZE: Final = Option(
    "hoodie.parquet.max.file.size",
    Kind.NUMBER,
    str(120 << 20),
    "Bytes up to which files are filled with new records, with the record index.",
)
RECORD_SIZE: Final = Option(
    "hoodie.copyonwrite.record.size.estimate",
    Kind.NUMBER,
    None,
    "Bytes per record in a file, where the table's commits do not show it. Unset: measured on some rows of the batch.",
)
AUTO_SPLIT: Final = Option(
    "hoodie.copyonwrite.insert.auto.split",
    Kind.FLAG,
    "true",
    "New files take as many records as hoodie.parquet.max.file.size has room for; false for "
    "hoodie.copyonwrite.insert.split.size records.",
)
INSERT_SPLIT: Final = Option(
    "hoodie.copyonwrite.insert.split.size",
    Kind.NUMBER,
    "500000",
    "Records of a new file where hoodie.copyonwrite.insert.auto.split is false.",
)
SORT_MODE: Final = Option(
    "hoodie.bulkinsert.sort.mode",
    Kind.CHOICE,
    "GLOBAL_SORT",
    "How bulk_insert lays rows out with the record index: in files that follow each other by partition and key, or, "
    "without a shuffle, each of the DataFrame's partitions in files of its own, as its rows come or in key order.",
    choices=("NONE", "GLOBAL_SORT", "PARTITION_SORT"),
)
BUCKET_ENGINE: Final = Option(
    "hoodie.index.bucket.engine",
    Kind.CHOICE,
    "SIMPLE",
    "How buckets are numbered; only by the hash modulo their count.",
    choices=("SIMPLE",),
)
BUCKETS: Final = Option(
    "hoodie.bucket.index.num.buckets",
    Kind.NUMBER,
    "256",
    "File groups per partition. Apache does not record it in its tables: give it with every write to one of those. "
    "Our tables keep it in `hoodie.properties`.",
    aliases=("hoodie.hash.index.bucket.num",),
    most=MOST_BUCKETS,
)
HASH_FIELDS: Final = Option(
    "hoodie.bucket.index.hash.field",
    Kind.LIST,
    None,
    "Fields that decide the bucket, some or all of the record key fields; all unless set.",
    aliases=("hoodie.datasource.write.indexkey.field",),
)
COMBINE_INSERT: Final = Option(
    "hoodie.combine.before.insert",
    Kind.FLAG,
    "false",
    "Keep one row a key of what is inserted (insert, bulk_insert and insert_overwrite).",
)
ALLOW_DUPLICATES: Final = Option(
    "hoodie.merge.allow.duplicate.on.inserts",
    Kind.FLAG,
    "true",
    "Insert adds rows whose key is in the table already; false lets it merge them as upsert does.",
)
DUPLICATE_POLICY: Final = Option(
    "hoodie.datasource.insert.dup.policy",
    Kind.CHOICE,
    "none",
    "What insert does with keys that are in the table: `none` follows hoodie.merge.allow.duplicate.on.inserts, `drop` "
    "leaves the new rows out, `fail` stops the write.",
    choices=("none", "drop", "fail"),
)
DROP_DUPLICATES: Final = Option(
    "hoodie.datasource.write.insert.drop.duplicates",
    Kind.FLAG,
    "false",
    "The older name of hoodie.datasource.insert.dup.policy=drop.",
)
PARTITIONS_TO_DELETE: Final = Option(
    "hoodie.datasource.write.partitions.to.delete",
    Kind.LIST,
    None,
    "Partition paths that delete_partition empties, `*` for any text; unset, the partitions of the rows.",
)
METADATA: Final = Option("hoodie.metadata.enable", Kind.FLAG, "true", "Keep a metadata table in a new table.")
COLUMN_STATS: Final = Option(
    "hoodie.metadata.index.column.stats.enable",
    Kind.FLAG,
    "true",
    "Keep column statistics in the metadata table of a new table.",
)
COLUMN_STATS_LIST: Final = Option(
    "hoodie.metadata.index.column.stats.column.list",
    Kind.LIST,
    None,
    "Columns with statistics; all that can have them unless set. Key, commit time and partition path always do.",
)
META_FIELDS: Final = Option(
    "hoodie.populate.meta.fields",
    Kind.CHOICE,
    "true",
    "Data files hold the meta columns; tables without them are not written.",
    choices=("true",),
)
DROP_PARTITION_COLUMNS: Final = Option(
    "hoodie.datasource.write.drop.partition.columns",
    Kind.CHOICE,
    "false",
    "Data files hold the partition columns; tables without them are not written.",
    choices=("false",),
)
HIVE_SYNC: Final = Option(
    "hoodie.datasource.hive_sync.enable",
    Kind.FLAG,
    "false",
    "Sync the table to a Hive Metastore after each commit, by the options of the sync.",
)
META_SYNC: Final = Option(
    "hoodie.datasource.meta.sync.enable",
    Kind.FLAG,
    "false",
    "Run the tools of hoodie.meta.sync.client.tool.class after each commit.",
)
SYNC_TOOLS: Final = Option(
    "hoodie.meta.sync.client.tool.class",
    Kind.LIST,
    "org.apache.hudi.hive.HiveSyncTool",
    "What runs after a commit, by the names of entry points of the group `hudi_catalog.after_commit`; ours takes the "
    "name of Apache's class.",
)
PROGRESS: Final = Option(
    "hoodie.catalog.write.progress",
    Kind.CHOICE,
    "auto",
    "Progress and summary on standard error: `auto` where that is a terminal.",
    Origin.OURS,
    choices=("auto", "true", "false"),
)
FLUSH_BYTES: Final = Option(
    "hoodie.catalog.write.split.bytes",
    Kind.NUMBER,
    str(128 << 20),
    "Bytes of rows that a task collects before it splits them by bucket: bounds the memory of the first stage.",
    Origin.OURS,
)
DRIVER_ROWS: Final = Option(
    "hoodie.catalog.record.index.driver.rows",
    Kind.COUNT,
    "1000000",
    "Batches of up to this many rows are looked up in the record index on the driver, which saves a shuffle.",
    Origin.OURS,
)
DYNAMIC_LOOKUP: Final = Option(
    "hoodie.catalog.record.index.dynamic.lookup",
    Kind.FLAG,
    "true",
    "Read a file of the record index whole, or only the blocks that may hold the keys, whichever is cheaper.",
    Origin.OURS,
)
LOOKUP: Final = Option(
    "hoodie.catalog.record.index.lookup",
    Kind.CHOICE,
    "seek",
    "How files of the record index are read without hoodie.catalog.record.index.dynamic.lookup.",
    Origin.OURS,
    choices=("scan", "seek"),
)
LOOKUP_BLOOM: Final = Option(
    "hoodie.metadata.bloom.filter.enable",
    Kind.FLAG,
    "false",
    "Files of the record index get bloom filters, and existing filters are checked before many blocks are read for "
    "few keys.",
    Origin.APACHE,
)
PARALLELISM: Final = Option(
    "hoodie.catalog.write.tasks",
    Kind.NUMBER,
    None,
    "Writing tasks, at most; Spark joins small ones. Unset: one per bucket or file group, two per core if partitioned.",
    Origin.OURS,
)
SURGERY: Final = Option(
    "hoodie.catalog.write.surgery",
    Kind.CHOICE,
    "auto",
    "New versions of files are made by copying what did not change (row-group surgery): `auto` where it is cheaper "
    "than a whole rewrite, `always` wherever it can be done, `never`.",
    Origin.OURS,
    choices=("auto", "always", "never"),
)
SURGERY_TOUCHED: Final = Option(
    "hoodie.catalog.write.surgery.max.touched.percent",
    Kind.NUMBER,
    "100",
    "Surgery under `auto`: share of a file's bytes that may be encoded again.",
    Origin.OURS,
)
SURGERY_COST: Final = Option(
    "hoodie.catalog.write.surgery.max.cost.percent",
    Kind.NUMBER,
    "90",
    "Surgery under `auto`: processor time that it may cost by estimate, in per cent of that of a whole rewrite.",
    Origin.OURS,
)
SURGERY_LOOSE: Final = Option(
    "hoodie.catalog.write.surgery.max.loose.percent",
    Kind.NUMBER,
    "25",
    "Surgery under `auto`: share of a file's rows that may lie in row groups whose key ranges overlap those of row "
    "groups before them.",
    Origin.OURS,
)
SURGERY_SMALL: Final = Option(
    "hoodie.catalog.write.surgery.max.small.groups",
    Kind.NUMBER,
    "4",
    "Surgery under `auto`: row groups of less than half of hoodie.parquet.block.size that a file may have.",
    Origin.OURS,
)
SURGERY_MIN_FILE: Final = Option(
    "hoodie.catalog.write.surgery.min.file.size",
    Kind.NUMBER,
    str(512 << 10),
    "Surgery under `auto`: files of fewer bytes are rewritten whole.",
    Origin.OURS,
)
PARTIAL_COLUMNS: Final = Option(
    "hoodie.catalog.write.partial.columns",
    Kind.FLAG,
    "false",
    "Upserts write the batch's columns only; the table's other columns keep their values in records that are there.",
    Origin.OURS,
)
MAINTENANCE: Final = Option(
    "hoodie.catalog.maintain.services",
    Kind.LIST,
    "settle,clean,expire,cluster,index,compact,archive",
    "Services that a maintenance run considers, in its own order; `repair` is one more.",
    Origin.OURS,
)
TXN_APP: Final = Option(
    "hoodie.catalog.write.txn.app",
    Kind.TEXT,
    None,
    "Name of a job whose batches are numbered, such as a stream; with `hoodie.catalog.write.txn.version`.",
    Origin.OURS,
)
TXN_VERSION: Final = Option(
    "hoodie.catalog.write.txn.version",
    Kind.COUNT,
    None,
    "Number of the job's batch: where the table has a commit of this or a later batch of it, nothing is written.",
    Origin.OURS,
)
RETRIES: Final = Option(
    "hoodie.catalog.write.retries",
    Kind.COUNT,
    "3",
    "How often a write that lost a conflict is tried again on the table's new state, before it fails with a "
    "`ConflictError`. Each time its rows are read again: a DataFrame is computed again.",
    Origin.OURS,
)

REGISTRY: Final = (
    TABLE_NAME,
    DATABASE,
    TABLE_TYPE,
    TABLE_VERSION,
    OPERATION,
    RECORD_KEY,
    PARTITION_PATH,
    ORDERING,
    KEY_GENERATOR,
    KEY_GENERATOR_TYPE,
    HIVE_STYLE,
    URL_ENCODE,
    TIMEZONE,
    PAYLOAD,
    MERGE_MODE,
    MERGE_STRATEGY,
    RECORD_MERGER,
    PAYLOAD_ORDERING,
    INDEX_TYPE,
    MOVE_PARTITION,
    SMALL_FILES,
    FILE_SIZE,
    RECORD_SIZE,
    AUTO_SPLIT,
    INSERT_SPLIT,
    SORT_MODE,
    BUCKET_ENGINE,
    BUCKETS,
    PARTITION_BUCKETS,
    PARTITION_RULE,
    BUCKET_FILES,
    HASH_FIELDS,
    COMBINE_INSERT,
    ALLOW_DUPLICATES,
    DUPLICATE_POLICY,
    DROP_DUPLICATES,
    PARTITIONS_TO_DELETE,
    METADATA,
    COLUMN_STATS,
    COLUMN_STATS_LIST,
    META_FIELDS,
    DROP_PARTITION_COLUMNS,
    HIVE_SYNC,
    META_SYNC,
    SYNC_TOOLS,
    PROGRESS,
    FLUSH_BYTES,
    DRIVER_ROWS,
    DYNAMIC_LOOKUP,
    LOOKUP,
    LOOKUP_BLOOM,
    PARALLELISM,
    SURGERY,
    SURGERY_TOUCHED,
    SURGERY_COST,
    SURGERY_LOOSE,
    SURGERY_SMALL,
    SURGERY_MIN_FILE,
    PARTIAL_COLUMNS,
    TXN_APP,
    TXN_VERSION,
    RETRIES,
    MAINTENANCE,
    *CLUSTERING_OPTIONS,
    *EXECUTOR_OPTIONS,
)
"""All of them, in the order of the reference."""
