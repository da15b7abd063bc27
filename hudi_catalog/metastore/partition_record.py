"""Which partitions the last sync dealt with, kept in the parameters of the entry.

By it a partition that somebody dropped from the metastore is told from one that was never registered.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Mapping
from typing import Final

from table_format.codecs.inflation import MEBIBYTE, inflate, most_inflated

PREFIX: Final = "hoodie.catalog.sync.partitions."
_PART: Final = 4000
_BETWEEN: Final = "\0"
# Paths of numbered partitions shrink to a twentieth.
_FLOOR: Final = 8 * MEBIBYTE
_RATIO: Final = 128


def record_of(paths: Collection[str]) -> dict[str, str]:
    """Parameters that name some partitions: their paths, compressed, in parts that any metastore holds.

    >>> sorted(record_of(["a/b", "c"])) == [PREFIX + "0"]
    True
    """
    packed = zlib.compress(_BETWEEN.join(sorted(paths)).encode(), 9)
    text = base64.b64encode(packed).decode()
    return {f"{PREFIX}{start // _PART}": text[start : start + _PART] for start in range(0, len(text), _PART)}


def recorded(parameters: Mapping[str, str]) -> frozenset[str]:
    """The paths that an entry's parameters name; none where there is no record, or somebody damaged it.

    >>> sorted(recorded(record_of(["a/b", "c"]))), recorded({})
    (['a/b', 'c'], frozenset())
    """
    numbered = {key.removeprefix(PREFIX): value for key, value in parameters.items() if key.startswith(PREFIX)}
    text = "".join(numbered[str(number)] for number in range(len(numbered)) if str(number) in numbered)
    try:
        packed = base64.b64decode(text, validate=True)
        most = most_inflated(len(packed), floor=_FLOOR, ratio=_RATIO)
        paths = inflate("zlib", packed, most).decode() if text else ""
    except ValueError:
        return frozenset()
    return frozenset(paths.split(_BETWEEN)) if paths else frozenset()
