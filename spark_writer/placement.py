"""Which task of a shuffle gets a row: Spark's hash partitioning, turned round."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MASK = 0xFFFFFFFF
_SEED = 42


def murmur3_int(value: int) -> int:
    """Spark's `hash(int)`: Murmur3 (x86, 32 bits) of one int with seed 42, as a signed number.

    >>> murmur3_int(0), murmur3_int(1)
    (933211791, -559580957)
    """
    mixed = (value & _MASK) * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    result = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    result ^= 4  # bytes hashed
    result ^= result >> 16
    result = result * 0x85EBCA6B & _MASK
    result ^= result >> 13
    result = result * 0xC2B2AE35 & _MASK
    result ^= result >> 16
    return result - (1 << 32) if result >> 31 else result


def placements(count: int) -> npt.NDArray[np.int64]:
    """For each of `count` slots the least int that `repartition(count, column)` sends to the partition of that number.

    So each slot is a task of its own, whereas the slots' plain numbers would leave many tasks empty and double others.
    """
    found: dict[int, int] = {}
    value = 0
    while len(found) < count:
        found.setdefault(murmur3_int(value) % count, value)
        value += 1
    return np.array([found[slot] for slot in range(count)], np.int64)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
