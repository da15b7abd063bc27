"""Copying byte ranges from one file to another, by the kernel where both are local."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Protocol

import pyarrow as pa

from table_format.errors import CorruptFileError, StorageError
from table_format.storage import Storage, storage_errors

_LARGEST_RANGE = 1 << 30
_READ_AT_ONCE = 16 << 20
_MEMORY_PAGES = (1 << 16, 1 << 14, 1 << 12)
_WORTH_PAGES = 256
_MOST_QUEUED = 32 << 20  # bytes of encoded chunks that wait for a thread that writes


class Source(Protocol):
    """A file or buffer to read byte ranges from.

    Attributes:
        size: bytes.
    """

    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""


class MemorySource:
    """A buffer with a Parquet file that was just encoded."""

    def __init__(self, buffer: pa.Buffer) -> None:
        self.buffer = buffer
        self.size: int = buffer.size

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        return bytes(self.view(offset, size))

    def view(self, offset: int, size: int) -> memoryview:
        """`read` without a copy."""
        return memoryview(self.buffer)[offset : offset + size]


class LocalSource:
    """A local file."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.size: int = os.fstat(descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        parts = []
        while size > 0:
            with storage_errors(self.path):
                part = os.pread(self.descriptor, size, offset)
            if not part:
                raise CorruptFileError(self.path, offset, "the file ends early")
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class StreamSource:
    """A file of an object store or another file system."""

    def __init__(self, stream: Any, path: str) -> None:
        self.stream = stream
        self.path = path
        self.size: int = stream.size()

    def read(self, offset: int, size: int) -> bytes:
        """Read exactly `size` bytes at `offset`."""
        data = bytes(self.stream.read_at(size, offset))
        if len(data) != size:
            raise CorruptFileError(self.path, offset + len(data), "the file ends early")
        return data


