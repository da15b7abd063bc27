"""Images of functions of texts, by the beginning that all texts between two bounds share.

Only printable characters of ASCII are looked at. All engines order texts by their UTF-8 bytes, and treat these
characters alike, but for the letter i in a Java machine of Turkish locale, for which both forms count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pushdown.images.image import Bounds, Image, within
from pushdown.kinds import Kind, kind_of

_FIRST, _LAST = 0x20, 0x7E
_LONGEST = 2**31 - 1
# Texts whose first characters alone are looked at.
_LOOKED_AT = 256
# What a byte becomes: the least and the greatest of its results.
_Cases: TypeAlias = "dict[int, tuple[bytes, bytes]]"


@dataclass(frozen=True)
class Start:
    """What is known of the beginning of all texts of a file.

    Attributes:
        prefix: all texts start with it; printable ASCII.
        least: the next byte is not less; None when there need not be one, or it may be any.
        greatest: it is not greater.
        whole: the prefix is the whole text.
    """

    prefix: bytes
    least: int | None
    greatest: int | None
    whole: bool = False


def start_of(lower: bytes, upper: bytes) -> Start:
    """The beginning of texts from lower to upper."""
    size, most = 0, min(len(lower), len(upper), _LOOKED_AT)
    while size < most and lower[size] == upper[size] and _FIRST <= lower[size] <= _LAST:
        size += 1
    prefix = lower[:size]
    if size == len(lower) == len(upper):
        return Start(prefix, None, None, whole=True)
    if size < most and lower[size] >= _FIRST and upper[size] <= _LAST:
        return Start(prefix, lower[size], upper[size])
    return Start(prefix, None, None)


def _mapped(start: Start, cases: _Cases) -> tuple[bytes, bytes] | None:
    """Bounds of the results when each character becomes another; None if there are none."""
    done = b""
    for byte in start.prefix:
        if byte not in cases:
            return _following(done)
        least, greatest = cases[byte]
        if least != greatest:
            return done + least, _above(done + greatest)
        done += least
    if start.whole:
        return done, done
    if start.least is None or start.greatest is None:
        return _following(done)
    images = [cases.get(byte) for byte in range(start.least, start.greatest + 1)]
    known = [image for image in images if image is not None]
    if len(known) < len(images):
        return _following(done)
    return done + min(least for least, _ in known), _above(done + max(greatest for _, greatest in known))


def _following(prefix: bytes) -> tuple[bytes, bytes] | None:
    """Bounds of texts with a prefix."""
    return (prefix, _above(prefix)) if prefix else None


def _above(prefix: bytes) -> bytes:
    """The least bytes above all texts with a prefix, whose last byte is none of the greatest."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _characters(change: Callable[[str], str], turkish: str, other: str) -> _Cases:
    """A change of case for each printable character; of one letter there are two."""
    cases = {byte: (change(chr(byte)).encode(),) * 2 for byte in range(_FIRST, _LAST + 1)}
    cases[ord(turkish)] = change(turkish).encode(), other.encode()
    return cases


_LOWER = _characters(str.lower, "I", "\u0131")
_UPPER = _characters(str.upper, "i", "\u0130")
# Engines differ on what else is white space.
_NOT_SPACE: _Cases = {byte: (bytes([byte]),) * 2 for byte in range(_FIRST + 1, _LAST + 1)}
_SAME: _Cases = {byte: (bytes([byte]),) * 2 for byte in range(_FIRST, _LAST + 1)}


def _of_starts(type_: pa.DataType, results: Callable[[Start], tuple[bytes, bytes] | None]) -> Image | None:
    if kind_of(type_) is not Kind.STRING:
        return None

    def of(bounds: Bounds) -> Bounds:
        made = [None if start is None else results(start) for start in _starts(bounds)]
        lower, upper = ([None if pair is None else pair[end] for pair in made] for end in (0, 1))
        known = np.array([pair is not None for pair in made], np.bool_)
        return Bounds(pa.array(lower, pa.large_binary()), pa.array(upper, pa.large_binary()), known)

    return Image(pa.string(), of)


def _starts(bounds: Bounds) -> list[Start | None]:
    lower, upper = bounds.lower, bounds.upper
    if not isinstance(lower, pa.Array) or not isinstance(upper, pa.Array):
        return [None] * len(bounds.known)
    ends = zip(lower.to_pylist(), upper.to_pylist(), bounds.known.tolist(), strict=True)
    return [
        start_of(least, greatest) if known and isinstance(least, bytes) and isinstance(greatest, bytes) else None
        for least, greatest, known in ends
    ]


def lowered(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The text in lower case."""
    return None if arguments else _of_starts(type_, lambda start: _mapped(start, _LOWER))


def raised(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The text in upper case."""
    return None if arguments else _of_starts(type_, lambda start: _mapped(start, _UPPER))


def trimmed(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The text without white space at one end, or at both."""
    return None if arguments else _of_starts(type_, lambda start: _mapped(start, _NOT_SPACE))


def substring(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """A part of the text, from a character counted from one on: to the end, or so many characters."""
    if not arguments or len(arguments) > 2 or any(type(argument) is not int for argument in arguments):
        return None
    skipped, size = arguments[0] - 1, arguments[1] if len(arguments) > 1 else _LONGEST
    return _of_starts(type_, lambda start: _part(start, skipped, size)) if skipped >= 0 and size > 0 else None


def beginning(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """The first characters of the text."""
    return substring(type_, (1, *arguments))


def _part(start: Start, skipped: int, size: int) -> tuple[bytes, bytes] | None:
    if start.whole:
        part = start.prefix[skipped : skipped + size]
        return part, part
    if len(start.prefix) < skipped:
        return None
    rest = start.prefix[skipped:]
    if len(rest) >= size:
        return rest[:size], rest[:size]
    return _mapped(Start(rest, start.least, start.greatest), _SAME)


def length(type_: pa.DataType, arguments: tuple[Any, ...]) -> Image | None:
    """How many characters the text has."""
    if arguments or kind_of(type_) is not Kind.STRING:
        return None

    def of(bounds: Bounds) -> Bounds:
        starts = _starts(bounds)
        lower = [0 if one is None else len(one.prefix) + (one.least is not None) for one in starts]
        upper = [len(one.prefix) if one is not None and one.whole else _LONGEST for one in starts]
        return within(bounds, np.array(lower, np.int64), np.array(upper, np.int64), 0, _LONGEST)

    return Image(pa.int32(), of)
