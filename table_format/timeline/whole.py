"""A timeline with its archive: archived instants are there as if they were still active.

Questions about the past that reach beyond the active timeline are answered by it: which file groups were replaced,
which files were cleaned, which columns the table had. It reads the whole archive, and is made only for them.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from table_format.errors import CorruptFileError
from table_format.instant import WRITE_ACTIONS, Instant, State
from table_format.timeline.archive import Archive
from table_format.timeline.archive_log import place_of
from table_format.timeline.timeline import Timeline, highest_states


@dataclass(frozen=True, eq=False)
class WholeTimeline(Timeline):
    """A table's timeline together with its archive.

    Attributes:
        archived: functions that give the content of archived instants' files, by file name.
    """

    archived: Mapping[str, Callable[[], bytes]] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def archive(self) -> Archive:
        """An empty one: all that is archived is among the instants, which a copy may have put back to inflight."""
        return Archive(self.storage, "", self.layout)

    def read(self, instant: Instant) -> bytes:
        """The content of the instant's file, or what the archive keeps of it.

        Raises:
            CorruptFileError: the archive is damaged.
            MissingFileError: it has left the active timeline since this was loaded.
        """
        content = self.archived.get(instant.file_name)
        return super().read(instant) if content is None else content()

    def path(self, instant: Instant) -> str:
        """The instant's file, or where it is archived."""
        archived = instant.file_name in self.archived
        return f"{self.history_folder}/{instant.file_name}" if archived else super().path(instant)


_made: weakref.WeakKeyDictionary[Timeline, Timeline] = weakref.WeakKeyDictionary()


def with_archive(timeline: Timeline) -> Timeline:
    """A timeline with all that is archived; the same one if nothing is.

    Writes that a rollback or a restore has undone are left out. Made once for each timeline.

    Raises:
        CorruptFileError: the archive is damaged.
    """
    whole = _made.get(timeline)
    if whole is None:
        whole = _with_archive(timeline)
        if whole is not timeline:
            _made[timeline] = whole
    return whole


def _with_archive(timeline: Timeline) -> Timeline:
    archived = timeline.archive.files()
    _refuse_lone_states(timeline, [instant for instant, _ in archived])
    # what a restore takes back is writes: the files that a clean has deleted stay deleted
    files = {
        instant: content
        for instant, content in archived
        if instant.comparable_action not in WRITE_ACTIONS or not timeline.is_undone(instant.time)
    }
    active = {(instant.time, instant.comparable_action) for instant in timeline.instants}
    done = [
        instant
        for instant in files
        if instant.state is State.COMPLETED and (instant.time, instant.comparable_action) not in active
    ]
    if not done:
        return timeline
    fields = {each.name: getattr(timeline, each.name) for each in dataclasses.fields(Timeline) if each.init}
    gone = {(instant.time, instant.comparable_action) for instant in done}
    contents = {
        instant.file_name: content
        for instant, content in files.items()
        if (instant.time, instant.comparable_action) in gone
    }
    changed = {**fields, "instants": highest_states([*done, *timeline.instants]), "_seen_in_archive": set()}
    return WholeTimeline(**changed, archived=contents)


def _refuse_lone_states(timeline: Timeline, archived: Iterable[Instant]) -> None:
    """Refuse an archive in which an instant was planned or begun, and never completed: its time is damaged there.

    Only completed instants are archived, with all their states. Blocks of the archive have no checksum, so that a
    changed digit would otherwise pass for another instant.
    """
    if timeline.layout > 1:
        return
    states: dict[str, set[State]] = {}
    for instant in archived:
        states.setdefault(instant.time, set()).add(instant.state)
    active = {instant.time for instant in timeline.instants}
    lone = (time for time, of in states.items() if State.COMPLETED not in of and time not in active)
    for time in sorted(lone):
        if not timeline.is_undone(time):
            path, offset = place_of(timeline.storage, timeline.history_folder, time)
            raise CorruptFileError(
                path,
                offset,
                f"the archived instant {time} was begun and has not completed, so this time, or that of the instant "
                "whose states these are, is damaged; restore the file",
            )
