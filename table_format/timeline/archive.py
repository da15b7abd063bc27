"""The archived timeline, in either layout.

Most queries do not depend on it, so it is read lazily. Results are cached per file as long as its storage object
lives, since archive files do not change.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from table_format.actions.table_services import CleanMetadata
from table_format.errors import CorruptFileError
from table_format.instant import WRITE_ACTIONS, Instant
from table_format.storage import FileEntry, Storage
from table_format.timeline import archive_log, history

Result = TypeVar("Result")
Groups = tuple[tuple[str, str], ...]
Content = Callable[[], bytes]

#: Cached results, by kind of result and the file's path, size and time.
_read_before: weakref.WeakKeyDictionary[Storage, dict[tuple[str, str, int, int], Any]] = weakref.WeakKeyDictionary()


class Archive:
    """The archived timeline of a table; each part is read on first use.

    An instant may be in it twice after an interrupted archiving run. Instances pickle without cached content.

    Args:
        storage: rooted at the table's base folder.
        folder: folder of the archive; "" for none.
        layout: of the timeline.
    """

    def __init__(self, storage: Storage, folder: str, layout: int) -> None:
        self._storage = storage
        self._folder = folder
        self._layout = layout
        self._part: Any = archive_log if layout == 1 else history

    def __reduce__(self) -> tuple[Any, ...]:
        return Archive, (self._storage, self._folder, self._layout)

    @functools.cached_property
    def writes(self) -> dict[str, str]:
        """Completion times of archived writes by instant; in layout 1 the instant itself.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """
        return {time: completion for time, action, completion in self._completed if action in WRITE_ACTIONS}

    @functools.cached_property
    def instants(self) -> tuple[tuple[str, str], ...]:
        """Time and action of all archived completed instants, each once.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """
        return tuple(dict.fromkeys((time, action) for time, action, _ in self._completed))

    @functools.cached_property
    def _completed(self) -> list[tuple[str, str, str]]:
        """Time, action and completion time of completed instants."""
        return self._of_all_files("instants", lambda path: tuple(self._part.read_instants(self._storage, path)))

    @functools.cached_property
    def replaced(self) -> dict[str, Groups]:
        """File groups replaced by archived replacecommits, as partition and file id, by instant.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """

        def read(path: str) -> tuple[tuple[str, Groups], ...]:
            return tuple((time, _pairs(of)) for time, of in self._part.read_replaced(self._storage, path))

        return dict(self._of_all_files("replaced", read))

    def cleans(self) -> Iterator[tuple[str, CleanMetadata]]:
        """All archived cleans with their instant times; not cached.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """
        for entry in self.entries():
            try:
                yield from self._part.read_cleans(self._storage, entry.path)
            except (KeyError, TypeError, AttributeError) as error:
                raise CorruptFileError(entry.path, 0, f"an archived clean of an unknown shape: {error!r}") from error

    def newest_extra(self, key: str) -> tuple[str, str] | None:
        """Time of the newest archived write that has a key in its extra metadata, and the value (layout 1).

        It reads the whole archive on first use.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """
        if self._part is not archive_log:
            return None

        def read(path: str) -> tuple[tuple[str, str], ...]:
            values = tuple(archive_log.read_extra(self._storage, path, key))
            return (max(values),) if values else ()

        return max(self._of_all_files(f"extra {key}", read), default=None)

    def extras(self, key: str) -> list[tuple[str, str]]:
        """Times of archived writes that have a key in their extra metadata, and the values (layout 1).

        It reads the whole archive on first use.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """
        if self._part is not archive_log:
            return []
        return self._of_all_files(f"extras {key}", lambda path: tuple(archive_log.read_extra(self._storage, path, key)))

    def files(self) -> list[tuple[Instant, Content]]:
        """Files of archived instants, each with a function that gives its content; not cached.

        Raises:
            CorruptFileError: a file of the archive is damaged; the functions raise it, too.
        """
        return history.retried(
            lambda: [file for entry in self.entries() for file in self._part.read_files(self._storage, entry.path)]
        )

    def content(self, instant: Instant) -> bytes | None:
        """What is kept of an instant's file; None if it is not archived.

        Raises:
            CorruptFileError: a file of the archive is damaged.
        """
        name = instant.file_name
        return next((content() for archived, content in self.files() if archived.file_name == name), None)

    def _of_all_files(self, question: str, read: Callable[[str], tuple[Result, ...]]) -> list[Result]:
        """Results of all files in order."""
        return history.retried(lambda: self._of_files(question, read))

    def _of_files(self, question: str, read: Callable[[str], tuple[Result, ...]]) -> list[Result]:
        entries = self.entries()
        known = _read_before.setdefault(self._storage, {}) if entries else {}
        results: list[Result] = []
        for entry in entries:
            key = question, entry.path, entry.size, entry.mtime_ms
            if key not in known:
                known[key] = read(entry.path)
            results += known[key]
        return results

    def entries(self) -> list[FileEntry]:
        """Files of the archive."""
        entries: list[FileEntry] = self._part.archive_files(self._storage, self._folder) if self._folder else []
        return entries


def _pairs(replaced: dict[str, list[str]]) -> Groups:
    return tuple((partition, file_id) for partition, ids in replaced.items() for file_id in ids)
