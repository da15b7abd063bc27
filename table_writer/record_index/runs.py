"""Runs: files with the keys of some file slices, sorted by file group of the index.

Building an index, and comparing one with the data, needs all keys of one file group of the index side by side, while a
file slice has keys of them all. Tasks that read slices write runs; tasks of file groups read their part of each run. A
run counts once its manifest exists, so finished work is not repeated after a crash.
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
from table_writer.metadata.key_source import KeyReader, KeySource

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
        batches: ordinal of a file group of the index, rows, and number of the record batch with these rows; a group
            may have several batches.
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
        """The run that a manifest describes.

        Raises:
            CorruptFileError: it is not a manifest.
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
    """Read the keys of some slices into a run.

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
                raise RecordIndexError(f"the record index has no file groups for {partition!r}; rebuild it")
            yield keys, numbers, groups

    return save_run(storage, folder, [source.identity for source in sources], portions())


def save_run(
    storage: Storage, folder: str, sources: Sequence[str], portions: Iterable[tuple[Any, Numbers, Numbers]]
) -> Run:
    """Write a run.

    Args:
        storage: where runs lie.
        folder: in that storage.
        sources: identities of what the keys come from.
        portions: keys, the ordinal of each key's source, and the ordinal of its file group.
    """
    path = posixpath.join(folder, f"{uuid.uuid4().hex}.arrow")  # each attempt writes a file of its own
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
    """Finished runs in a folder, by name."""
    manifests = [entry.path for entry in storage.list(folder) if entry.path.endswith(_MANIFEST)]
    return [Run.from_json(storage.read(path), path) for path in manifests]


@dataclass(frozen=True)
class RunSet:
    """The runs that hold the keys of some slices, each slice once; small when pickled for tasks.

    Attributes:
        runs: those with keys that count.
        numbers: for each run, the ordinal of each of its sources among the slices of the set; -1 where the slice is
            not in the set, or another run holds it.
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
            held = [wanted.pop(identity, -1) for identity in run.sources]
            if any(number >= 0 for number in held):
                chosen.append(run)
                numbers.append(tuple(held))
        return cls(tuple(chosen), tuple(numbers)), [sources[number] for number in sorted(wanted.values())]

    @property
    def rows(self) -> int:
        """Keys of all slices together."""
        pairs = zip(self.runs, self.numbers, strict=True)
        return sum(
            rows for run, numbers in pairs for rows, number in zip(run.rows, numbers, strict=True) if number >= 0
        )

    def group_keys(self, storage: Storage, group: int) -> tuple[pa.BinaryArray, Numbers]:
        """The keys of one file group of the index, with the ordinal of the slice of each.

        Raises:
            RecordIndexError: a run is missing.
            CorruptFileError: a run is broken.
        """
        keys: list[Any] = [pa.array([], pa.binary())]
        slices = [np.empty(0, dtype=np.int32)]
        for run, numbers in zip(self.runs, self.numbers, strict=True):
            batches = [number for owner, _, number in run.batches if owner == group]
            for batch in _read(storage, run.path, batches) if batches else ():
                ordinals = np.asarray(numbers, dtype=np.int32)[to_numpy(batch.column(1))]
                batch_keys: Any = batch.column(0)
                if (ordinals < 0).any():
                    batch_keys, ordinals = batch_keys.filter(from_numpy(ordinals >= 0)), ordinals[ordinals >= 0]
                keys.append(batch_keys)
                slices.append(ordinals)
        return pa.concat_arrays(keys), np.concatenate(slices)


def _read(storage: Storage, path: str, batches: Sequence[int]) -> list[pa.RecordBatch]:
    try:
        with storage.open_input(path) as stream:
            file = pa.ipc.open_file(stream)
            return [file.get_batch(number) for number in batches]
    except MissingFileError as error:
        raise RecordIndexError(
            f"{path}: another process finished or cleared this build meanwhile; run it again"
        ) from error
    except pa.ArrowException as error:
        raise CorruptFileError(path, 0, f"a broken run; delete its folder and run it again ({error})") from error


def _portions(reader: KeyReader, sources: Sequence[KeySource]) -> Iterator[tuple[Any, Numbers]]:
    """Keys with the ordinal of their source, a bounded number of rows and bytes at a time."""
    keys: list[Any] = []
    numbers: list[Numbers] = []
    rows = size = 0
    for number, source in enumerate(sources):
        for batch in reader.batches(source):
            keys.append(batch)
            numbers.append(np.full(len(batch), number, dtype=np.int32))
            rows, size = rows + len(batch), size + batch.nbytes
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
    present, first = np.unique(groups[order], return_index=True)
    ends = np.append(first[1:], len(order)).tolist()
    batch = pa.record_batch([keys.take(from_numpy(order)), from_numpy(numbers[order])], schema=_SCHEMA)
    for group, start, end in zip(present.tolist(), first.tolist(), ends, strict=True):
        yield group, batch.slice(start, end - start)


def _partitions(numbers: Numbers, sources: Sequence[KeySource]) -> Any:
    """The data partition of each key."""
    names: Mapping[str, int] = {name: at for at, name in enumerate(dict.fromkeys(s.partition for s in sources))}
    codes = np.array([names[source.partition] for source in sources], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(from_numpy(codes[numbers]), pa.array(list(names), pa.string()))
