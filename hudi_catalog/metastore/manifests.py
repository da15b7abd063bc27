"""Lists of data files that a metastore's entry points at, kept per registered table.

A symlink table of Hive reads the files that the text files in its folder name, one a line. Each list lies in a folder
of its own, whose name tells its content, and does not change while it is used. Beside the folder, `<name>.used` is as
young as the list's last use, and `<name>.dropping` says that it is about to go (see `pins`).

Trino takes a folder that is not there for one without files, so a query that comes too late would see an empty table.
A list that goes is therefore first overwritten by one that names a file which never was: that is an error.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import MissingFileError, UnsupportedTableError
from table_format.storage import Storage

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

FOLDER: Final = ".hoodie/.catalog"
_NAME: Final = "manifest"
_USED: Final = ".used"
_DROPPING: Final = ".dropping"
_DROPPED: Final = "this-pinned-snapshot-was-dropped"
_LONGEST_REASON: Final = 240


def manifest_of(paths: Any) -> bytes:
    """The text of a list: one path a line, in UTF-8.

    Args:
        paths: an array of strings.

    Raises:
        UnsupportedTableError: a path holds a line break.
    """
    if not len(paths):
        return b""
    nothing: Any = pa.scalar("", pa.large_string())
    line_end = pa.scalar("\n", nothing.type)
    lines = pc.binary_join_element_wise(one_chunk(paths).cast(pa.large_string()), nothing, line_end)
    # the texts lie behind each other, as lines of a file do
    made = bytes(memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()])
    if made.count(b"\n") != len(paths) or b"\r" in made:
        path = paths.filter(pc.match_substring_regex(paths, "[\r\n]"))[0].as_py()
        raise UnsupportedTableError(f"{path!r}: a path with a line break cannot be listed for an engine")
    return made


@dataclass(frozen=True)
class ManifestFolder:
    """Where the lists of one registered table lie.

    Attributes:
        storage: that the lists are in.
        path: of the folder, in that storage.
        spelled: the folder as the engine spells it.
    """

    storage: Storage
    path: str
    spelled: str

    def location(self, name: str) -> str:
        """A list's folder, as the engine spells it."""
        return f"{self.spelled}/{name}"

    def name_at(self, location: str) -> str | None:
        """The list that a location means; None when it is none of this folder."""
        inside = location.removeprefix(f"{self.spelled}/")
        return inside if inside != location and "/" not in inside else None

    def name_for(self, name: str, location: str) -> str:
        """The list that a location means, if it is kept for the content of that name (see `pins`); else that name."""
        there = self.name_at(location) or ""
        return there if there == name or there.startswith(f"{name}_") else name

    def write(self, name: str, content: bytes) -> None:
        """Write a list."""
        self.storage.overwrite(f"{self.path}/{name}/{_NAME}", content)

    def exists(self, name: str) -> bool:
        """Whether a list is there."""
        return self.storage.exists(f"{self.path}/{name}/{_NAME}")

    def touch(self, name: str) -> None:
        """Say that a list was used just now."""
        # only the file's time counts, so it need not outlive a crash
        with self.storage.open_output(f"{self.path}/{name}{_USED}") as stream:
            stream.write(b"used")

    def idle(self, name: str) -> float:
        """Seconds since a list's last use, or since it was made; infinite for one that is not there."""
        for path in (f"{self.path}/{name}{_USED}", f"{self.path}/{name}/{_NAME}"):
            entry = self.storage.entry(path)
            if entry is not None:
                return time.time() - entry.mtime_ms / 1000
        return float("inf")

    def doom(self, name: str) -> None:
        """Announce that a list will go."""
        self.storage.overwrite(f"{self.path}/{name}{_DROPPING}", b"")

    def doomed(self, name: str) -> float | None:
        """Seconds since a list's end was announced, None when it was not."""
        entry = self.storage.entry(f"{self.path}/{name}{_DROPPING}")
        return None if entry is None else time.time() - entry.mtime_ms / 1000

    def expire(self, name: str) -> None:
        """Make a list one that fails whoever reads it."""
        self.write(name, self.failing(name, _DROPPED))
        self.storage.delete(f"{self.path}/{name}{_USED}")

    def expired(self, name: str) -> bool:
        """Whether a list fails its readers, or is not there."""
        line = self.failing(name, _DROPPED)
        try:
            return self.storage.read_range(f"{self.path}/{name}/{_NAME}", 0, len(line)) == line
        except MissingFileError:
            return True

    def failing(self, name: str, reason: str) -> bytes:
        """The content of a list at which readers fail: Trino's message has the path, and so the reason."""
        words = " ".join(reason.replace("/", " ").split())
        return f"{self.location(name)}/{words[:_LONGEST_REASON]}\n".encode()

    def delete(self, name: str) -> None:
        """Take a list away, the announcement last."""
        self.storage.delete_dir(f"{self.path}/{name}")
        self.storage.delete(f"{self.path}/{name}{_USED}")
        self.storage.delete(f"{self.path}/{name}{_DROPPING}")

    def names(self) -> list[str]:
        """All lists, complete or not."""
        found = {
            entry.name if entry.is_dir else entry.name.removesuffix(_USED).removesuffix(_DROPPING)
            for entry in self.storage.list(self.path)
        }
        return sorted(found)
