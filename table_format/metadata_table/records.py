"""Records of the metadata table as they are read from its sources, and which version of each key counts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Column, binaries, last_rows, one_chunk, to_numpy
from table_format.codecs.avro_schema_tree import Node
from table_format.errors import CorruptFileError
from table_format.hfile.entries import HFileEntries

# Bytes of records that are copied in less time than a call of the decoder takes.
_SMALL: Final = 64 * 1024
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """Content of one source: records, or deleted keys. Pieces of a shard are in the order in which they apply.

    Attributes:
        name: the source, for messages.
        entries: the records; empty for deletes.
        schema: of the records; None for deletes.
        deleted_keys: keys that a delete block removes.
    """

    name: str
    entries: HFileEntries
    schema: Node | None
    deleted_keys: tuple[bytes, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a record nor a deleted key."""
        return not len(self.entries) and not self.deleted_keys

    def keys(self) -> Any:
        """Keys of the records, or the deleted ones."""
        return self.entries.keys() if self.schema is not None else binaries(self.deleted_keys)


def decode_each(pieces: Iterable[SourceRecords], decode: Callable[[SourceRecords], T]) -> Iterator[T]:
    """Decode pieces, those of neighbouring log blocks of one schema together: a block has few records.

    Args:
        pieces: in the order in which they apply.
        decode: returns the rows of a piece, in its order.

    Raises:
        CorruptFileError: as `decode` does, for the piece that is broken.
    """
    for _, together in itertools.groupby(pieces, _kind):
        run = list(together)
        if len(run) > 1 and _is_small(run[0]):
            try:
                yield decode(dataclasses.replace(run[0], entries=HFileEntries.joined([one.entries for one in run])))
                continue
            except CorruptFileError:
                pass  # it may be any of them
        for piece in run:
            yield decode(piece)


def _kind(piece: SourceRecords) -> tuple[int, bool]:
    """What neighbours have in common that are decoded together; schemas of one text are one object."""
    return id(piece.schema), _is_small(piece)


def _is_small(piece: SourceRecords) -> bool:
    return piece.schema is not None and len(piece.entries.buffer) <= _SMALL


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """Rows of several versions of keyed records that form the newest state.

    Attributes:
        live: row numbers of surviving versions, ascending; all rows newer than their key's last deletion.
        codes: for each live row, the number of its key.
        unique: whether no key has more than one live row.
    """

    live: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    unique: bool

    def newest(self) -> npt.NDArray[np.int64]:
        """Row of the newest version of each live key, ascending."""
        if self.unique:
            return self.live
        return self.live[last_rows(self.codes)]


def split_settled(shards: Iterable[Sequence[SourceRecords]]) -> tuple[list[SourceRecords], list[list[SourceRecords]]]:
    """Separate records with one version from those that may have more.

    Most records of an HFile are not written again by later log blocks, and need no merging by key.

    Returns:
        Records whose keys are only in the first piece of their shard, each once; and all others, by shard.
    """
    settled: list[SourceRecords] = []
    disputed: list[list[SourceRecords]] = []
    for first, *later in filter(None, shards):
        if first.schema is None:
            disputed.append([first, *later])
        elif not later:
            settled.append(first)
        else:
            again: Any = pc.is_in(first.entries.keys(), pa.concat_arrays([piece.keys() for piece in later]))
            is_again = to_numpy(again).astype(np.bool_)
            settled.append(dataclasses.replace(first, entries=first.entries.take(~is_again)))
            disputed.append([dataclasses.replace(first, entries=first.entries.take(is_again)), *later])
    return [piece for piece in settled if len(piece.entries)], disputed


def newest_versions(keys: Column, deleted: npt.NDArray[np.bool_]) -> KeyVersions:
    """Drop deleted versions.

    Args:
        keys: the key of each version, in the order in which the versions apply.
        deleted: whether the version is a deletion.
    """
    encoded = one_chunk(keys).dictionary_encode()
    codes = to_numpy(encoded.indices).astype(np.int64)
    distinct = len(encoded.dictionary)
    rows = np.arange(len(codes), dtype=np.int64)
    alive = ~deleted
    if deleted.any():
        last = np.full(distinct, -1, dtype=np.int64)
        np.maximum.at(last, codes[deleted], rows[deleted])
        alive &= rows > last[codes]
    live = rows[alive]
    live_codes = codes[alive]
    unique = distinct == len(codes) or len(np.unique(live_codes)) == len(live_codes)
    return KeyVersions(live, live_codes, unique)
