"""The hash functions that spread record keys over the file groups of a record index.

Apache Hudi knows `java` alone. An index with another hash is read and written by this project only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import one_chunk
from table_format.codecs.byte_spans import spans_of
from table_format.errors import RecordIndexError
from table_format.metadata_table.keys import shards_of_keys

JAVA: Final = "java"
XXHASH64: Final = "xxhash64"

Shards: TypeAlias = NDArray[np.int32]
Sharding: TypeAlias = Callable[[Any, int], Shards]
"""Takes keys (strings or their UTF-8 bytes, without nulls) and a number of shards; gives the shard of each key."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def sharding(name: str) -> Sharding:
    """The function of a name.

    Raises:
        RecordIndexError: nobody registered that name in this process.
    """
    try:
        return _KNOWN[name]
    except KeyError as error:
        known = ", ".join(sorted(_KNOWN))
        raise RecordIndexError(
            f"the record index spreads its keys by the hash {name!r}, which is not registered here (known: {known}); "
            "call table_format.record_index.hashes.register_hash in every process, Spark's workers included"
        ) from error


def register_hash(name: str, function: Sharding) -> None:
    """Make a hash function known to this process.

    Args:
        name: as the table's properties have it; never to be used for another function again.
        function: the same for ever, or keys are lost.

    Raises:
        RecordIndexError: the name belongs to another function.
    """
    if _KNOWN.setdefault(name, function) is not function:
        raise RecordIndexError(f"the hash {name!r} is registered already; give yours another name")


def xxhash64(keys: Any, seed: int = 0) -> NDArray[np.uint64]:
    """XXH64 of each key, by whole columns: keys of one length advance side by side."""
    data, starts, lengths = spans_of(one_chunk(keys))
    hashes = np.empty(len(starts), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            hashes[rows] = _hash_equally_long(data, starts[rows], length, np.uint64(seed))
    return hashes


def _hash_equally_long(
    data: NDArray[np.uint8], starts: NDArray[np.int64], length: int, seed: np.uint64
) -> NDArray[np.uint64]:
    at = 0
    if length >= 32:
        lanes = [np.full(len(starts), seed + start, np.uint64) for start in (_P1 + _P2, _P2, np.uint64(0), -_P1)]
        while at + 32 <= length:
            lanes = [_round(lane, _word(data, starts + (at + 8 * n), 8)) for n, lane in enumerate(lanes)]
            at += 32
        total = sum((_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
        for lane in lanes:
            total = (total ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    else:
        total = np.full(len(starts), seed + _P5, np.uint64)
    total = total + np.uint64(length)
    while at + 8 <= length:
        word = _word(data, starts + at, 8)
        total = _left(total ^ _round(np.zeros_like(word), word), 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        total = _left(total ^ _word(data, starts + at, 4) * _P1, 23) * _P2 + _P3
        at += 4
    for place in range(at, length):
        total = _left(total ^ data[starts + place].astype(np.uint64) * _P5, 11) * _P1
    for bits, prime in ((33, _P2), (29, _P3)):
        total = (total ^ total >> np.uint64(bits)) * prime
    return np.asarray(total ^ total >> np.uint64(32), dtype=np.uint64)


def _word(data: NDArray[np.uint8], places: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
    words: NDArray[Any] = np.ndarray((len(data) - width + 1,), dtype=f"<u{width}", buffer=data, strides=(1,))
    return words[places].astype(np.uint64)


def _left(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return np.asarray(values << np.uint64(bits) | values >> np.uint64(64 - bits), dtype=np.uint64)


def _round(lane: NDArray[np.uint64], word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _left(lane + word * _P2, 31) * _P1


def _by_xxhash64(keys: Any, shards: int) -> Shards:
    return (xxhash64(keys) % np.uint64(shards)).astype(np.int32)


_KNOWN: dict[str, Sharding] = {JAVA: shards_of_keys, XXHASH64: _by_xxhash64}
