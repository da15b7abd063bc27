"""Hudi's bloom filters of record keys, as stored in Parquet footers.

Hash `i` of a key is Hadoop's MurmurHash with hash `i-1` as seed; its absolute value modulo the number of bits is the
position. A SIMPLE filter has one bit vector. A DYNAMIC_V0 filter starts a new vector whenever the last one has taken
its number of records, up to a limit, and a key is in it when it is in one of them.
"""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import spans_of
from table_format.errors import CorruptFileError

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"
_SIMPLE_HEADER = struct.Struct(">iibi")
_DYNAMIC_EXTRA = struct.Struct(">iii")
_M = np.uint32(0x5BD1E995)
_VERSION = -1
_MURMUR_TYPE = 1
# Hashes of this many keys stay in the processor's cache from one hash function to the next.
_BLOCK_KEYS = 1 << 14
# Bytes of each key that are read together.
_LONGEST_COMMON = 256


def filter_size(entries: int, false_positives: float) -> tuple[int, int]:
    """Bits and hashes of Apache's filters for a number of keys and a rate of false positives.

    >>> filter_size(60_000, 1e-9)
    (2587966, 30)
    """
    bits = math.ceil(entries * -math.log(false_positives) / math.log(2) ** 2)
    return bits, math.ceil(math.log(2) * bits / entries)


def fitting_size(keys: int, false_positives: float, most_bits: int) -> tuple[int, int]:
    """Bits and hashes for a file's own number of keys, with an upper limit of bits.

    A filter at the limit uses fewer hashes, the best number for its size; readers take both from its header.
    """
    bits, hashes = filter_size(max(keys, 1), false_positives)
    if bits <= most_bits:
        return bits, hashes
    return most_bits, max(1, round(math.log(2) * most_bits / keys))


@dataclass(slots=True)
class BloomFilter:
    """A bloom filter of strings.

    Attributes:
        bits: positions of one vector.
        hashes: positions set for a key.
        vectors: bytes of each vector, least significant bit first; a SIMPLE filter has one.
        records_per_vector: DYNAMIC_V0: keys that a vector takes; 0 for SIMPLE.
        records_in_last: DYNAMIC_V0: keys in the vector that was filled last.
    """

    bits: int
    hashes: int
    vectors: list[npt.NDArray[np.uint8]]
    records_per_vector: int = 0
    records_in_last: int = 0

    @property
    def type_code(self) -> str:
        """The text under `hoodie_bloom_filter_type_code`."""
        return DYNAMIC if self.records_per_vector else SIMPLE

    @property
    def nbytes(self) -> int:
        """Bytes of all vectors."""
        return sum(vector.nbytes for vector in self.vectors)

    def to_text(self) -> str:
        """The base64 text under `org.apache.hudi.bloomfilter`."""
        header = _SIMPLE_HEADER.pack(_VERSION, self.hashes, _MURMUR_TYPE, self.bits)
        if not self.records_per_vector:
            return base64.b64encode(header + self.vectors[0].tobytes()).decode()
        counts = _DYNAMIC_EXTRA.pack(self.records_per_vector, self.records_in_last, len(self.vectors))
        rows = b"".join(header + vector.tobytes() for vector in self.vectors)
        return base64.b64encode(header + counts + rows).decode()

    def may_contain(self, keys: pa.Array[Any]) -> npt.NDArray[np.bool_]:
        """Whether each key may be in the filter; false means certainly not."""
        positions = _positions(keys, self.bits, self.hashes)
        contained = np.zeros(len(keys), np.bool_)
        for vector in self.vectors:
            contained |= np.all(vector[positions >> 3] >> (positions & 7).astype(np.uint8) & 1, axis=0)
        return contained


def simple_bloom(keys: pa.Array[Any], bits: int, hashes: int) -> BloomFilter:
    """A SIMPLE filter of some record keys."""
    flags = _no_flags(bits)
    _set_flags(keys, bits, [flags] * hashes)
    return BloomFilter(bits, hashes, [np.packbits(flags, bitorder="little")])


