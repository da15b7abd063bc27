"""A bucket count that other writers may not have: one that only the job's options give, or that a resize changed.

Each commit records that it was checked, so that the next write need not check it again. Apache's tables do not record
their count, its jobs go by their own, and checking one against all files takes a listing of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from table_format.config.table_config import TableConfig
from table_format.table.bucket_counts import was_resized
from table_format.timeline.timeline import Timeline
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import bucket_count, bucket_rules, hash_fields, index_type

#: In a commit's extra metadata: JSON of the counts, the hash fields, and the times of the writes before it.
KEY: Final = "hoodie.catalog.checked.buckets"


@dataclass(frozen=True)
class CheckedCount:
    """How keys are spread over buckets, where not every writer goes by the table's properties.

    Attributes:
        buckets: file groups per partition.
        fields: record key fields that decide the bucket, in the order of the record key.
        rules: of partitions with other counts; empty for none.
    """

    buckets: int
    fields: tuple[str, ...]
    rules: str = ""

    @classmethod
    def of(cls, options: WriteOptions, config: TableConfig) -> CheckedCount | None:
        """The table's or the job's; None where the table has no buckets, or the count that it records never changed.

        Raises:
            OptionError: neither the table nor the job says it.
        """
        fixed = config.bucket_count is not None and not was_resized(config)
        if index_type(options, config) != "BUCKET" or fixed:
            return None
        named = hash_fields(options, config)
        rules = bucket_rules(options, config)
        return cls(
            bucket_count(options, config),
            tuple(name for name in config.record_key_fields if name in named),
            "" if rules is None else rules.expressions,
        )

    def is_recorded(self, timeline: Timeline) -> bool:
        """Whether the newest write was checked by this, and no other one has completed that it did not know of."""
        newest = timeline.last_completed_write()
        text = None if newest is None else timeline.extra_metadata(newest).get(KEY)
        if newest is None or text is None:
            return False
        try:
            recorded: Any = json.loads(text)
            checked = recorded["buckets"], recorded["fields"], recorded.get("rules", "")
            same = checked == (self.buckets, [*self.fields], self.rules)
            known = {newest.time, *recorded["writes"]}
        except (ValueError, LookupError, TypeError, AttributeError):
            return False
        return same and all(write.time in known for write in timeline.writes)

    def record(self, timeline: Timeline) -> Mapping[str, str]:
        """What a commit records: its write was checked, as of the timeline that the check looked at."""
        writes = [write.time for write in timeline.writes]
        rules = {"rules": self.rules} if self.rules else {}
        return {KEY: json.dumps({"buckets": self.buckets, "fields": [*self.fields], **rules, "writes": writes})}
