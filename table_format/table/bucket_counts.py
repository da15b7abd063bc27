"""How many buckets a table's partitions have: a number that resizes change, and that differs between its states.

A resize is one replacecommit. Its completed file decides: it says the count before and after in its extra metadata.
`hoodie.properties` follow it, in this order, all under the table's lock:

1. `hoodie.catalog.bucket.counts` gets the resize's entry, marked as unconfirmed; the count stays.
2. The replacecommit completes.
3. `hoodie.bucket.index.num.buckets` gets the new count, and the entry is confirmed.

So properties and timeline, whichever of them was loaded first, together give the count of any state, also of past ones,
after a crash between two steps, and when the replacecommit was archived, rolled back or restored away. Where they
cannot tell, readers prune nothing.

A resize of some partitions changes rules instead (`table_format.keys.partition_buckets`). Their file decides, from the
completion of its replacecommit on; the properties follow likewise:

1. `hoodie.catalog.bucket.rules` gets the instant, marked as unconfirmed, and the file is written.
2. The replacecommit completes.
3. `hoodie.bucket.index.partition.expressions` gets the new rules, and the instant is confirmed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError
from table_format.instant import Action, Instant
from table_format.keys.partition_buckets import (
    EXPRESSIONS,
    INITIAL,
    REGEX,
    RULE_TYPE,
    BucketRules,
    StoredRules,
    read_rules,
)
from table_format.timeline.timeline import Timeline

#: The table's property: its count now.
COUNT: Final = "hoodie.bucket.index.num.buckets"
#: The table's property: its resizes, oldest first; see `format_resizes`.
RESIZES: Final = "hoodie.catalog.bucket.counts"
#: In the extra metadata of a resize's replacecommit: the counts before and after, separated by a space.
RESCALE_KEY: Final = "hoodie.catalog.bucket.rescale"
#: The table's property: the instant of the resize whose rules its properties name, `?` after an unconfirmed one.
RULES: Final = "hoodie.catalog.bucket.rules"
#: What `RESCALE_KEY` says in a resize of some partitions.
BY_PARTITION: Final = "by partition"
#: In a commit's extra metadata: JSON of the properties that the write went by.
RECORD_KEY: Final = "hoodie.catalog.table.properties"
#: Apache's name of the operation, from 1.1 on. Older releases refuse to read a commit with it.
OPERATION: Final = "BUCKET_RESCALE"

_ENTRY: Final = re.compile(r"(\d{1,20})/([1-9]\d{0,7})/([1-9]\d{0,7})(\??)")


@dataclass(frozen=True, slots=True)
class Resize:
    """One change of a table's bucket count.

    Attributes:
        instant: of the replacecommit.
        before: buckets of each partition up to it.
        after: buckets from it on.
        confirmed: whether it is known to have completed.
    """

    instant: str
    before: int
    after: int
    confirmed: bool = True

    @property
    def note(self) -> dict[str, str]:
        """What the replacecommit's extra metadata say of it."""
        return {RESCALE_KEY: f"{self.before} {self.after}"}

    def announced(self, config: TableConfig) -> dict[str, str]:
        """Properties to set before the replacecommit completes."""
        return {RESIZES: with_resize(config, replace(self, confirmed=False))}

    def completed(self, config: TableConfig) -> dict[str, str]:
        """Properties once it has completed."""
        return {COUNT: str(self.after), RESIZES: with_resize(config, self)}


@dataclass(frozen=True, slots=True)
class RulesChange:
    """A resize of some partitions; like `Resize`.

    Attributes:
        instant: of the replacecommit.
        rules: from it on.
    """

    instant: str
    rules: BucketRules

    @property
    def note(self) -> dict[str, str]:
        """What the replacecommit's extra metadata say of it."""
        return {RESCALE_KEY: BY_PARTITION}

    def announced(self, config: TableConfig) -> dict[str, str]:
        """Properties to set before its file of rules is written, and a count that was not recorded."""
        count = {} if config.bucket_count is not None else {COUNT: str(self.rules.default)}
        return {RULES: f"{self.instant}?", **count}

    def completed(self, config: TableConfig) -> dict[str, str]:
        """Properties once it has completed."""
        return {**self.announced(config), **named_rules(self.rules, self.instant)}


def named_rules(rules: BucketRules, instant: str) -> dict[str, str]:
    """Properties that name rules by partition, of a resize that has completed."""
    return {EXPRESSIONS: rules.expressions, RULE_TYPE: REGEX, RULES: instant}


