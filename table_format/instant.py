"""Instants: the points of the timeline, their times and file names.

Timeline layout 1 (table versions up to 7) names a completed instant by its time; layout 2 (versions 8 and 9) adds the
time at which it completed: `<time>_<completion time>.<action>`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from table_format.errors import OptionError, TransactionError

_FORMAT: Final = "%Y%m%d%H%M%S"
_DIGITS: Final = 17
_FILE_NAME: Final = re.compile(r"([0-9]+)(?:_([0-9]+))?\.(\w+)(?:\.(requested|inflight))?", re.ASCII)
_DIGIT_FORMS: Final = re.compile(r"[0-9]{14}(?:[0-9]{3})?")


class State(IntEnum):
    """State of an action on the timeline; each state is a file of its own."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


class Action:
    """The actions of a timeline."""

    COMMIT: Final = "commit"
    DELTACOMMIT: Final = "deltacommit"
    REPLACECOMMIT: Final = "replacecommit"
    COMPACTION: Final = "compaction"
    LOGCOMPACTION: Final = "logcompaction"
    CLUSTERING: Final = "clustering"
    CLEAN: Final = "clean"
    ROLLBACK: Final = "rollback"
    RESTORE: Final = "restore"
    SAVEPOINT: Final = "savepoint"
    INDEXING: Final = "indexing"


#: Actions that change the table's rows.
WRITE_ACTIONS: Final = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
ACTIONS: Final = frozenset(v for k, v in vars(Action).items() if k.isupper())
#: Action name of a completed instant, by the name while it is pending.
_COMPARABLE: Final = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


@dataclass(frozen=True, order=True)
class Instant:
    """One action at one time, in one state.

    Attributes:
        time: `yyyyMMddHHmmssSSS`, compared as text.
        action: see `Action`; a compaction stays `compaction` until it completes as `commit`.
        state: see `State`.
        completion_time: when it completed, in the form of `time`; None while pending, and in timeline layout 1.
    """

    time: str
    action: str
    state: State
    completion_time: str | None = field(default=None, compare=False)

    @property
    def comparable_action(self) -> str:
        """Action name that all states of this instant share."""
        return _COMPARABLE.get(self.action, self.action)

    @property
    def file_name(self) -> str:
        """The name of the instant's file; a commit in flight is `<time>.inflight`, without its action."""
        if self.state is State.COMPLETED:
            completion = f"_{self.completion_time}" if self.completion_time else ""
            return f"{self.time}{completion}.{self.comparable_action}"
        if self.state is State.INFLIGHT and self.action == Action.COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action}.{self.state.name.lower()}"

    def at(self, state: State) -> Instant:
        """The same action in another state."""
        return Instant(self.time, self.action, state)

    def __str__(self) -> str:
        return f"{self.time} {self.action} {self.state.name}"


def parse_instant_file_name(name: str) -> Instant | None:
    """Parse the name of a timeline file; None for any other file.

    >>> str(parse_instant_file_name("20260101000000000.inflight"))
    '20260101000000000 commit INFLIGHT'
    >>> parse_instant_file_name("hoodie.properties")
    """
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    time, completion, action, suffix = match.groups()
    if completion and (suffix or action not in ACTIONS):
        return None  # only completed instants have a completion time
    if action == "inflight" and suffix is None:
        return Instant(time, Action.COMMIT, State.INFLIGHT)
    if action not in ACTIONS:
        return None
    return Instant(time, action, State[suffix.upper()] if suffix else State.COMPLETED, completion)


def format_instant_time(moment: dt.datetime) -> str:
    """Format a datetime as an instant time in milliseconds, in the datetime's own zone."""
    # strftime does not pad years before 1000
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def next_instant_time(last: str | None, timezone: str, now: dt.datetime | None = None) -> str:
    """Time for a new instant: now, or the last instant time plus a millisecond if the clock is not past it.

    Args:
        last: the greatest instant time of the table, pending ones included.
        timezone: `UTC`, or `LOCAL` for the zone of this machine (`hoodie.table.timeline.timezone`).
        now: current time, with a zone; the clock's if None.

    Raises:
        TransactionError: the last time is the greatest possible one.
    """
    moment = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC if timezone == "UTC" else None)
    time = format_instant_time(moment)
    if last is None or time > last[:_DIGITS]:
        return time
    with contextlib.suppress(OverflowError):
        time = format_instant_time(_wall_clock(last) + dt.timedelta(milliseconds=1))
    if time <= last:
        # not a calendar time, such as 00000000000000010 or one from a broken clock
        time = str(int(last[:_DIGITS].ljust(_DIGITS, "9")) + 1).zfill(_DIGITS)
    if time <= last:
        raise TransactionError(f"no instant time can follow {last}; remove that instant")
    return time


def parse_as_of(text: str, timezone: str) -> str:
    """Parse a point in time given by a user: an instant's digits, or an ISO 8601 date or time.

    A date alone is its first moment; a time without an offset is in the table's zone. Digits without milliseconds
    include the whole second.

    Raises:
        OptionError: the text is neither.

    >>> parse_as_of("2026-11-21 08:04:07.220", "UTC")
    '20261121080407220'
    >>> parse_as_of("20261121080407", "UTC")
    '20261121080407999'
    """
    plain = text.strip()
    if _DIGIT_FORMS.fullmatch(plain):
        return plain if len(plain) == _DIGITS else f"{plain}999"
    try:
        moment = dt.datetime.fromisoformat(plain)
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC if timezone == "UTC" else None)
    except (ValueError, OverflowError) as error:
        raise OptionError(
            f"as of {text!r}: give an instant (yyyyMMddHHmmssSSS) or a time such as 2026-01-31 12:00:00"
        ) from error
    return format_instant_time(moment)


def is_calendar_time(time: str) -> bool:
    """Whether an instant time is a valid calendar time.

    >>> is_calendar_time("20260131235959999"), is_calendar_time("20260132000000000")
    (True, False)
    """
    try:
        dt.datetime.strptime(time[:14], _FORMAT)  # noqa: DTZ007 - no zone is needed for that
    except ValueError:
        return False
    return True


def instant_epoch_ms(time: str, timezone: str) -> int:
    """Convert an instant time to milliseconds since the epoch.

    Times of 14 digits, without milliseconds, stand for the last millisecond of their second
    (`HoodieInstantTimeGenerator`).

    Args:
        time: an instant.
        timezone: zone of the table's instant times, `UTC` or `LOCAL`.

    >>> instant_epoch_ms("20260102030405006", "UTC")
    1767323045006
    """
    moment = _wall_clock(time)
    moment = moment.replace(tzinfo=dt.UTC) if timezone == "UTC" else moment.astimezone()
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _wall_clock(time: str) -> dt.datetime:
    millis = time[14:17] if len(time) >= _DIGITS else "999"
    try:
        moment = dt.datetime.strptime(time[:14], _FORMAT)  # noqa: DTZ007 - the caller knows the zone
        return moment.replace(microsecond=int(millis) * 1000)
    except ValueError:
        # reserved instants of the metadata table (00000000000000…) are not calendar times
        return dt.datetime(1970, 1, 1)  # noqa: DTZ001