class Target:
    """A file that is written from its start to its end.

    Adjacent copies are made as one, so that whole runs of row groups go in one call or request.

    Args:
        descriptor: of a local file; None for another.
        stream: of a file that is not local.
        path: of the file.
        pool: a thread that writes while the caller goes on; None to write in the caller's.

    Attributes:
        position: bytes written so far, or queued.
        copied: bytes of them that were copied from another file.
    """

    def __init__(self, descriptor: int | None, stream: Any, path: str, pool: ThreadPoolExecutor | None = None) -> None:
        self.position = 0
        self.copied = 0
        self.path = path
        self._descriptor = descriptor
        self._stream = stream
        self._pool = pool
        self._pending: tuple[Source, int, int] | None = None
        self._queue: deque[tuple[Future[None], int]] = deque()
        self._queued = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self.flush()
        self.position += len(data)
        self._do(len(data), self._put, data)

    def copy(self, source: Source, offset: int, size: int) -> None:
        """Append a range of another file."""
        if isinstance(source, MemorySource):
            self.write(source.view(offset, size))
            return
        self.position += size
        self.copied += size
        if self._pending is not None:
            pending, start, length = self._pending
            if pending is source and start + length == offset:
                self._pending = (source, start, length + size)
                return
            self.flush()
        self._pending = (source, offset, size)

    def expect(self, size: int) -> None:
        """Reserve room for about so many bytes, at once rather than page by page: copying then takes a quarter less.

        Another size is no error; what is reserved in excess is given back when the file is closed.
        """
        if self._descriptor is not None:
            reserve(self._descriptor, size)

    def align(self, source: Source, offset: int, size: int) -> None:
        """Pad so that the next copy, of `size` bytes, has the same offset within a memory page in both files.

        The kernel then copies whole pages of up to 64 KiB; otherwise it takes 1.4 times as long. The padding is at most
        a 256th of the copy; there is none where the copy continues the one before, or the kernel does not copy.
        """
        page = next((page for page in _MEMORY_PAGES if size >= page * _WORTH_PAGES), None)
        if page is None or self._descriptor is None or not isinstance(source, LocalSource):
            return
        if self._pending is None or self._pending[0] is not source or sum(self._pending[1:]) != offset:
            self.write(bytes((offset - self.position) % page))

    def flush(self) -> None:
        """Start the pending copy."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._do(0, self._copy, *pending)

    def finish(self) -> None:
        """Wait until all is written; raises what went wrong."""
        self.flush()
        while self._queue:
            self._wait()

    def _do(self, held: int, action: Callable[..., None], *arguments: Any) -> None:
        """Write, after what was written before: now, or in the pool while bytes of memory are held for it."""
        if self._pool is None:
            action(*arguments)
            return
        self._queue.append((self._pool.submit(action, *arguments), held))
        self._queued += held
        while self._queue and (self._queued > _MOST_QUEUED or self._queue[0][0].done()):
            self._wait()

    def _wait(self) -> None:
        written, held = self._queue.popleft()
        written.result()
        self._queued -= held

    def _copy(self, source: Source, offset: int, size: int) -> None:
        if self._descriptor is not None and isinstance(source, LocalSource):
            copied = _copied_by_kernel(source.descriptor, self._descriptor, offset, size)
            offset, size = offset + copied, size - copied
        while size > 0:
            part = min(size, _READ_AT_ONCE)
            self._put(source.read(offset, part))
            offset, size = offset + part, size - part

    def _put(self, data: bytes | memoryview) -> None:
        if self._descriptor is None:
            self._stream.write(data)
            return
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def _copied_by_kernel(source: int, target: int, offset: int, size: int) -> int:
    """How many bytes the kernel has copied; 0 where it cannot copy between these two files."""
    copy = getattr(os, "copy_file_range", None)  # Linux only
    done = 0
    while copy is not None and done < size:
        try:
            # The first piece ends with a page, so that the kernel need not cut those that follow.
            piece = _LARGEST_RANGE if done else _MEMORY_PAGES[0] - offset % _MEMORY_PAGES[0]
            count = copy(source, target, min(size - done, piece), offset + done)
        except OSError:
            break  # the plain way comes upon the same error, if it is one
        if count == 0:
            break
        done += count
    return done


def reserve(descriptor: int, size: int) -> bool:
    """Allocate the first bytes of a file; False where the system cannot, which is no error."""
    allocate = _fallocate()
    return allocate is not None and size > 0 and allocate(descriptor, 0, 0, size) == 0


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Linux's own call: `os.posix_fallocate` writes into each block on file systems that cannot allocate."""
    library: Any = ctypes.CDLL(None) if os.name == "posix" else None
    allocate = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if allocate is None:
        return None
    allocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    allocate.restype = ctypes.c_int
    call: Callable[[int, int, int, int], int] = allocate
    return call


@contextlib.contextmanager
def open_source(storage: Storage, path: str) -> Iterator[Source]:
    """A file of a table, to read ranges of.

    Raises:
        MissingFileError: there is no such file.
        StorageError: it cannot be read.
    """
    if not storage.is_local:
        with storage.open_input(path) as stream:
            yield StreamSource(stream, path)
        return
    with storage_errors(path):
        descriptor = os.open(storage.full_path(path), os.O_RDONLY)
    try:
        yield LocalSource(descriptor, path)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_target(storage: Storage, path: str, *, background: bool = False) -> Iterator[Target]:
    """Open a file of a table to write it; it is deleted when something fails.

    Args:
        storage: the table's.
        path: of the file.
        background: write a local file in a thread of its own.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        with storage_errors(path), _opened(storage, path, background=background) as target:
            yield target
    except BaseException:
        with contextlib.suppress(StorageError):
            storage.delete(path)
        raise


@contextlib.contextmanager
def _opened(storage: Storage, path: str, *, background: bool) -> Iterator[Target]:
    if not storage.is_local:
        with storage.open_output(path) as stream:
            target = Target(None, stream, path)
            yield target
            target.finish()
        return
    full = storage.full_path(path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    pool = ThreadPoolExecutor(1) if background else None
    target = Target(descriptor, None, path, pool)
    try:
        yield target
        target.finish()
        os.ftruncate(descriptor, target.position)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        os.close(descriptor)
