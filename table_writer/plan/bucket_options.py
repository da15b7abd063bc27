"""Options of bucket counts that differ between partitions."""

from __future__ import annotations

from typing import Final

from table_format.keys.partition_buckets import EXPRESSIONS, REGEX, RULE_TYPE
from table_writer.plan.option import Kind, Option

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
