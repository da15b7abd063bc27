"""Options of buckets: counts that differ between partitions, and several file groups of one bucket."""

from __future__ import annotations

from typing import Final

from table_format.config.table_config import BUCKET_FILE_SIZE
from table_format.keys.partition_buckets import EXPRESSIONS, REGEX, RULE_TYPE
from table_writer.plan.option import Kind, Option, Origin

PARTITION_BUCKETS: Final = Option(
    EXPRESSIONS,
    Kind.TEXT,
    None,
    "Bucket counts of some partitions, `regex,count;regex,count`: the first regular expression that is found in a "
    "partition's path decides, and hoodie.bucket.index.num.buckets where none is. Given when a table is made, it is "
    "kept in `hoodie.properties`, and in the `.hashing_config` that Apache 1.1 and later obey. Tables that Apache "
    "rescaled need it with every write and scan.",
)
PARTITION_RULE: Final = Option(
    RULE_TYPE,
    Kind.CHOICE,
    REGEX,
    "What hoodie.bucket.index.partition.expressions are.",
    choices=(REGEX,),
)
BUCKET_FILES: Final = Option(
    BUCKET_FILE_SIZE,
    Kind.NUMBER,
    None,
    "Bytes of a file beyond which a bucket gets another file group. Unset, each bucket has one file group, whatever "
    "its size. Given when a table is made, or later with a write, it is kept in `hoodie.properties`, and Apache's "
    "writers are kept from the table from then on.",
    Origin.OURS,
)
