"""Java's `String.hashCode` and `List.hashCode` over whole Arrow columns, and the bucket ids built on them.

Hudi's simple bucket index takes `(list of key parts).hashCode() & 0x7FFFFFFF` modulo the number of buckets (RFC-29
hash index). Java hashes the UTF-16 code units of a string, so one character beyond U+FFFF counts as two units.

The polynomial hash of many strings is one pass of arithmetic over their concatenated units: 31 is odd, so it has an
inverse modulo 2^32, and the hash of units `a..b` is `31^(b-1) * sum(unit[j] * 31^-j)`, a difference of prefix sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import OptionError, RecordError
from table_format.threads import compute_threads, in_threads

UInt32Array = npt.NDArray[np.uint32]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
_BASE = 31
_INVERSE = pow(_BASE, -1, 1 << 32)
_MASK = 0xFFFFFFFF
# Units per step: the power tables and the scratch arrays of one step stay in the processor's cache.
_STEP_UNITS = 1 << 16
# Fewer rows are hashed sooner than a thread starts.
_ROWS_A_THREAD = 1 << 16
_powers: dict[int, UInt32Array] = {}


def java_string_hash(strings: pa.Array[Any] | pa.ChunkedArray[Any]) -> Int32Array:
    """`String.hashCode()` of each string; 0 for nulls, as in Java's lists.

    Args:
        strings: `string`, `large_string` or `binary` (UTF-8) array; dictionary arrays are hashed by their dictionary.

    Raises:
        RecordError: a value is not valid UTF-8.
    """
    if isinstance(strings, pa.ChunkedArray):
        parts = [java_string_hash(chunk) for chunk in strings.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)
    if isinstance(strings, pa.DictionaryArray):
        hashes = np.append(java_string_hash(strings.dictionary), np.int32(0))
        rows = strings.indices.cast(pa.int64()).fill_null(len(strings.dictionary)).to_numpy(zero_copy_only=False)
        return np.asarray(hashes[rows], dtype=np.int32)
    if len(strings) > _ROWS_A_THREAD:
        step = max(_ROWS_A_THREAD, -(-len(strings) // compute_threads()))
        return np.concatenate(in_threads(_hashes, [strings.slice(at, step) for at in range(0, len(strings), step)]))
    return _hashes(strings)


def _hashes(strings: pa.Array[Any]) -> Int32Array:
    data, offsets = _utf8_units(strings)
    result = np.empty(len(strings), np.uint32)
    for start, stop in _steps(offsets):
        step: tuple[npt.NDArray[np.unsignedinteger], Int64Array]
        step = data[offsets[start] : offsets[stop]], offsets[start : stop + 1] - offsets[start]
        if len(step[0]) and int(step[0].max()) >= 0x80:
            step = _utf16_units(step[0], step[1])
        result[start:stop] = _hash_step(*step)
    return result.view(np.int32)


def java_string_hash_one(text: str) -> int:
    """`String.hashCode()` of one string, as a signed 32-bit number.

    >>> java_string_hash_one("abc"), java_string_hash_one("polygenelubricants")
    (96354, -2147483648)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (_BASE * value + (units[position] << 8 | units[position + 1])) & _MASK
    return value - (1 << 32) if value >> 31 else value


def list_hash(parts: Sequence[pa.Array[Any] | pa.ChunkedArray[Any]]) -> Int32Array:
    """`List.hashCode()` of the strings in each row of some columns; a null part counts as 0."""
    return list_hash_of([java_string_hash(part).view(np.uint32) for part in parts])


def list_hash_of(hashes: Sequence[UInt32Array]) -> Int32Array:
    """`List.hashCode()` of the elements in each row of some columns, by the elements' hashes."""
    if not hashes:
        raise OptionError("a list hash needs at least one column; name the hash fields")
    value = np.ones(len(hashes[0]), np.uint32)
    for part in hashes:
        value = value * np.uint32(_BASE) + part
    return value.view(np.int32)


def list_hash_one(parts: Sequence[str | None]) -> int:
    """`List.hashCode()` of some strings, as a signed 32-bit number.

    >>> list_hash_one(["abc"]), list_hash_one([None, ""]), list_hash_one([])
    (96385, 961, 1)
    """
    value = 1
    for part in parts:
        value = (_BASE * value + (0 if part is None else java_string_hash_one(part))) & _MASK
    return value - (1 << 32) if value >> 31 else value


