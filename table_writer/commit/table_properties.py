"""Table properties that writes need, recorded in each commit, because other tools drop them from `hoodie.properties`.

Apache 0.15's Spark SQL rewrites `hoodie.properties` when a table gets a second name (`CREATE TABLE … USING hudi
LOCATION`), without properties that it does not know: index, bucket count, hash fields, payload class, time zone of the
timeline. A write without them would put rows into other buckets and merge them by another rule.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from table_format.config.table_config import PROPERTIES_PATH, TableConfig, update_table_config
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.keys.partition_buckets import EXPRESSIONS, RULE_TYPE, drop_rules
from table_format.table.bucket_counts import (
    COUNT,
    RECORD_KEY,
    RESIZES,
    RULES,
    recorded_resizes,
    settled_counts,
    settled_rules,
    went_by_older_count,
    went_by_older_rules,
)
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline

#: In a commit's extra metadata: JSON of properties by key.
KEY: Final = RECORD_KEY

_log = logging.getLogger(__name__)

# The layout of files depends on these, so they never change, but for the count by resizes.
_FIXED: Final = (
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    COUNT,
    "hoodie.bucket.index.hash.field",
    EXPRESSIONS,
)

# Keys with the same meaning, of which one suffices.
_MERGE_RULE: Final = (
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
)

_ORDERING: Final = ("hoodie.table.precombine.field", "hoodie.table.ordering.fields")

_GENERATOR: Final = ("hoodie.table.keygenerator.class", "hoodie.table.keygenerator.type")

_SINGLE: Final = (
    "hoodie.index.type",
    "hoodie.table.timeline.timezone",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.metadata.index.column.stats.column.list",
    "hoodie.parquet.block.size",
    RESIZES,
    RULE_TYPE,
    RULES,
)

_PREFIXES: Final = ("hoodie.keygen.", "hoodie.datasource.write.slash.separated.")

_GROUPS: Final = (_MERGE_RULE, _ORDERING, _GENERATOR)

_RECORDED: Final = frozenset((*_FIXED, *_MERGE_RULE, *_ORDERING, *_GENERATOR, *_SINGLE))

Adopt = Callable[[TableConfig], Mapping[str, str]]


def recorded_text(begun: Mapping[str, str], config: TableConfig) -> str:
    """The properties that a commit records, as JSON.

    Args:
        begun: properties when the write began; another tool may have dropped some since.
        config: the properties now.
    """
    recorded = {k: text for k, text in {**begun, **config.raw}.items() if k in _RECORDED or k.startswith(_PREFIXES)}
    return json.dumps(recorded, sort_keys=True)


def lost_properties(config: TableConfig, timeline: Timeline) -> dict[str, str]:
    """Properties that the newest commit with a record has and the table no longer has, and the counts of resizes.

    Raises:
        UnsupportedTableError: a property that the layout of files depends on has changed.
        CorruptFileError: the commit's record is damaged.
    """
    counts = _settled(config, timeline)
    return _taken(TableConfig({**config.raw, **counts}), timeline) | counts


def _taken(config: TableConfig, timeline: Timeline) -> dict[str, str]:
    """What another tool took, of a table whose counts are settled; raises as `lost_properties` does."""
    recorded, place, write = _newest(config, timeline)
    for key in _FIXED:
        if key not in recorded or config.raw.get(key, recorded[key]) == recorded[key]:
            continue
        if not _is_of_before_resize(key, recorded[key], write, config, timeline):
            raise UnsupportedTableError(
                f"{PROPERTIES_PATH}: {key}={config.raw[key]!r}, but by {place} the table's files are laid out by "
                f"{recorded[key]!r}; put that back"
            )
    return {key: text for key, text in recorded.items() if not _is_there(key, config)}


def _is_of_before_resize(key: str, text: str, write: str, config: TableConfig, timeline: Timeline) -> bool:
    if key == COUNT:
        return went_by_older_count(text, write, recorded_resizes(config))
    return key == EXPRESSIONS and went_by_older_rules(text, write, config, timeline)


def settle_counts(client: TableClient, timeline: Timeline) -> None:
    """Bring the table's bucket counts up to date, after a resize that died, or was rolled back or restored away.

    Callers hold the table's lock.

    Args:
        client: the table, with its properties as they are now; they are reloaded where they change.
        timeline: likewise.

    Raises:
        CorruptFileError: the properties, a replacecommit or, if it is needed, the archive are damaged.
    """
    changes = _settled(client.config, timeline)
    if changes:
        _drop_undone_rules(changes, timeline)
        update_table_config(client.storage, changes)
        client.reload()


def settle_properties(client: TableClient, timeline: Timeline, adopt: Adopt | None) -> None:
    """Restore lost properties of a table, and store those of a job that the table does not have.

    Callers hold the table's lock.

    Args:
        client: the table; its properties are reloaded where they change.
        timeline: the table's.
        adopt: returns the properties to add, given the table's with the lost ones; may refuse the job.

    Raises:
        UnsupportedTableError: as for `lost_properties`.
    """
    counts = _settled(client.config, timeline)
    taken = _taken(TableConfig({**client.config.raw, **counts}), timeline)
    _drop_undone_rules(counts, timeline)
    lost = taken | counts
    added = adopt(TableConfig({**client.config.raw, **lost})) if adopt else {}
    if taken:
        _log.warning(
            "%s: another tool took %s out of %s; they are put back as the newest commit has them",
            client.storage.uri,
            ", ".join(f"{key}={text}" for key, text in taken.items()),
            PROPERTIES_PATH,
        )
    if lost or added:
        update_table_config(client.storage, {**lost, **added})
        client.reload()


def _settled(config: TableConfig, timeline: Timeline) -> dict[str, str]:
    """Properties about bucket counts that resizes have changed, or that go with a resize that is undone."""
    return settled_counts(config, timeline) | settled_rules(config, timeline)


def _drop_undone_rules(changes: Mapping[str, str], timeline: Timeline) -> None:
    """Delete the rules of an undone resize, before the properties cease to name it."""
    if RULES in changes:
        known = {one.time for one in timeline.instants}
        drop_rules(timeline.storage, lambda time: time not in known and not timeline.is_committed(time))


def _newest(config: TableConfig, timeline: Timeline) -> tuple[dict[str, str], str, str]:
    """Properties of the newest commit with a record, where it is, and its instant; empty for a table of Apache's.

    The archive is read only where the table lacks properties and no active commit has them: every write of ours leaves
    a commit that does.
    """
    complete = config.index_type is not None and config.recorded_merge_mode is not None
    for number, write in enumerate(reversed(timeline.writes)):
        if complete and number:
            break  # a tool that drops properties drops these, too
        text = timeline.extra_metadata(write).get(KEY)
        if text is not None:
            return _parsed(text, timeline.path(write)), timeline.path(write), write.time
    archived = None if complete else timeline.archive.newest_extra(KEY)
    if archived is None:
        return {}, "", ""
    place = f"{timeline.history_folder}, the archived commit {archived[0]}"
    return _parsed(archived[1], place), place, archived[0]


def _parsed(text: str, path: str) -> dict[str, str]:
    try:
        stored: Any = json.loads(text)
    except ValueError as error:
        raise CorruptFileError(path, 0, f"{KEY} is no JSON: {error}") from error
    if not isinstance(stored, dict) or not all(isinstance(value, str) for value in stored.values()):
        raise CorruptFileError(path, 0, f"{KEY} is not an object of texts")
    return stored


def _is_there(key: str, config: TableConfig) -> bool:
    group = next((keys for keys in _GROUPS if key in keys), (key,))
    return any(name in config.raw for name in group)