class FittingBloom:
    """A SIMPLE filter of keys that come part by part, of the size that `fitting_size` gives for all of them.

    Beyond the limit of bits only the number of hashes depends on the number of keys, and falls with it. So each hash
    has a vector of its own until all keys are known, and the keys need not be kept.

    Args:
        false_positives: see `fitting_size`.
        most_bits: see `fitting_size`.
    """

    def __init__(self, false_positives: float, most_bits: int) -> None:
        self._false_positives = false_positives
        self._most_bits = most_bits
        self._count = 0
        self._held: list[pa.Array[Any]] = []
        self._flags: list[npt.NDArray[np.uint8]] = []

    def add(self, keys: pa.Array[Any]) -> None:
        """Add some keys."""
        alone = not self._count
        self._count += len(keys)
        self._held.append(keys)
        bits, hashes = fitting_size(self._count, self._false_positives, self._most_bits)
        # one part alone needs no vectors of its own
        if alone or bits < self._most_bits:
            return
        self._flags = self._flags or [_no_flags(bits) for _ in range(hashes)]
        for part in self._held:
            _set_flags(part, bits, self._flags[:hashes])
        self._held = []

    def filter(self) -> BloomFilter:
        """The filter of all keys so far."""
        bits, hashes = fitting_size(self._count, self._false_positives, self._most_bits)
        if not self._flags:
            flags = _no_flags(bits)
            for part in self._held:
                _set_flags(part, bits, [flags] * hashes)
        else:
            flags = np.bitwise_or.reduce(self._flags[:hashes])
        return BloomFilter(bits, hashes, [np.packbits(flags, bitorder="little")])