def bucket_ids(parts: Sequence[pa.Array[Any] | pa.ChunkedArray[Any]], bucket_count: int) -> Int32Array:
    """Bucket of each row, from its hash fields' texts (one column per part).

    Raises:
        OptionError: `bucket_count` is not positive.
    """
    return buckets_of_hashes(list_hash(parts), bucket_count)


def buckets_of_hashes(hashes: Int32Array, bucket_count: int) -> Int32Array:
    """Buckets of hash values: `(hash & 0x7FFFFFFF) % bucket_count`."""
    _check_count(bucket_count)
    return np.asarray((hashes & np.int32(0x7FFFFFFF)) % np.int32(bucket_count), dtype=np.int32)


def bucket_id_one(parts: Sequence[str | None], bucket_count: int) -> int:
    """Bucket of one row, from its hash fields' texts.

    >>> [bucket_id_one(parts, 8) for parts in (["abc"], ["5"], ["id:5"], ["5", "x"], [None, ""], ["日本"], [])]
    [1, 4, 5, 4, 1, 6, 1]
    """
    _check_count(bucket_count)
    return (list_hash_one(parts) & 0x7FFFFFFF) % bucket_count


def _steps(offsets: Int64Array) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about `_STEP_UNITS` units each."""
    count = len(offsets) - 1
    start = 0
    while start < count:
        stop = int(np.searchsorted(offsets, offsets[start] + _STEP_UNITS, side="right")) - 1
        stop = min(max(stop, start + 1), count, start + _STEP_UNITS)
        yield start, stop
        start = stop


def _hash_step(units: npt.NDArray[np.unsignedinteger], ends: Int64Array) -> UInt32Array:
    length = len(units)
    if length == 0:
        return np.zeros(len(ends) - 1, np.uint32)
    scaled = units.astype(np.uint32)
    scaled *= _power_table(_INVERSE, length)[:length]
    sums = np.empty(length + 1, np.uint32)
    sums[0] = 0
    np.cumsum(scaled, out=sums[1:], dtype=np.uint32)
    differences = sums[ends[1:]] - sums[ends[:-1]]
    # An empty first row would need 31^-1; its difference is 0, so any power will do.
    return np.asarray(differences * _power_table(_BASE, length)[np.maximum(ends[1:] - 1, 0)], dtype=np.uint32)


def _power_table(base: int, length: int) -> UInt32Array:
    table = _powers.get(base)
    if table is None or len(table) < length:
        table = np.full(max(length, _STEP_UNITS), base, np.uint32)
        table[0] = 1
        np.multiply.accumulate(table, out=table)
        if length <= _STEP_UNITS:  # the table for one giant string is not cached
            _powers[base] = table
    return table


def _utf8_units(strings: pa.Array[Any]) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    kind = strings.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or pa.types.is_null(kind):
        strings = strings.cast(pa.large_string())
        kind = strings.type
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not large and not pa.types.is_string(kind) and not pa.types.is_binary(kind):
        raise TypeError(f"strings are hashed, not {kind}; bring values to their key text first")
    if strings.null_count:
        strings = strings.fill_null(b"" if "binary" in str(kind) else "")
    if len(strings) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, ends, content = strings.buffers()
    raw = np.frombuffer(memoryview(ends or b""), dtype=np.int64 if large else np.int32)
    offsets = raw[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
    data = np.frombuffer(memoryview(content or b""), dtype=np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def _utf16_units(
    data: npt.NDArray[np.unsignedinteger], offsets: Int64Array
) -> tuple[npt.NDArray[np.uint16], Int64Array]:
    """UTF-16 code units of UTF-8 bytes, with the offsets carried over."""
    try:
        text = data.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"a string to be hashed is not valid UTF-8: {error}") from error
    units = np.frombuffer(text.encode("utf-16-le"), dtype=np.uint16)
    # A UTF-8 lead byte is one unit, or two from 0xF0 on; continuation bytes are none.
    widths = ((data < 0x80) | (data >= 0xC0)).astype(np.int64)
    widths += data >= 0xF0
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
    return units, ends[offsets]


def _check_count(bucket_count: int) -> None:
    if bucket_count < 1:
        raise OptionError(f"hoodie.bucket.index.num.buckets is {bucket_count}; give a positive number of buckets")
