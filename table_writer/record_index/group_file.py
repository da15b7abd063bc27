"""Writing the base file of one file group of the record index from the keys in some runs."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, to_numpy
from table_format.errors import CorruptFileError, StorageError
from table_format.keys.key_order import sorted_order
from table_format.storage import Storage
from table_writer.encoding.record_index_entries import encode_places
from table_writer.metadata.index_options import IndexFileOptions
from table_writer.metadata.key_source import KeySource
from table_writer.record_index.runs import RunSet

EXAMPLES: Final = 5
"""How many keys with a fault are named for each file group of the index."""
_MANIFEST: Final = ".json"
_DUPLICATES_READ: Final = 100


@dataclass(frozen=True)
class SliceLocations:
    """Locations of the records of some file slices: the values of the index for their keys.

    Attributes:
        partitions: of each slice.
        file_ids: of each slice.
        instants_ms: when each slice's base file was written; of several locations of a key the newest counts.
    """

    partitions: tuple[str, ...]
    file_ids: tuple[str, ...]
    instants_ms: tuple[int, ...]

    @classmethod
    def of(cls, sources: Sequence[KeySource], instants_ms: Sequence[int]) -> SliceLocations:
        """Locations of slices, with their instants in milliseconds since the epoch."""
        partitions, file_ids = (tuple(getattr(s, name) for s in sources) for name in ("partition", "file_id"))
        return cls(partitions, file_ids, tuple(instants_ms))

    def ranks(self) -> NDArray[np.int64]:
        """Distinct numbers that order slices by age, the newest last."""
        ranks = np.empty(len(self.file_ids), dtype=np.int64)
        ranks[np.lexsort((np.arange(len(ranks)), np.array(self.instants_ms, dtype=np.int64)))] = np.arange(len(ranks))
        return ranks

    def name(self, number: int) -> str:
        """Partition and file id of a slice, for messages."""
        return posixpath.join(self.partitions[number], self.file_ids[number])


@dataclass(frozen=True)
class DistinctKeys:
    """The keys of one file group of the index, each once.

    Attributes:
        keys: in the order of their bytes.
        numbers: ordinal of the slice of each key; the newest where there are several.
        all_keys: the keys with repetitions, in the order of their bytes.
        all_numbers: ordinals of their slices.
        repeated: rows of `all_keys` with the key of the row before.
    """

    keys: pa.BinaryArray
    numbers: NDArray[np.int32]
    all_keys: pa.BinaryArray
    all_numbers: NDArray[np.int32]
    repeated: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Any, numbers: NDArray[np.int32], places: SliceLocations) -> DistinctKeys:
        """Sort keys and take the newest location of each."""
        order = sorted_order(keys)
        keys, numbers = keys.take(from_numpy(order)), numbers[order]
        same = to_numpy(pc.equal(keys[1:], keys[:-1])).astype(np.bool_) if len(keys) > 1 else np.zeros(0, np.bool_)
        repeated = np.flatnonzero(same) + 1
        if not repeated.size:
            return cls(keys, numbers, keys, numbers, repeated)
        starts = np.flatnonzero(~np.append(False, same))
        group = np.cumsum(~np.append(False, same)) - 1
        newest = np.lexsort((places.ranks()[numbers], group))[np.append(starts[1:], len(keys)) - 1]
        return cls(keys.take(from_numpy(newest)), numbers[newest], keys, numbers, repeated)

    def duplicates(self, places: SliceLocations, most: int = EXAMPLES) -> list[tuple[str, tuple[str, ...]]]:
        """Some of the keys that the data has more than once, and their locations."""
        examples: list[tuple[str, tuple[str, ...]]] = []
        for row in self.repeated[:_DUPLICATES_READ].tolist():
            key = _text(self.all_keys[row].as_py())
            place = places.name(int(self.all_numbers[row]))
            if examples and examples[-1][0] == key:
                examples[-1] = key, (*examples[-1][1], place)
            elif len(examples) == most:
                break
            else:
                examples.append((key, (places.name(int(self.all_numbers[row - 1])), place)))
        return examples


@dataclass(frozen=True, slots=True)
class GroupFile:
    """A finished base file of the index.

    Attributes:
        group: ordinal of the file group.
        path: in the table's storage; empty when the file group has no keys.
        size: bytes.
        rows: keys in it.
        duplicates: rows of the data whose key another row has, too.
        examples: some of those keys, and where they are.
    """

    group: int
    path: str
    size: int
    rows: int
    duplicates: int
    examples: tuple[tuple[str, tuple[str, ...]], ...]

    def to_json(self) -> bytes:
        """The manifest."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes, path: str) -> GroupFile:
        """The base file that a manifest describes.

        Raises:
            CorruptFileError: it is not a manifest.
        """
        try:
            content = json.loads(data)
            content["examples"] = tuple((key, tuple(where)) for key, where in content["examples"])
            return cls(**content)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(path, 0, f"no manifest of a base file; delete its folder ({error!r})") from error


@dataclass(frozen=True)
class GroupFileWriter:
    """Writes base files of file groups; shared by all tasks of a build.

    Attributes:
        storage: of the table.
        folder: of the files.
        runs: the keys.
        places: by the ordinals of slices in `runs`.
        options: of the files.
    """

    storage: Storage
    folder: str
    runs: RunSet
    places: SliceLocations
    options: IndexFileOptions = field(default_factory=IndexFileOptions)

    def __call__(self, group: int) -> GroupFile:
        """Write the base file of one file group."""
        distinct = DistinctKeys.of(*self.runs.group_keys(self.storage, group), self.places)
        count = len(distinct.keys)
        # each attempt of a task writes a file of its own
        path = posixpath.join(self.folder, f"{group}-{uuid.uuid4().hex}.hfile") if count else ""
        size = 0
        if count:
            # all keys of a slice have the same value, which is encoded once
            values = encode_places(self.places.partitions, self.places.file_ids, self.places.instants_ms)
            used, codes = np.unique(distinct.numbers, return_inverse=True)
            entries: Any = values.take(from_numpy(used)).take(from_numpy(codes.astype(np.int64)))
            data = self.options.base_file(distinct.keys, entries)
            size = len(data)
            self.storage.create(path, data)
        file = GroupFile(
            group, path, size, count, len(distinct.repeated), tuple(distinct.duplicates(self.places)) if count else ()
        )
        self.storage.overwrite(posixpath.join(self.folder, f"{group}{_MANIFEST}"), file.to_json())
        return file


def finished_files(storage: Storage, folder: str) -> dict[int, GroupFile]:
    """Finished base files in a folder, by file group."""
    files = {}
    for entry in storage.list(folder):
        if entry.path.endswith(_MANIFEST):
            try:
                file = GroupFile.from_json(storage.read(entry.path), entry.path)
            except StorageError:
                continue
            if not file.path or storage.exists(file.path):
                files[file.group] = file
    return files


def _text(key: bytes) -> str:
    return key.decode(errors="replace")