def _no_flags(bits: int) -> npt.NDArray[np.uint8]:
    return np.zeros((bits + 7) // 8 * 8, np.uint8)


def _set_flags(keys: pa.Array[Any], bits: int, flags: list[npt.NDArray[np.uint8]]) -> None:
    """Set the position of each key in a vector for each hash, a byte per position."""
    for start in range(0, len(keys), _BLOCK_KEYS):
        words = _Words.of(keys.slice(start, _BLOCK_KEYS))
        state = np.zeros(len(words.order), np.uint32)
        for vector in flags:
            state = words.hash_in_order(state)
            vector[_in_vector(state, bits)] = 1


def dynamic_bloom(keys: pa.Array[Any], bits: int, hashes: int, per_vector: int, most: int) -> BloomFilter:
    """A DYNAMIC_V0 filter of some record keys.

    Args:
        keys: record keys in the order in which they are added.
        bits: of one vector.
        hashes: positions set for a key.
        per_vector: keys that a vector takes before the next one starts (`hoodie.index.bloom.num_entries`).
        most: no new vector is started once this many keys are provided for
            (`hoodie.bloom.index.filter.dynamic.max.entries`); then the vectors are filled in turn.
    """
    positions = _positions(keys, bits, hashes)
    limit = max(1, math.ceil(most / per_vector))
    rows = _vectors_of_keys(len(keys), per_vector, limit)
    count = int(rows.max(initial=0)) + 1
    vectors = [_vector(positions[:, rows == row], bits) for row in range(count)]
    return BloomFilter(bits, hashes, vectors, per_vector, len(keys) - (count - 1) * per_vector)


def parse_bloom(text: str | bytes, type_code: str | None, path: str) -> BloomFilter:
    """A filter from a footer.

    Args:
        text: base64.
        type_code: `hoodie_bloom_filter_type_code`; None means SIMPLE.
        path: the file, for messages.

    Raises:
        CorruptFileError: it is not a bloom filter.
    """
    if type_code not in (None, SIMPLE, DYNAMIC):
        raise CorruptFileError(path, 0, f"the footer's bloom filter has the unknown type {type_code}")
    try:
        data = base64.b64decode(text, validate=True)
        version, hashes, kind, bits = _SIMPLE_HEADER.unpack_from(data)
        size = (bits + 7) // 8
        if type_code == DYNAMIC:
            per_vector, in_last, count = _DYNAMIC_EXTRA.unpack_from(data, _SIMPLE_HEADER.size)
            start = _SIMPLE_HEADER.size + _DYNAMIC_EXTRA.size
        else:
            per_vector, in_last, count, start = 0, 0, 1, 0
    except (ValueError, struct.error) as error:
        raise CorruptFileError(path, 0, f"the footer's bloom filter cannot be read: {error}") from error
    width = _SIMPLE_HEADER.size + size
    # A filter read as another type would miss keys, so its length must match to the byte.
    if bits <= 0 or hashes <= 0 or count <= 0 or start + count * width != len(data):
        raise CorruptFileError(path, 0, "the footer's bloom filter is cut off, or of another type")
    if version != _VERSION or kind != _MURMUR_TYPE:
        raise CorruptFileError(
            path, 0, f"the footer's bloom filter is of version {version}, with hashes of type {kind}"
        )
    whole = np.frombuffer(data, np.uint8)
    starts = [start + row * width + _SIMPLE_HEADER.size for row in range(count)]
    return BloomFilter(bits, hashes, [whole[at : at + size] for at in starts], per_vector, in_last)


def murmur(keys: pa.Array[Any], seeds: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Hadoop's MurmurHash of each key's UTF-8 bytes with a seed for each."""
    return _Words.of(keys).hash(seeds)


@dataclass(slots=True)
class _Words:
    """Keys as the 4-byte words that Murmur mixes, ordered by length so that each step handles a prefix of the rows."""

    order: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]
    words: list[npt.NDArray[np.uint32]]  # scrambled already; word i of the rows that have one
    tail: npt.NDArray[np.uint32]  # xored in for rows that have one
    with_tail: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, keys: pa.Array[Any]) -> _Words:
        data, starts, lengths = spans_of(keys)
        order = _longest_first(lengths)
        lengths, starts = lengths[order], starts[order]
        words = list(_scrambled(_first_words(data, starts, int(lengths.min(initial=_LONGEST_COMMON)) // 4)))
        # the four bytes from each position on, which need not be aligned
        at_any = np.ndarray((max(0, len(data) - 3),), "<u4", data, strides=(1,))
        for position in range(len(words), int(lengths.max(initial=0)) // 4):
            rows = int(np.searchsorted(-lengths, -(4 * position + 4), side="right"))
            words.append(_scrambled(at_any[starts[:rows] + 4 * position].astype(np.uint32, copy=False)))
        left = lengths & 3
        tail = np.zeros(len(keys), np.uint32)
        # Hadoop counts the tail from the end of the key and takes bytes as signed numbers.
        for reach, shift in ((3, 16), (2, 8), (1, 0)):
            rows_with = np.flatnonzero(left >= reach)
            at = starts[rows_with] + lengths[rows_with] - reach
            tail[rows_with] ^= (data[at].astype(np.int8).astype(np.int32) << np.int32(shift)).view(np.uint32)
        return cls(order, lengths.astype(np.uint32), words, tail, left > 0)

    def hash(self, seeds: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The hash of each key, in the order of the keys as given."""
        state = self.hash_in_order(seeds[self.order])
        result = np.empty_like(state)
        result[self.order] = state
        return result

    def hash_in_order(self, seeds: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The hash of each key, seeds and hashes in this object's own order of keys."""
        state = seeds ^ self.lengths
        for word in self.words:
            part = state[: len(word)]
            part *= _M
            part ^= word
        state = np.where(self.with_tail, (state ^ self.tail) * _M, state)
        state ^= state >> np.uint32(13)
        state *= _M
        state ^= state >> np.uint32(15)
        return state


def _first_words(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.uint32]:
    """The first `count` words of each key, a row for each word; all keys have that many."""
    if count == 0 or not len(starts):
        return np.empty((0, len(starts)), np.uint32)
    spans = np.ndarray((len(data) - 4 * count + 1,), f"V{4 * count}", data, strides=(1,))[starts]
    return np.ascontiguousarray(spans.view("<u4").reshape(len(starts), count).T, np.uint32)


def _scrambled(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words *= _M
    words ^= words >> np.uint32(24)
    words *= _M
    return words


def _longest_first(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    # numpy sorts 16-bit numbers by radix
    narrow = int(lengths.max(initial=0)) < 1 << 15
    return np.argsort((-lengths).astype(np.int16) if narrow else -lengths, kind="stable")


def _positions(keys: pa.Array[Any], bits: int, hashes: int) -> npt.NDArray[np.int64]:
    """Bit positions of each key, one row per hash function."""
    words = _Words.of(keys)
    result = np.empty((hashes, len(keys)), np.int64)
    state = np.zeros(len(keys), np.uint32)
    for index in range(hashes):
        state = words.hash(state)
        result[index] = _in_vector(state, bits)
    return result


def _in_vector(hashes: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.int64]:
    """Bit position of each hash in a vector of that many bits."""
    # The sign does not matter: Java's remainder has the dividend's, and the absolute value drops it.
    absolute = np.abs(hashes.view(np.int32).astype(np.int64))
    return absolute & (bits - 1) if bits & (bits - 1) == 0 else absolute % bits


def _vector(positions: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint8]:
    flags = np.zeros((bits + 7) // 8 * 8, np.uint8)
    flags[positions.ravel()] = 1
    return np.packbits(flags, bitorder="little")


def _vectors_of_keys(count: int, per_vector: int, limit: int) -> npt.NDArray[np.int64]:
    """Vector of each key: vectors fill one after the other, and again in turn when all are full."""
    numbers = np.arange(count)
    surplus = numbers - limit * per_vector
    return np.where(surplus < 0, numbers // per_vector, np.maximum(surplus - 1, 0) % limit)
