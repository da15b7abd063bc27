"""Apache Hudi's classes that tell partition values from paths, of which jobs name one in their options.

We read values from paths by what the table says of itself. A class that would tell other values is refused: Hive would
look for rows under values that they do not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from hudi_catalog.metastore.metastore import HivePartition
from hudi_catalog.metastore.options import EXTRACTOR
from table_format.errors import OptionError

_DAY: Final = re.compile(r"(?:\w+=)?(\d{4})/(?:\w+=)?(\d{1,2})/(?:\w+=)?(\d{1,2})", re.ASCII)
_HOUR: Final = re.compile(r"(?:\w+=)?(\d{4})/(?:\w+=)?(\d{1,2})/(?:\w+=)?(\d{1,2})/(?:\w+=)?(\d{1,2})", re.ASCII)

_Values = tuple[str, ...] | None


def check_extractor(given: str | None, partitions: Mapping[str, HivePartition]) -> None:
    """Refuse a class that tells other values than the paths do.

    Args:
        given: its name, with or without its package; None for none.
        partitions: of the table, by their paths.

    Raises:
        OptionError: there is no such class, or it tells other values; the message names a path and both values.
    """
    if given is None:
        return
    name = given.rsplit(".", 1)[-1]
    told = _EXTRACTORS.get(name)
    if told is None:
        raise OptionError(f"{EXTRACTOR}: {given} is not known; leave it out, or name {', '.join(_EXTRACTORS)}")
    for path, partition in partitions.items():
        values = told(path)
        if values != partition.values:
            wrong = "no values" if values is None else _text(values)
            raise OptionError(
                f"{EXTRACTOR}: {name} tells {wrong} of partition {path!r}, where the table's own settings tell "
                f"{_text(partition.values)}; leave the option out"
            )


def _text(values: tuple[str, ...]) -> str:
    return f"[{', '.join(values)}]"


def _multiple(path: str) -> _Values:
    """Each part of the path is a value, after `column=` if that stands there."""
    return tuple(part.partition("=")[2] if "=" in part else part for part in path.split("/")) if path else ()


def _hive_style(path: str) -> _Values:
    """One part, `column=value`."""
    _, equals, value = path.partition("=")
    return (value,) if equals and "=" not in value else None


def _day(path: str) -> _Values:
    match = _DAY.fullmatch(path)
    return None if match is None else (f"{int(match[1]):04}-{int(match[2]):02}-{int(match[3]):02}",)


def _hour(path: str) -> _Values:
    match = _HOUR.fullmatch(path)
    if match is None:
        return None
    return (f"{int(match[1]):04}-{int(match[2]):02}-{int(match[3]):02}-{int(match[4]):02}",)


_EXTRACTORS: Final[Mapping[str, Callable[[str], _Values]]] = {
    "MultiPartKeysValueExtractor": _multiple,
    "HiveStylePartitionValueExtractor": _hive_style,
    "SinglePartPartitionValueExtractor": lambda path: (path,),
    "SlashEncodedDayPartitionValueExtractor": _day,
    "SlashEncodedHourPartitionValueExtractor": _hour,
    "NonPartitionedExtractor": lambda _: (),
}