def format_resizes(resizes: Iterable[Resize]) -> str:
    """The text of a table's property: `<instant>/<before>/<after>` separated by commas, `?` after unconfirmed ones.

    >>> format_resizes([Resize("20260101000000000", 8, 16), Resize("20260202000000000", 16, 32, confirmed=False)])
    '20260101000000000/8/16,20260202000000000/16/32?'
    """
    marks = {True: "", False: "?"}
    return ",".join(f"{one.instant}/{one.before}/{one.after}{marks[one.confirmed]}" for one in resizes)


def recorded_resizes(config: TableConfig) -> list[Resize]:
    """The resizes that a table's properties list, oldest first.

    Raises:
        CorruptFileError: a text that `format_resizes` does not make.
    """
    entries: list[Resize] = []
    for text in filter(None, config.raw.get(RESIZES, "").split(",")):
        match = _ENTRY.fullmatch(text.strip())
        if match is None:
            raise CorruptFileError(".hoodie/hoodie.properties", 0, f"{RESIZES}: {text!r} is no resize")
        instant, before, after, mark = match.groups()
        entries.append(Resize(instant, int(before), int(after), confirmed=not mark))
    return entries


def resize_of(extra: dict[str, str], instant: str) -> Resize | None:
    """The resize that a commit's extra metadata tell of; None for other commits."""
    before, _, after = extra.get(RESCALE_KEY, "").partition(" ")
    return Resize(instant, int(before), int(after)) if before.isdigit() and after.isdigit() else None


def bucket_count_as_of(config: TableConfig, timeline: Timeline, as_of: str | None = None) -> int | str | None:
    """The buckets of each partition in one state of a table.

    Args:
        config: the table's properties, loaded before or after the timeline.
        timeline: of the table.
        as_of: instant of the state; None for the newest.

    Returns:
        The count; None where nothing records it, as in Apache's tables; or a text, why it is in doubt.

    Raises:
        CorruptFileError: the properties, or a replacecommit, are damaged.
    """
    entries = recorded_resizes(config)
    doubtful = next((one for one in entries if _is_doubtful(one.instant, timeline, confirmed=one.confirmed)), None)
    if doubtful is not None:
        return f"whether resize {doubtful.instant} completed is not known, since its instant is archived"
    known = _merged([one for one in entries if timeline.is_committed(one.instant)], _active_resizes(timeline))
    count = config.bucket_count
    if known or entries:
        first = (known or entries)[0]
        earlier = [one for one in known if as_of is None or one.instant <= as_of]
        count = earlier[-1].after if earlier else first.before
    newest = timeline.last_completed_write(as_of)
    if newest is None:
        return count
    recorded = _recorded_count(timeline.extra_metadata(newest))
    if recorded not in (None, str(count)) and not went_by_older_count(recorded, newest.time, known):
        return f"{timeline.path(newest)} was written with {recorded} buckets, the table's properties give {count}"
    return count


def settled_counts(config: TableConfig, timeline: Timeline) -> dict[str, str]:
    """Properties to change so that they are as the timeline has it; none where they are.

    Args:
        config: the table's properties, loaded under the table's lock or to be checked only.
        timeline: of the table, as it is now.

    Raises:
        CorruptFileError: the properties, a replacecommit or, if it is needed, the archive are damaged.
    """
    entries, active = recorded_resizes(config), _active_resizes(timeline)
    if not entries and not active:
        return {}
    pending = {one.time for one in timeline.pending}
    committed = [one for one in entries if _is_surely_committed(one.instant, timeline, confirmed=one.confirmed)]
    committed = _merged(committed, active)
    times = {one.instant for one in committed}
    # one that is pending may be about to complete
    kept = [*committed, *(one for one in entries if one.instant in pending and one.instant not in times)]
    text = format_resizes(sorted(kept, key=lambda one: one.instant))
    count = committed[-1].after if committed else entries[0].before
    changes = {COUNT: str(count), RESIZES: text}
    return {key: value for key, value in changes.items() if config.raw.get(key, "") != value}


def went_by_older_count(text: str | None, write: str, resizes: Sequence[Resize]) -> bool:
    """Whether a write recorded the count before a resize that began before it and completed after it.

    Such a write changed no file: the resize would have conflicted with it, and a write that completes after a resize
    which it did not see conflicts always.

    Args:
        text: the count that it recorded.
        write: its instant.
        resizes: of the table, oldest first.
    """
    earlier = [one for one in resizes if one.instant < write]
    return bool(earlier) and text == str(earlier[-1].before)


