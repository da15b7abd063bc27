"""Runs: files with the keys of some file slices, sorted by file group of the index.

Building an index, and comparing one with the data, needs all keys of one file group of the index side by side, while a
file slice has keys of them all. Tasks that read slices leave runs; tasks of file groups read their part of each. A run
counts from the moment that its manifest is there, so that whatever is finished need not be read again after a crash.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, to_numpy
from table_format.errors import CorruptFileError, MissingFileError, RecordIndexError
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.storage import Storage, stream_errors
from table_writer.record_index.key_source import KeyReader, KeySource

_COLUMNS: Final[dict[str, pa.DataType]] = {"key": pa.binary(), "source": pa.int32()}
_SCHEMA: Final = pa.schema(_COLUMNS)
_ROWS_AT_ONCE: Final = 2_000_000
_BYTES_AT_ONCE: Final = 256 << 20
_MANIFEST: Final = ".json"
_FEW_GROUPS: Final = 1 << 16

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        path: in the storage of runs.
        sources: identities of the slices whose keys it holds.
        rows: keys of each of them.
        batches: ordinal of a file group of the index, its rows, and the number of the record batch that holds them; a
            group may come more than once.
    """

    path: str
    sources: tuple[str, ...]
    rows: tuple[int, ...]
    batches: tuple[tuple[int, int, int], ...]

    def to_json(self) -> bytes:
        """The manifest."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes, path: str) -> Run:
        """The run of a manifest.

        Raises:
            CorruptFileError: it is none.
        """
        try:
            content = json.loads(data)
            batches = tuple((int(group), int(rows), int(number)) for group, rows, number in content["batches"])
            sources, rows = tuple(map(str, content["sources"])), tuple(map(int, content["rows"]))
            return cls(str(content["path"]), sources, rows, batches)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(path, 0, f"no manifest of a run; delete its folder ({error!r})") from error


def write_run(
    reader: KeyReader, layout: IndexLayout, storage: Storage, folder: str, sources: Sequence[KeySource]
) -> Run:
    """Read the keys of some slices into a run; what one task does.

    Args:
        reader: of the table.
        layout: of the index.
        storage: where runs lie.
        folder: in that storage.
        sources: the slices.

    Raises:
        CorruptFileError: a data file cannot be read.
        RecordIndexError: the index has no file groups for a partition.
    """

    def portions() -> Iterator[tuple[Any, Numbers, Numbers]]:
        for keys, numbers in _portions(reader, sources):
            groups = layout.group_of(keys, _partitions(numbers, sources))
            if (groups < 0).any():
                partition = sources[int(numbers[np.argmin(groups)])].partition
                raise RecordIndexError(f"the record index has no file groups for {partition!r}; build it anew")
            yield keys, numbers, groups

    return save_run(storage, folder, [source.identity for source in sources], portions())


def save_run(
    storage: Storage, folder: str, sources: Sequence[str], portions: Iterable[tuple[Any, Numbers, Numbers]]
) -> Run:
    """Write a run.

    Args:
        storage: where runs lie.
        folder: in that storage.
        sources: what the keys are from.
        portions: keys, the number of each one's source, and the ordinal of its file group.
    """
    path = posixpath.join(folder, f"{uuid.uuid4().hex}.arrow")  # another one for each attempt
    counts = np.zeros(len(sources), dtype=np.int64)
    batches: list[tuple[int, int, int]] = []
    with stream_errors(path), storage.open_output(path) as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for keys, numbers, groups in portions:
            counts += np.bincount(numbers, minlength=len(sources))
            for group, batch in _spread(keys, numbers, groups):
                writer.write_batch(batch)
                batches.append((group, batch.num_rows, len(batches)))
    run = Run(path, tuple(sources), tuple(counts.tolist()), tuple(batches))
    storage.create(path + _MANIFEST, run.to_json())
    return run


def finished_runs(storage: Storage, folder: str) -> list[Run]:
    """The runs in a folder that were finished, by name."""
    manifests = [entry.path for entry in storage.list(folder) if entry.path.endswith(_MANIFEST)]
    return [Run.from_json(storage.read(path), path) for path in manifests]


@dataclass(frozen=True)
class RunSet:
    """The runs that hold the keys of some slices, each slice once; pickles small enough to go with a task.

    Attributes:
        runs: those of which something counts.
        numbers: for each run and each of its sources the slice's number in what the set was made for; -1 where the
            slice is no longer wanted, or another run holds it.
    """

    runs: tuple[Run, ...]
    numbers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, runs: Sequence[Run], sources: Sequence[KeySource]) -> tuple[RunSet, list[KeySource]]:
        """Choose from some runs.

        Returns:
            The set, and the slices that no run holds.
        """
        wanted = {source.identity: number for number, source in enumerate(sources)}
        chosen, numbers = [], []
        for run in runs:
            found = [wanted.pop(identity, -1) for identity in run.sources]
            if any(number >= 0 for number in found):
                chosen.append(run)
                numbers.append(tuple(found))
        return cls(tuple(chosen), tuple(numbers)), [sources[number] for number in sorted(wanted.values())]

    @property
    def rows(self) -> int:
        """Keys of all slices together."""
        pairs = zip(self.runs, self.numbers, strict=True)
        return sum(
            rows for run, numbers in pairs for rows, number in zip(run.rows, numbers, strict=True) if number >= 0
        )

    def group_keys(self, storage: Storage, group: int) -> tuple[pa.BinaryArray, Numbers]:
        """The keys that belong into one file group of the index, with the number of the slice of each.

        Raises:
            RecordIndexError: a run is gone.
            CorruptFileError: a run is broken.
        """
        keys: list[Any] = [pa.array([], pa.binary())]
        slices = [np.empty(0, dtype=np.int32)]
        for run, numbers in zip(self.runs, self.numbers, strict=True):
            batches = [number for of, _, number in run.batches if of == group]
            for batch in _read(storage, run.path, batches) if batches else ():
                found = np.asarray(numbers, dtype=np.int32)[to_numpy(batch.column(1))]
                left: Any = batch.column(0)
                if (found < 0).any():
                    left, found = left.filter(from_numpy(found >= 0)), found[found >= 0]
                keys.append(left)
                slices.append(found)
        return pa.concat_arrays(keys), np.concatenate(slices)


def _read(storage: Storage, path: str, batches: Sequence[int]) -> list[pa.RecordBatch]:
    try:
        with storage.open_input(path) as stream:
            file = pa.ipc.open_file(stream)
            return [file.get_batch(number) for number in batches]
    except MissingFileError as error:
        raise RecordIndexError(
            f"{path}: another process finished or cleared this build meanwhile; start anew"
        ) from error
    except pa.ArrowException as error:
        raise CorruptFileError(path, 0, f"a broken run; delete its folder and start anew ({error})") from error


def _portions(reader: KeyReader, sources: Sequence[KeySource]) -> Iterator[tuple[Any, Numbers]]:
    """Keys with the number of their source, as many at a time as memory takes."""
    keys: list[Any] = []
    numbers: list[Numbers] = []
    rows = size = 0
    for number, source in enumerate(sources):
        for found in reader.batches(source):
            keys.append(found)
            numbers.append(np.full(len(found), number, dtype=np.int32))
            rows, size = rows + len(found), size + found.nbytes
            if rows >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield pa.concat_arrays(keys), np.concatenate(numbers)
                keys, numbers, rows, size = [], [], 0, 0
    if rows:
        yield pa.concat_arrays(keys), np.concatenate(numbers)


def _spread(keys: Any, numbers: Numbers, groups: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each file group of the index."""
    if not len(groups):
        return
    # sorting short integers takes a tenth of the time
    short = int(groups.max()) < _FEW_GROUPS
    order = np.argsort(groups.astype(np.uint16) if short else groups, kind="stable")
    found, first = np.unique(groups[order], return_index=True)
    ends = np.append(first[1:], len(order)).tolist()
    batch = pa.record_batch([keys.take(from_numpy(order)), from_numpy(numbers[order])], schema=_SCHEMA)
    for group, start, end in zip(found.tolist(), first.tolist(), ends, strict=True):
        yield group, batch.slice(start, end - start)


def _partitions(numbers: Numbers, sources: Sequence[KeySource]) -> Any:
    """The data partition of each key."""
    names: Mapping[str, int] = {name: at for at, name in enumerate(dict.fromkeys(s.partition for s in sources))}
    codes = np.array([names[source.partition] for source in sources], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(from_numpy(codes[numbers]), pa.array(list(names), pa.string()))
