"""Files of one table behind one small interface, over `pyarrow.fs` (local, S3, GCS, HDFS).

All paths are relative to the table's base folder, with `/` between their parts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import stat
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from table_format.errors import (
    AlreadyExistsError,
    ArgumentError,
    MissingFileError,
    NoSpaceError,
    StorageError,
    UnusablePathError,
)

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_UNUSABLE: Final = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
# An object store's refusals have no errno; Arrow's message has the name by which the AWS SDK calls them.
_REFUSED: Final = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|NO_SUCH_BUCKET)\b"
)
# By the names of Arrow; a file there is visible when its upload is complete, and a rename is a copy.
_OBJECT_STORES: Final = ("s3", "gcs", "abfs")
_SCHEMES: Final = ("s3", "s3a", "s3n", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "http", "https")
# As many deletes are done one after the other.
_FEW_DELETES: Final = 64
_DELETING_THREADS: Final = 16


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


@dataclass(frozen=True, slots=True)
class StorageCall:
    """A storage call that is still waiting for an answer.

    Attributes:
        place: the path or URI of the call.
        since: start of the call, in seconds of `time.monotonic`.
        thread: `threading.get_ident` of the waiting thread.
    """

    place: str
    since: float
    thread: int


_CALLS: Final[dict[_Call, tuple[str, float, int]]] = {}


def unanswered_calls(seconds: float) -> list[StorageCall]:
    """Storage calls of this process that have waited at least that many seconds, oldest first."""
    oldest = time.monotonic() - seconds
    late = [StorageCall(*call) for call in list(_CALLS.values()) if call[1] <= oldest]
    return sorted(late, key=lambda call: call.since)


@contextlib.contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Convert errors of the operating system into ours, which name the file.

    Args:
        path: the file, relative to the base folder.

    Raises:
        StorageError: the body of the `with` statement failed; `NoSpaceError` if the disk is full, `UnusablePathError`
            if the path is refused for good.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        _raise_as_ours(path, error)
        raise


@contextlib.contextmanager
def stream_errors(path: str) -> Iterator[None]:
    """`storage_errors` for writes to an open stream, where a `ValueError` is not about the path and stays."""
    try:
        yield
    except OSError as error:
        _raise_as_ours(path, error)
        raise


def _raise_as_ours(path: str, error: BaseException | None) -> None:
    """Raise an error of the operating system as one of ours; return for other errors."""
    if error is None or isinstance(error, StorageError):
        return
    if isinstance(error, FileNotFoundError):
        raise MissingFileError(f"{path}: no such file") from error
    if isinstance(error, FileExistsError):
        raise AlreadyExistsError(f"{path}: exists already") from error
    if isinstance(error, OSError):
        if error.errno == errno.ENAMETOOLONG:
            raise UnusablePathError(f"{path}: the file system takes no name or path of this length") from error
        if error.errno in _FULL:
            raise NoSpaceError(f"{path}: no space left on the file system, or for this user; free some") from error
        is_lasting = error.errno in _UNUSABLE or _REFUSED.search(str(error))
        kind = UnusablePathError if is_lasting else StorageError
        raise kind(f"{path}: {error}") from error
    if isinstance(error, ValueError):  # the path has a NUL character
        raise UnusablePathError(f"{path}: {error}") from error


class _Call:
    """A storage call: converts errors, and is listed by `unanswered_calls` while it lasts."""

    __slots__ = ("_path", "_place")

    def __init__(self, path: str, place: str) -> None:
        self._path, self._place = path, place

    def __enter__(self) -> None:
        _CALLS[self] = (self._place, time.monotonic(), threading.get_ident())

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del _CALLS[self]
        _raise_as_ours(self._path, error)


class Storage:
    """The files below one base folder.

    Instances pickle (by URI and options), so that Spark workers open the same place.

    Args:
        uri: base folder; a plain path, or a URI that `pyarrow.fs` knows (`file:`, `s3:`, `gs:`, `hdfs:`).
        options: keyword arguments for the `pyarrow.fs` file system class, e.g. `{"endpoint_override": …}` for S3,
            whose endpoint else comes from the variables `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL`.
        within: local folder; symbolic links that lead out of it are refused. None follows all links.
    """

    def __init__(
        self, uri: str | os.PathLike[str], options: Mapping[str, Any] | None = None, within: str | None = None
    ) -> None:
        if not isinstance(uri, (str, os.PathLike)):
            raise ArgumentError(f"the place of a table is a path or a URI, not a {type(uri).__name__}: {uri!r}")
        if not os.fspath(uri).strip():
            raise ArgumentError("the place of a table is empty: give a path or a URI")
        if options is not None and not isinstance(options, Mapping):
            raise ArgumentError(f"storage options are a dict of arguments for pyarrow.fs, not {options!r}")
        self.uri = os.fspath(uri).rstrip("/") or "/"
        self.within = within
        self._real_within: str | None = None
        self.options = dict(options or {})
        self.filesystem, self.base = _resolve(self.uri, self.options)
        self.is_local = isinstance(self.filesystem, fs.LocalFileSystem)

    def __reduce__(self) -> tuple[type[Storage], tuple[str, dict[str, Any], str | None]]:
        return type(self), (self.uri, self.options, self.within)

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    def sub(self, path: str) -> Storage:
        """The storage rooted at a folder below this one."""
        return type(self)(f"{self.uri}/{path}", self.options, self.within)

    def full_path(self, path: str) -> str:
        """The path that `self.filesystem` understands."""
        return f"{self.base}/{path}" if path else self.base

    def full_uri(self, path: str) -> str:
        """The path as a URI for other programs (Spark, Hive, Trino); local paths get `file:`."""
        whole = f"{self.uri}/{path}" if path else self.uri
        return whole if "://" in whole or whole.startswith("file:") else f"file:{os.path.abspath(whole)}"

    def read(self, path: str) -> bytes:
        """The whole content of a file.

        Raises:
            MissingFileError: there is no such file.
        """
        with self._call(path), self._opened(path) as stream:
            return bytes(stream.readall())

    def read_range(self, path: str, offset: int, length: int) -> memoryview:
        """Up to `length` bytes from `offset` on, in memory of Arrow's pool, which one read after the other reuses."""
        with self._call(path), self._opened(path) as stream:
            stream.seek(offset)
            return memoryview(stream.read_buffer(length)).cast("B")

    def open_input(self, path: str) -> Any:
        """A seekable `pyarrow.NativeFile`."""
        with self._call(path):
            return self._opened(path)

    def open_output(self, path: str) -> Any:
        """A `pyarrow.NativeFile` for writing, which truncates an existing file; parent folders are created."""
        with self._call(path):
            self._make_parent(path)
            return self.filesystem.open_output_stream(self.full_path(path))

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that name exists."""
        with self._call(path):
            return bool(self.filesystem.get_file_info(self.full_path(path)).type != fs.FileType.NotFound)

    def is_dir(self, path: str) -> bool:
        """Whether a folder of that name exists."""
        with self._call(path):
            return bool(self.filesystem.get_file_info(self.full_path(path)).type == fs.FileType.Directory)

    def entry(self, path: str) -> FileEntry | None:
        """Size and time of a file or folder; None if there is none."""
        with self._call(path):
            info = self.filesystem.get_file_info(self.full_path(path))
        return None if info.type == fs.FileType.NotFound else self._entry(info)

    def folders(self, path: str = "") -> list[str]:
        """Names of subfolders, and of links that may lead to folders; links are not followed.

        Following them would wait for each, and one may be a mount that does not respond.
        """
        if not self.is_local:
            return [entry.name for entry in self.list(path) if entry.is_dir]
        with self._call(path), os.scandir(self.full_path(path)) as entries:
            subfolders = [entry for entry in entries if entry.is_symlink() or entry.is_dir(follow_symlinks=False)]
            return sorted(entry.name for entry in subfolders if not _is_side_file(entry.name))

    def check_folder(self, path: str = "") -> None:
        """Check that a local folder can be listed and what is in it be opened; no error for folders of other stores.

        Raises:
            StorageError: it cannot.
        """
        if self.is_local:
            # The dot is an entry of the folder, so that this needs the rights to list it and to pass through it.
            with self._call(path), os.scandir(f"{self.full_path(path)}/."):
                pass

    def list(self, path: str = "", *, recursive: bool = False) -> list[FileEntry]:
        """Entries of a folder by name, without Hadoop's `.crc` side files; empty if the folder does not exist."""
        with self._call(path):
            self.check_within(path)
            selector = fs.FileSelector(self.full_path(path), recursive=recursive, allow_not_found=True)
            infos = self.filesystem.get_file_info(selector)
        entries = [self._entry(info) for info in infos if not _is_side_file(info.base_name)]
        return sorted(entries, key=lambda entry: entry.path)

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents; no error if it exists."""
        with self._call(path):
            self.filesystem.create_dir(self.full_path(path), recursive=True)

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist; its content is complete as soon as its name is visible.

        On local file systems this is a hard link of a synced temporary file, which is atomic and exclusive. On HDFS and
        others a temporary file is renamed. Object stores publish an upload atomically, but `pyarrow.fs` has no
        conditional put: there, and where a rename replaces files, exclusion depends on the table lock.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        with self._call(path):
            self._make_parent(path)
            if self.is_local:
                with _temporary_file(self.full_path(path), data, synced=True) as temporary:
                    os.link(temporary, self.full_path(path))
                return
            if self.exists(path):
                raise AlreadyExistsError(f"{path}: exists already")
            if self.filesystem.type_name in _OBJECT_STORES:
                self._write(self.full_path(path), data)
                return
            temporary = _temporary_name(self.full_path(path))
            try:
                self._write(temporary, data)
                self.filesystem.move(temporary, self.full_path(path))
            except BaseException:
                with contextlib.suppress(OSError):
                    self.filesystem.delete_file(temporary)
                raise

    def overwrite(self, path: str, data: bytes, *, synced: bool = True) -> None:
        """Replace a file, or create it, and drop the stale `.crc` that a Hadoop client may have left beside it.

        Args:
            path: of the file.
            data: its new content.
            synced: on local file systems, whether the content must survive a crash of the machine.
        """
        with self._call(path):
            self._make_parent(path)
            if self.is_local:
                with _temporary_file(self.full_path(path), data, synced=synced) as temporary:
                    os.replace(temporary, self.full_path(path))
            else:
                self._write(self.full_path(path), data)
            self._delete_side_file(path)

    def touch(self, path: str, epoch_s: float | None = None) -> None:
        """Set a file's time of last modification.

        Args:
            path: of the file. On local file systems only its time changes; elsewhere it is rewritten.
            epoch_s: seconds since the epoch; None for the file system's now. Where files are rewritten it is
                always now.

        Raises:
            MissingFileError: there is no such file.
        """
        with self._call(path):
            if self.is_local:
                os.utime(self.full_path(path), None if epoch_s is None else (epoch_s, epoch_s))
            elif epoch_s is None:
                self.overwrite(path, self.read(path))

    def move(self, path: str, target: str) -> None:
        """Rename a complete file to a name that nobody else uses; a local file is synced to disk first.

        Raises:
            MissingFileError: there is no such file.
        """
        with self._call(path):
            if self.is_local:
                with open(self.full_path(path), "rb+") as stream:
                    os.fsync(stream.fileno())
            self.filesystem.move(self.full_path(path), self.full_path(target))

    def delete(self, path: str, *, missing_ok: bool = True) -> None:
        """Delete a file and its `.crc` side file."""
        try:
            with self._call(path):
                self.filesystem.delete_file(self.full_path(path))
        except MissingFileError:
            if not missing_ok:
                raise
        self._delete_side_file(path)

    def delete_all(self, paths: Collection[str]) -> None:
        """Delete files, many of them side by side; none of them needs to exist."""
        if len(paths) <= _FEW_DELETES:
            for path in paths:
                self.delete(path)
            return
        with ThreadPoolExecutor(_DELETING_THREADS) as pool:
            list(pool.map(self.delete, paths))

    def delete_dir(self, path: str) -> None:
        """Delete a folder with its content; no error if it does not exist."""
        with self._call(path), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.full_path(path))

    def _write(self, whole: str, data: bytes) -> None:
        with self.filesystem.open_output_stream(whole) as stream:
            stream.write(data)

    def _call(self, path: str) -> _Call:
        return _Call(path or self.uri, self.full_path(path))

    def _opened(self, path: str) -> Any:
        """Open a file; refuses a folder, and a FIFO, on which the open would block for ever."""
        if self.is_local:
            self.check_within(path)
            self.check_regular(path)
        return self.filesystem.open_input_file(self.full_path(path))

    def check_regular(self, path: str) -> None:
        """Refuse a local folder, and a FIFO, on which opening would block for ever, in place of a file.

        Raises:
            FileNotFoundError: there is nothing.
            UnusablePathError: it is no regular file.
        """
        if not self.is_local:
            return
        whole = self.full_path(path)
        mode = os.stat(whole).st_mode
        if not stat.S_ISREG(mode):
            kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
            kind = kinds.get(stat.S_IFMT(mode), "a device or a socket")
            raise UnusablePathError(f"{whole}: {kind} is where a regular file belongs; move it away")

    def check_within(self, path: str) -> None:
        """Refuse a file or folder that lies outside of `within` once symbolic links are resolved.

        A user who may change links between this check and the opening of the file can get past it.

        Raises:
            UnusablePathError: it lies outside.
        """
        if self.within is None or not self.is_local:
            return
        whole = self.full_path(path)
        real = os.path.realpath(whole)
        if self._real_within is None or not _is_below(real, self._real_within):
            self._real_within = os.path.realpath(self.within)  # it may be a link itself, and lead elsewhere now
            if not _is_below(real, self._real_within):
                raise UnusablePathError(f"{whole}: a symbolic link leads to {real}, which is outside of {self.within}")

    def _entry(self, info: Any) -> FileEntry:
        path = info.path[len(self.base) :].lstrip("/")
        nanoseconds = info.mtime_ns or 0
        return FileEntry(path, info.size or 0, nanoseconds // 1_000_000, info.type == fs.FileType.Directory)

    def _make_parent(self, path: str) -> None:
        if not isinstance(self.filesystem, fs.S3FileSystem):
            self.filesystem.create_dir(posixpath.dirname(self.full_path(path)), recursive=True)

    def _delete_side_file(self, path: str) -> None:
        folder, name = posixpath.split(path)
        with contextlib.suppress(OSError):
            self.filesystem.delete_file(self.full_path(posixpath.join(folder, f".{name}.crc")))


def _resolve(uri: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    if uri.startswith("file:") and not uri.startswith("file:/"):
        raise ArgumentError(f"{uri}: a file: URI names an absolute path; give a relative one without file:")
    scheme, colon, rest = uri.partition(":")
    if colon and scheme.lower() in _SCHEMES and not rest.startswith("//"):
        place = rest.lstrip("/")
        raise ArgumentError(f"{uri}: such a URI has two slashes: {scheme}://{place}; a folder of that name is ./{uri}")
    try:
        if "://" not in uri and not uri.startswith("file:"):
            return fs.LocalFileSystem(), os.path.abspath(uri)
        if uri.startswith("file:"):
            path = re.sub("^//localhost/", "/", uri[len("file:") :])
            return fs.LocalFileSystem(), "/" + path.lstrip("/")
        if uri.startswith(("s3://", "s3a://")):
            return fs.S3FileSystem(**{**_s3_endpoint(), **options}), uri.split("://", 1)[1]
        if uri.startswith("gs://"):
            return fs.GcsFileSystem(**options), uri.split("://", 1)[1]
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"{uri}: cannot open this storage: {error}") from error
    return filesystem, path.rstrip("/")


def _s3_endpoint() -> dict[str, str]:
    """The endpoint that AWS's own variables name, which `S3FileSystem` reads from URIs alone."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {"endpoint_override": url} if url else {}


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_side_file(name: str) -> bool:
    return (name.startswith(".") and name.endswith(".crc")) or name.startswith("._")


def _temporary_name(target: str) -> str:
    """A name beside the target that listings leave out; not longer than names of ours, as file systems limit them."""
    return posixpath.join(posixpath.dirname(target), f".tmp-{uuid.uuid4().hex}.crc")


@contextlib.contextmanager
def _temporary_file(target: str, data: bytes, *, synced: bool) -> Iterator[str]:
    """A temporary file beside the target with its content; deleted on exit unless it was renamed."""
    path = _temporary_name(target)
    try:
        with open(path, "wb") as stream:
            stream.write(data)
            stream.flush()
            if synced:
                os.fsync(stream.fileno())
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