def went_by_older_rules(text: str, write: str, config: TableConfig, timeline: Timeline) -> bool:
    """As `went_by_older_count`, for rules by partition: the write may have changed partitions that kept their count."""
    known = announced_rules(config)
    return known is not None and known < write and text == _rules_before(known, timeline).get(EXPRESSIONS)


def was_resized(config: TableConfig) -> bool:
    """Whether counts have changed, so that jobs of other tools may go by older ones."""
    return bool(config.raw.get(RESIZES) or config.raw.get(RULES))


def announced_rules(config: TableConfig) -> str | None:
    """The instant of the last resize of some partitions, which may not have completed, or may be undone."""
    return config.raw.get(RULES, "").rstrip("?") or None


def settled_rules(config: TableConfig, timeline: Timeline) -> dict[str, str]:
    """Properties to change so that they name the rules by partition that count; none where they do.

    Only resizes of this project are followed. A rescale of Apache's leaves partitions as they are whose count it takes
    for unchanged, so that its rules do not tell.

    Args:
        config: the table's properties, loaded under the table's lock or to be checked only.
        timeline: of the table, as it is now.

    Raises:
        CorruptFileError: a replacecommit, a file of rules or, if it is needed, the archive are damaged.
        MissingFileError: a file of rules is gone.
    """
    mark, known = config.raw.get(RULES, ""), announced_rules(config)
    last = max((one.time for one in _rescales(timeline) if _is_by_partition(one, timeline)), default=None)
    if last is not None and (known is None or known < last):
        known, mark = last, f"{last}?"
    if known is None or any(one.time == known for one in timeline.pending):
        return {}
    if _is_surely_committed(known, timeline, confirmed=not mark.endswith("?")):
        rules = None if mark == known else read_rules(timeline.storage, known)
        changes = {} if rules is None else named_rules(rules, known)
    else:
        changes = _rules_before(known, timeline)
    return {key: value for key, value in changes.items() if config.raw.get(key, "") != value}


def _rules_before(instant: str, timeline: Timeline) -> dict[str, str]:
    """Properties that name the rules that counted before a resize of some partitions."""
    before = StoredRules.load(
        timeline.storage, lambda time: time < instant and timeline.is_committed(time), lambda: instant
    )
    if before is None:
        return {EXPRESSIONS: "", RULES: ""}
    resized = before.instant != INITIAL
    return {EXPRESSIONS: before.rules.expressions, RULES: before.instant if resized else ""}


def with_resize(config: TableConfig, resize: Resize) -> str:
    """The text of the property with one more resize."""
    others = [one for one in recorded_resizes(config) if one.instant != resize.instant]
    return format_resizes([*others, resize])


def _rescales(timeline: Timeline) -> list[Instant]:
    """Completed replacecommits on the timeline, oldest first, of which some may be resizes."""
    return [write for write in timeline.writes if write.action == Action.REPLACECOMMIT]


def _active_resizes(timeline: Timeline) -> list[Resize]:
    """Resizes of the whole table on the timeline, oldest first."""
    resizes = (resize_of(timeline.extra_metadata(write), write.time) for write in _rescales(timeline))
    return [one for one in resizes if one is not None]


def _is_by_partition(write: Instant, timeline: Timeline) -> bool:
    return timeline.extra_metadata(write).get(RESCALE_KEY) == BY_PARTITION


def _merged(entries: Iterable[Resize], active: Iterable[Resize]) -> list[Resize]:
    by_instant = {one.instant: replace(one, confirmed=True) for one in (*entries, *active)}
    return [by_instant[instant] for instant in sorted(by_instant)]


def _is_doubtful(instant: str, timeline: Timeline, *, confirmed: bool) -> bool:
    """Whether a resize's replacecommit was archived, or rolled back long ago, before anybody confirmed it."""
    if confirmed or any(write.time == instant for write in timeline.instants):
        return False
    return timeline.is_committed(instant)


def _is_surely_committed(instant: str, timeline: Timeline, *, confirmed: bool) -> bool:
    if _is_doubtful(instant, timeline, confirmed=confirmed):
        return instant in timeline.archive.writes
    return timeline.is_committed(instant)


def _recorded_count(extra: dict[str, str]) -> str | None:
    text = extra.get(RECORD_KEY)
    if text is None:
        return None
    try:
        count = json.loads(text).get(COUNT)
    except (ValueError, AttributeError):
        return None  # writers say what is wrong with it
    return count if isinstance(count, str) else None
