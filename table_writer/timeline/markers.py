"""Markers: an empty file for each data file that a write creates, so that others can roll a dead write back."""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass
from typing import Final

from table_format.errors import AlreadyExistsError, CorruptFileError
from table_format.storage import Storage

TEMP_FOLDER: Final = ".hoodie/.temp"

CREATE: Final = "CREATE"

MERGE: Final = "MERGE"

APPEND: Final = "APPEND"

SCRATCH_FOLDER: Final = ".hoodie/.catalog/writes"

_IO_TYPES: Final = (CREATE, MERGE, APPEND)

_INFIX: Final = ".marker."

_SERVER_FILES: Final = "MARKERS"

_SERVER_TYPE: Final = "MARKERS.type"


@dataclass(frozen=True, order=True, slots=True)
class Marker:
    """Announcement of one data file of a write.

    Attributes:
        partition: partition path, `""` without partitions.
        file_name: the data file's name.
        io_type: `CREATE` for a new file group's file, `MERGE` for a new version, `APPEND` for a log file.
    """

    partition: str
    file_name: str
    io_type: str

    @property
    def path(self) -> str:
        """The data file, relative to the table's base folder."""
        return posixpath.join(self.partition, self.file_name)


def marker_folder(instant: str) -> str:
    """Folder of the markers of one write."""
    return f"{TEMP_FOLDER}/{instant}"


def scratch_folder(instant: str) -> str:
    """Folder of files that tasks of one write leave for its commit; deleted with the markers.

    It is not inside the folder of markers, because Apache's rollback takes every file there for a marker.
    """
    return f"{SCRATCH_FOLDER}/{instant}"


def create_marker(storage: Storage, instant: str, partition: str, file_name: str, io_type: str) -> None:
    """Announce a data file, before the partition's metadata file and the data file's first byte are written.

    Args:
        storage: rooted at the table's base folder.
        instant: the write's.
        partition: partition path.
        file_name: the data file's name; a retried task has another write token and so another marker.
        io_type: `CREATE` or `MERGE`.
    """
    path = posixpath.join(marker_folder(instant), partition, f"{file_name}{_INFIX}{io_type}")
    with contextlib.suppress(AlreadyExistsError):
        storage.create(path, b"")


def has_markers(storage: Storage, instant: str) -> bool:
    """Whether a write has a folder of markers, even an empty one."""
    return storage.exists(marker_folder(instant))


def read_markers(storage: Storage, instant: str) -> list[Marker]:
    """The markers of one write, sorted.

    Both of Hudi's forms are read: a file for each marker, and the lists of the timeline server (`MARKERS0` and so on).

    Raises:
        CorruptFileError: a line of a list is not a marker. Java's server writes lists anew in their place: if it dies
            meanwhile, part of a line is left.
    """
    folder = marker_folder(instant)
    markers: set[Marker] = set()
    for entry in storage.list(folder, recursive=True):
        if entry.is_dir or entry.name == _SERVER_TYPE:
            continue
        relative = entry.path[len(folder) + 1 :]
        if relative.startswith(_SERVER_FILES) and relative[len(_SERVER_FILES) :].isdigit():
            lines = _decode(storage.read(entry.path), entry.path).splitlines()
            markers.update(_parse(line.strip(), entry.path) for line in lines if line.strip())
        elif _INFIX in entry.name:
            markers.add(_parse(relative, entry.path))
    return sorted(markers)


def delete_markers(storage: Storage, instant: str) -> None:
    """Delete the markers and scratch files of a write that has completed or was rolled back."""
    storage.delete_dir(scratch_folder(instant))
    storage.delete_dir(marker_folder(instant))


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, error.start, "not UTF-8") from error


def _parse(text: str, path: str) -> Marker:
    place, infix, io_type = text.rpartition(_INFIX)
    if not infix or io_type not in _IO_TYPES:
        raise CorruptFileError(path, 0, f"{text!r} is not a marker")
    partition, name = posixpath.split(place)
    return Marker(partition, name, io_type)
