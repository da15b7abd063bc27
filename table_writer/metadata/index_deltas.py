"""Delta files: what one task of a write changes in the record index, sorted by file group of the index.

A file group takes one log file a commit, so tasks cannot write into the index themselves. Each leaves one delta file in
the write's scratch folder; at the commit, the writer of a file group's log reads that group's part of every delta file.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.errors import CorruptFileError, MissingFileError, RecordError, RecordIndexError, TransactionError
from table_format.metadata_table.record_index_layout import GLOBAL, IndexLayout
from table_format.storage import Storage
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA, refuse_long_keys
from table_writer.timeline.markers import scratch_folder

_ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A delta file that a task wrote.

    Attributes:
        path: in the table's storage.
        rows: changes in the file; more than were written where the index has several families of file groups.
        groups: ordinal of a file group in `IndexLayout.groups`, its changes, and the number of the record batch with
            them; a group may have several batches.
    """

    path: str
    rows: int
    groups: tuple[tuple[int, int, int], ...]


def delta_folder(instant: str) -> str:
    """Folder of a write's delta files; deleted with the write's markers."""
    return f"{scratch_folder(instant)}/record_index"


def write_delta(storage: Storage, folder: str, name: str, layout: IndexLayout, changes: pa.Table) -> DeltaFile | None:
    """Write the changes of one task to a delta file, sorted by file group of the index.

    A key that is put goes into the newest family of file groups, and is deleted from the older ones.

    Args:
        storage: of the table.
        folder: see `delta_folder`.
        name: of the files, unique to the attempt of a task.
        layout: of the index.
        changes: schema `CHANGES_SCHEMA`; keys must not be null.

    Returns:
        None when there are no changes.

    Raises:
        RecordError: a key that is null or too long, or a location without partition or file id.
    """
    if not changes.num_rows:
        return None
    changes = changes.select(CHANGES_SCHEMA.names).cast(CHANGES_SCHEMA)
    _check(changes)
    sink = io.BytesIO()
    groups: list[tuple[int, int, int]] = []
    with pa.ipc.new_file(sink, CHANGES_SCHEMA, options=pa.ipc.IpcWriteOptions(compression=_codec())) as writer:
        for number, rows in _batches(changes, layout):
            writer.write_batch(rows)
            groups.append((number, rows.num_rows, len(groups)))
    path = posixpath.join(folder, name)
    storage.create(path, sink.getvalue())
    return DeltaFile(path, sum(rows for _, rows, _ in groups), tuple(groups))


def read_deltas(storage: Storage, files: Iterable[DeltaFile], group: int, *, encoded: bool = False) -> pa.Table:
    """The changes of one file group in some delta files, in the files' order; schema `CHANGES_SCHEMA`.

    Args:
        storage: of the table.
        files: the delta files.
        group: ordinal of the file group.
        encoded: give partitions and file ids as dictionaries, which take a tenth of the memory.

    Raises:
        TransactionError: a delta file is missing: another writer rolled the write back.
        CorruptFileError: a delta file is broken.
    """
    tables = [_encoded(CHANGES_SCHEMA.empty_table()) if encoded else CHANGES_SCHEMA.empty_table()]
    for file in files:
        batches = [where for number, _, where in file.groups if number == group]
        if batches:
            changes = _read(storage, file.path, batches)
            tables.append(_encoded(changes) if encoded else changes)
    return pa.concat_tables(tables).unify_dictionaries()


def deletions(storage: Storage, file: DeltaFile) -> pa.Table:
    """The changes of a delta file that delete keys which it does not put; schema `CHANGES_SCHEMA`.

    Raises:
        TransactionError: as of `read_deltas`.
        CorruptFileError: likewise.
    """
    changes = _read(storage, file.path, range(len(file.groups)))
    gone, puts = changes.filter(changes["deleted"]), changes.filter(pc.invert(changes["deleted"]))
    return gone.filter(pc.invert(pc.is_in(gone["key"], value_set=one_chunk(puts["key"]))))


def _encoded(changes: pa.Table) -> pa.Table:
    for number, name in enumerate(CHANGES_SCHEMA.names):
        if name in ("partition", "file_id"):
            changes = changes.set_column(number, name, changes[name].dictionary_encode())
    return changes


def changed_groups(files: Iterable[DeltaFile]) -> dict[int, int]:
    """Number of changes by file group, ascending, in some delta files."""
    counts: dict[int, int] = {}
    for file in files:
        for number, rows, _ in file.groups:
            counts[number] = counts.get(number, 0) + rows
    return dict(sorted(counts.items()))


# Changes in memory, with the partition and file id of each, until they are written.
_MOST_ROWS = 1 << 18


