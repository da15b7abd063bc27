"""Numbered batches of a job, such as those of a stream: one that is committed is not written again.

A commit notes them as Apache Hudi's streaming sink does, in its extra metadata: the number of the newest batch by the
job's name, as a JSON object of texts. Ours repeats the numbers of other jobs, so that few commits have to be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from table_format.errors import ConflictError, OptionError
from table_format.instant import WRITE_ACTIONS, Instant
from table_format.timeline.timeline import Timeline
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions

#: Key of the extra metadata; of Apache's HoodieStreamingSink.
KEY: Final = "_hudi_streaming_sink_checkpoint"


class CommittedBatchError(Exception):
    """The batch is committed already.

    Attributes:
        instant: of the commit.
    """

    def __init__(self, instant: str) -> None:
        super().__init__(instant)
        self.instant = instant


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a job.

    Attributes:
        app: name of the job.
        version: number of the batch; those of later batches are greater.
    """

    app: str
    version: int

    @classmethod
    def of(cls, options: WriteOptions) -> Self | None:
        """The batch that a write's options name; None for none.

        Raises:
            OptionError: one of the two options is set without the other.
        """
        app, version = options.text(registry.TXN_APP), options.number(registry.TXN_VERSION)
        if app is None and version is None:
            return None
        if app is None or version is None:
            raise OptionError(f"{registry.TXN_APP.key} and {registry.TXN_VERSION.key} are set together")
        return cls(app, version)

    def refuse_committed(self, timeline: Timeline) -> None:
        """Look for the batch, or a later one of the job, on the timeline and in the archive.

        Raises:
            CommittedBatchError: it is there.
        """
        for instant, versions in _notes(timeline):
            if self.app in versions:
                if versions[self.app] >= self.version:
                    raise CommittedBatchError(instant)
                return

    def refuse_concurrent(self, own: str, timeline: Timeline, others: Iterable[Instant]) -> None:
        """Check that no other write of the batch, nor a note of a later time, was committed since this one began.

        Args:
            own: time of this write.
            timeline: as it is.
            others: writes that completed meanwhile.

        Raises:
            ConflictError: one was.
        """
        for other in others:
            if other.action not in WRITE_ACTIONS:
                continue
            noted = _versions(timeline.extra_metadata(other).get(KEY))
            if self.app in noted and noted[self.app] >= self.version:
                raise ConflictError(
                    f"{own}: instant {other.time} wrote batch {self.version} of {self.app!r}, or a later one, while "
                    "this write of it was under way; nothing was written"
                )
            if noted and other.time > own:
                # the newest note by time has to hold the numbers of all jobs
                raise ConflictError(
                    f"{own}: instant {other.time} noted batches while this write was under way; nothing was written"
                )

    def note(self, timeline: Timeline) -> dict[str, str]:
        """The extra metadata of a commit of the batch."""
        versions: dict[str, int] = {}
        for _, noted in _notes(timeline):
            versions = {**noted, **versions}
            if self.app in noted:
                break
        versions[self.app] = self.version
        return {KEY: json.dumps({app: str(version) for app, version in versions.items()})}


def _notes(timeline: Timeline) -> Iterator[tuple[str, dict[str, int]]]:
    """Instants of commits that note batches, newest first, and the number of the newest batch by job."""
    for instant in reversed(timeline.writes):
        text = timeline.extra_metadata(instant).get(KEY)
        if text is not None:
            yield instant.time, _versions(text)
    for time, text in sorted(timeline.archive.extras(KEY), reverse=True):
        yield time, _versions(text)


def _versions(text: str | None) -> dict[str, int]:
    try:
        noted = json.loads(text or "{}")
        return {str(app): int(version) for app, version in noted.items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # not of Apache's form: no batch of ours
