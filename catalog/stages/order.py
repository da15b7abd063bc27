"""The stages in the order in which they run."""

from __future__ import annotations

from catalog.stages.bloom_filter import prune_by_bloom_filter
from catalog.stages.bucket import prune_by_bucket
from catalog.stages.column_stats import prune_by_column_statistics
from catalog.stages.partition import prune_by_partition
from catalog.stages.partition_stats import prune_by_partition_statistics
from catalog.stages.record_key import prune_by_record_key
from catalog.stages.stage import Stage

STAGES: tuple[tuple[str, Stage], ...] = (
    ("partition", prune_by_partition),
    ("record key", prune_by_record_key),
    ("bucket", prune_by_bucket),
    ("partition statistics", prune_by_partition_statistics),
    ("column statistics", prune_by_column_statistics),
    ("bloom filter", prune_by_bloom_filter),
)
"""Cheapest first: what looks at paths and keys before what reads an index of all files."""