class DeltaCollector:
    """Collects the keys that one task inserts into files or deletes from them, for a delta file or several.

    Args:
        storage: of the table.
        folder: see `delta_folder`.
        name: of the files, unique to the attempt of a task.
        layout: of the record index; None if the table has none, and nothing is collected.
        most: bytes of changes that are held before they are written; None if their number alone bounds them.
    """

    def __init__(
        self, storage: Storage, folder: str, name: str, layout: IndexLayout | None, most: int | None = None
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._name = name
        self._layout = layout
        self._most = most
        self._size = 0
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._written: list[DeltaFile] = []

    def add(self, partition: str, file_id: str, inserted: Any, deleted: Any) -> None:
        """Add the keys of one file group."""
        if self._layout is None:
            return
        for keys, location in ((inserted, file_id), (deleted, None)):
            for start in range(0, len(keys), _MOST_ROWS):
                some = keys.slice(start, _MOST_ROWS)
                count = len(some)
                columns = [
                    some,
                    _repeated(partition, count),
                    _repeated(location, count),
                    from_numpy(np.full(count, location is None)),
                ]
                self._tables.append(pa.Table.from_arrays(columns, schema=CHANGES_SCHEMA))
                self._rows += count
                self._size += self._tables[-1].nbytes
                if self._rows >= _MOST_ROWS or (self._most is not None and self._size >= self._most):
                    self._flush()

    def write(self) -> tuple[DeltaFile, ...]:
        """Write the remaining keys; returns all delta files, none if no key was added."""
        if self._tables:
            self._flush()
        return tuple(self._written)

    def _flush(self) -> None:
        if self._layout is None:
            return
        name = f"{self._name}-{len(self._written)}"
        delta = write_delta(self._storage, self._folder, name, self._layout, pa.concat_tables(self._tables))
        if delta is not None:
            self._written.append(delta)
        self._tables, self._rows, self._size = [], 0, 0


def _check(changes: pa.Table) -> None:
    placed: Any = pc.and_(pc.is_valid(changes["partition"]), pc.is_valid(changes["file_id"]))
    sound = pc.and_(pc.is_valid(changes["key"]), pc.or_(changes["deleted"], placed))
    if not pc.all(pc.fill_null(sound, False)).as_py():
        raise RecordError("a change of the record index needs a key, and a partition and file id unless it deletes")
    refuse_long_keys(one_chunk(changes["key"]))


def _batches(changes: pa.Table, layout: IndexLayout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The ordinal of a file group, and its changes, a bounded number at a time."""
    for start in range(0, changes.num_rows, _ROWS_AT_ONCE):
        part = changes.slice(start, _ROWS_AT_ONCE)
        groups = layout.groups_of(one_chunk(part["key"]), one_chunk(part["partition"]))
        if layout.scope != GLOBAL:
            _check_partitions(part, groups)
        for number, of_family in enumerate(groups):
            put_here = layout.scope != GLOBAL or number == len(groups) - 1
            yield from _by_group(part if put_here else _as_deletions(part), of_family)


def _check_partitions(changes: pa.Table, groups: Sequence[NDArray[np.int32]]) -> None:
    unplaced = np.flatnonzero(np.max(np.stack(groups), axis=0) < 0)
    if len(unplaced):
        partition = changes["partition"][int(unplaced[0])].as_py()
        raise RecordIndexError(f"the record index, which is kept by partition, has no file group for {partition!r}")


def _as_deletions(changes: pa.Table) -> pa.Table:
    flags = from_numpy(np.ones(changes.num_rows, dtype=np.bool_))
    nothing: Any = pa.nulls(changes.num_rows, pa.string())
    return pa.table([changes["key"], changes["partition"], nothing, flags], schema=CHANGES_SCHEMA)


def _by_group(changes: pa.Table, groups: NDArray[np.int32]) -> Iterator[tuple[int, pa.RecordBatch]]:
    order = np.argsort(groups, kind="stable")
    order = order[np.searchsorted(groups[order], 0) :]  # -1: not of this family
    sorted_rows = changes.take(from_numpy(order))
    start = 0
    for end in (np.flatnonzero(np.diff(groups[order], append=-1)) + 1).tolist():
        columns = [one_chunk(column) for column in sorted_rows.slice(start, end - start).columns]
        yield int(groups[order[start]]), pa.record_batch(columns, schema=CHANGES_SCHEMA)
        start = end


def _read(storage: Storage, path: str, batches: Sequence[int]) -> pa.Table:
    try:
        with storage.open_input(path) as stream, pa.ipc.open_file(stream) as reader:
            selected = [reader.get_batch(number) for number in batches]
    except MissingFileError as error:
        raise TransactionError(
            f"{path}: the changes of the record index are gone: another writer considered this one dead and rolled it "
            "back. Nothing was written, try again; where several writers work at a time, each needs "
            "hoodie.write.concurrency.mode=optimistic_concurrency_control"
        ) from error
    except (pa.ArrowInvalid, IndexError) as error:
        raise CorruptFileError(path, 0, f"a delta file of the record index is broken ({error}); try again") from error
    return pa.Table.from_batches(selected).cast(CHANGES_SCHEMA)


def _codec() -> pa.Codec | None:
    return pa.Codec("lz4") if pa.Codec.is_available("lz4") else None


def _repeated(text: str | None, count: int) -> Any:
    repeat: Any = pa.repeat
    return repeat(pa.scalar(text, pa.string()), count)
