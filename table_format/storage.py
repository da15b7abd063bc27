"""Files of one table behind one small interface, over `pyarrow.fs` (local, S3, GCS, HDFS).

All paths are relative to the table's base folder, with `/` between their parts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from table_format.errors import AlreadyExistsError, MissingFileError, StorageError


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of a folder.

    Attributes:
        path: relative to the storage's root.
        size: bytes; 0 for folders.
        mtime_ms: last modification, milliseconds since the epoch.
        is_dir: whether it is a folder.
    """

    path: str
    size: int
    mtime_ms: int
    is_dir: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)


@contextlib.contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Errors of the operating system become those of this project, which name the file.

    Args:
        path: of the file that is worked on, below the base folder.

    Raises:
        StorageError: what is done within it fails.
    """
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"{path}: no such file") from error
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path}: exists already") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise StorageError(f"{path}: the file system takes no name or path of this length") from error
        raise StorageError(f"{path}: {error}") from error
    except ValueError as error:  # the path holds a zero character
        raise StorageError(f"{path}: {error}") from error


class Storage:
    """The files below one base folder.

    Instances pickle (by URI and options), so that Spark workers open the same place.

    Args:
        uri: base folder; a plain path, or a URI that `pyarrow.fs` knows (`file:`, `s3:`, `gs:`, `hdfs:`).
        options: keyword arguments for the `pyarrow.fs` file system class, e.g. `{"endpoint_override": …}` for S3.
    """

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None) -> None:
        self.uri = uri.rstrip("/") or "/"
        self.options = dict(options or {})
        self.filesystem, self.base = _resolve(self.uri, self.options)
        self.is_local = isinstance(self.filesystem, fs.LocalFileSystem)

    def __reduce__(self) -> tuple[type[Storage], tuple[str, dict[str, Any]]]:
        return type(self), (self.uri, self.options)

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    def sub(self, path: str) -> Storage:
        """The storage rooted at a folder below this one."""
        return type(self)(f"{self.uri}/{path}", self.options)

    def full_path(self, path: str) -> str:
        """The path that `self.filesystem` understands."""
        return f"{self.base}/{path}" if path else self.base

    def full_uri(self, path: str) -> str:
        """The path as other programs (Spark, Hive, Trino) take it; local ones get `file:`."""
        whole = f"{self.uri}/{path}" if path else self.uri
        return whole if "://" in whole or whole.startswith("file:") else f"file:{os.path.abspath(whole)}"

    def read(self, path: str) -> bytes:
        """The whole content of a file.

        Raises:
            MissingFileError: there is no such file.
        """
        with storage_errors(path), self.filesystem.open_input_file(self.full_path(path)) as stream:
            return bytes(stream.readall())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        with storage_errors(path), self.filesystem.open_input_file(self.full_path(path)) as stream:
            return bytes(stream.read_at(length, offset))  # type: ignore[call-arg]  # the stubs lack the offset

    def open_input(self, path: str) -> Any:
        """A seekable `pyarrow.NativeFile`."""
        with storage_errors(path):
            return self.filesystem.open_input_file(self.full_path(path))

    def open_output(self, path: str) -> Any:
        """A `pyarrow.NativeFile` that truncates what stands there; parent folders are made."""
        with storage_errors(path):
            self._make_parent(path)
            return self.filesystem.open_output_stream(self.full_path(path))

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that name is there."""
        with storage_errors(path):
            return bool(self.filesystem.get_file_info(self.full_path(path)).type != fs.FileType.NotFound)

    def entry(self, path: str) -> FileEntry | None:
        """Size and time of a file or folder, or None when there is none."""
        with storage_errors(path):
            info = self.filesystem.get_file_info(self.full_path(path))
        return None if info.type == fs.FileType.NotFound else self._entry(info)

    def list(self, path: str = "", *, recursive: bool = False) -> list[FileEntry]:
        """What lies in a folder, by name; an absent folder is empty. Hadoop's `.crc` side files are left out."""
        with storage_errors(path):
            selector = fs.FileSelector(self.full_path(path), recursive=recursive, allow_not_found=True)
            infos = self.filesystem.get_file_info(selector)
        entries = [self._entry(info) for info in infos if not _is_side_file(info.base_name)]
        return sorted(entries, key=lambda entry: entry.path)

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents; no error when it is there."""
        with storage_errors(path):
            self.filesystem.create_dir(self.full_path(path), recursive=True)

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist; its content is complete the moment that the name appears.

        On local file systems this is a hard link of a synced temporary file, which is atomic and exclusive. Object
        stores publish an upload atomically, yet `pyarrow.fs` has no conditional put: there exclusion rests on the
        table lock.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        with storage_errors(path):
            self._make_parent(path)
            if self.is_local:
                self._create_local(self.full_path(path), data)
                return
            if self.exists(path):
                raise AlreadyExistsError(f"{path}: exists already")
            with self.filesystem.open_output_stream(self.full_path(path)) as stream:
                stream.write(data)

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file, or create it, and drop the stale `.crc` that a Hadoop client may have left beside it."""
        with storage_errors(path):
            self._make_parent(path)
            if self.is_local:
                temporary = _temporary_beside(self.full_path(path))
                _write_synced(temporary, data)
                os.replace(temporary, self.full_path(path))
            else:
                with self.filesystem.open_output_stream(self.full_path(path)) as stream:
                    stream.write(data)
            self._delete_side_file(path)

    def move(self, path: str, target: str) -> None:
        """Give a complete file another name, which nobody else takes; a local one is synced to disk before.

        Raises:
            MissingFileError: there is no such file.
        """
        with storage_errors(path):
            if self.is_local:
                with open(self.full_path(path), "rb+") as stream:
                    os.fsync(stream.fileno())
            self.filesystem.move(self.full_path(path), self.full_path(target))

    def delete(self, path: str, *, missing_ok: bool = True) -> None:
        """Delete a file and its `.crc` side file."""
        try:
            with storage_errors(path):
                self.filesystem.delete_file(self.full_path(path))
        except MissingFileError:
            if not missing_ok:
                raise
        self._delete_side_file(path)

    def delete_dir(self, path: str) -> None:
        """Delete a folder with all that it holds; no error when it is not there."""
        with storage_errors(path), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.full_path(path))

    def _entry(self, info: Any) -> FileEntry:
        path = info.path[len(self.base) :].lstrip("/")
        nanoseconds = info.mtime_ns or 0
        return FileEntry(path, info.size or 0, nanoseconds // 1_000_000, info.type == fs.FileType.Directory)

    def _make_parent(self, path: str) -> None:
        if not isinstance(self.filesystem, fs.S3FileSystem):
            self.filesystem.create_dir(posixpath.dirname(self.full_path(path)), recursive=True)

    def _create_local(self, target: str, data: bytes) -> None:
        temporary = _temporary_beside(target)
        try:
            _write_synced(temporary, data)
            os.link(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _delete_side_file(self, path: str) -> None:
        folder, name = posixpath.split(path)
        with contextlib.suppress(OSError):
            self.filesystem.delete_file(self.full_path(posixpath.join(folder, f".{name}.crc")))


def _resolve(uri: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    try:
        if "://" not in uri and not uri.startswith("file:"):
            return fs.LocalFileSystem(), os.path.abspath(uri)
        if uri.startswith("file:"):
            path = uri[len("file:") :]
            return fs.LocalFileSystem(), "/" + path.lstrip("/")
        if uri.startswith(("s3://", "s3a://")):
            return fs.S3FileSystem(**options), uri.split("://", 1)[1]
        if uri.startswith("gs://"):
            return fs.GcsFileSystem(**options), uri.split("://", 1)[1]
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"{uri}: cannot open this storage: {error}") from error
    return filesystem, path.rstrip("/")


def _is_side_file(name: str) -> bool:
    return (name.startswith(".") and name.endswith(".crc")) or name.startswith("._")


def _temporary_beside(target: str) -> str:
    folder = os.path.dirname(target)
    # not longer than what it becomes: names have a limit
    return os.path.join(folder, f".tmp-{uuid.uuid4().hex}.crc")


def _write_synced(path: str, data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
