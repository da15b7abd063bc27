"""Bytes as hexadecimal and base64 text, by whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import packed, valid_mask

_HEX_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_BASE64_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PADDING = ord("=")


def hex_texts(array: Any) -> Any:
    """Two digits a byte, in capitals, as Trino's ``to_hex`` writes them.

    Args:
        array: of binary values, of any layout.
    """
    data, ends = _contents(array)
    digits = np.empty((len(data), 2), np.uint8)
    digits[:, 0] = _HEX_DIGITS[data >> 4]
    digits[:, 1] = _HEX_DIGITS[data & 15]
    return _texts(digits.reshape(-1), ends * 2, array)


def base64_texts(array: Any) -> Any:
    """Base64 with padding, as Trino's ``to_base64`` writes it.

    Args:
        array: of binary values, of any layout.
    """
    data, ends = _contents(array)
    sizes = np.diff(ends)
    groups = (sizes + 2) // 3
    group_ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(groups)])
    # Each value begins with a group of three bytes of its own; missing ones are zero.
    padded = np.zeros(int(group_ends[-1]) * 3, np.uint8)
    padded[np.arange(len(data)) + np.repeat(group_ends[:-1] * 3 - ends[:-1], sizes)] = data
    triples = padded.reshape(-1, 3).astype(np.uint32)
    joined = triples[:, 0] << 16 | triples[:, 1] << 8 | triples[:, 2]
    shifts = np.array([18, 12, 6, 0], np.uint32)
    digits = _BASE64_DIGITS[(joined[:, None] >> shifts) & 63]
    last = group_ends[1:] - 1
    digits[last[sizes % 3 == 1], 2:] = _PADDING
    digits[last[sizes % 3 == 2], 3] = _PADDING
    return _texts(digits.reshape(-1), group_ends * 4, array)


def _contents(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all values one behind the other, and where each begins and ends; nulls are empty."""
    if array.null_count:
        array = array.cast(pa.large_binary()).fill_null(b"")
    array = array.cast(pa.large_binary())
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    ends = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    whole = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    return whole[int(ends[0]) : int(ends[-1])], ends - ends[0]


def _texts(digits: NDArray[np.uint8], ends: NDArray[np.int64], array: Any) -> Any:
    valid = packed(valid_mask(array)) if array.null_count else None
    offsets: Any = np.ascontiguousarray(ends)
    data: Any = digits
    buffers: Any = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(array), buffers)
