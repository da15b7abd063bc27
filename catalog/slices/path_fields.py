"""What each field of a table's partition paths is: a value's text, or a time in a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pushdown.verdict import CannotPrune
from table_format.config.table_config import KeyGeneratorType, TableConfig
from table_format.errors import OptionError
from table_format.keys.timestamp_keys import TimestampFormat

_TIMEBASED = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_SLASH_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
_PLAIN = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX})


@dataclass(frozen=True)
class PathField:
    """One field of partition paths.

    Attributes:
        name: as `hoodie.table.partition.fields` spells it.
        timed: whether it is written in the timestamp-based key generator's pattern.
        levels: folders that it takes where it is not escaped.
        slashes: whether dashes of its value are written as slashes (a setting of releases from 1.2 on).
    """

    name: str
    timed: bool = False
    levels: int = 1
    slashes: bool = False


def path_fields(config: TableConfig) -> tuple[PathField, ...] | CannotPrune:
    """The fields of a partitioned table's paths, by its key generator; or why they are not known."""
    generator = config.key_generator
    slashes = config.raw.get(_SLASH_DATES, "").strip().lower() == "true"
    if generator in _PLAIN:
        if any(key.startswith(_TIMEBASED) for key in config.raw):
            return CannotPrune(
                f"the {generator.name.lower()} key generator has settings of the timestamp key generator"
            )
        return tuple(PathField(name, slashes=slashes) for name in config.partition_fields)
    kinds = _kinds(config)
    if isinstance(kinds, CannotPrune):
        return kinds
    if "TIMESTAMP" in kinds:
        return _with_times(config, kinds)
    return tuple(PathField(name, slashes=slashes) for name in config.partition_fields)


def _with_times(config: TableConfig, kinds: list[str]) -> tuple[PathField, ...] | CannotPrune:
    try:
        pattern = TimestampFormat.from_options(config.raw).output_pattern
    except OptionError as error:
        return CannotPrune(f"the timestamp key generator's settings are not in hoodie.properties: {error}")
    levels = 1 if config.url_encode else 1 + pattern.count("/")
    return tuple(
        PathField(name, timed=True, levels=levels) if kind == "TIMESTAMP" else PathField(name)
        for name, kind in zip(config.partition_fields, kinds, strict=True)
    )


def _kinds(config: TableConfig) -> list[str] | CannotPrune:
    """`SIMPLE` or `TIMESTAMP` for each partition field."""
    generator = config.key_generator
    if generator is KeyGeneratorType.TIMESTAMP:
        if len(config.partition_fields) != 1:
            return CannotPrune("a timestamp key generator has one partition field")
        return ["TIMESTAMP"]
    if generator is not KeyGeneratorType.CUSTOM:
        return CannotPrune(f"with the {generator.name.lower()} key generator a partition's path is not known")
    entries = [part.strip() for part in config.raw.get("hoodie.table.partition.fields", "").split(",") if part.strip()]
    kinds = [entry.partition(":")[2].upper() for entry in entries]
    stray = [entry for entry, kind in zip(entries, kinds, strict=True) if kind not in ("SIMPLE", "TIMESTAMP")]
    if stray:
        return CannotPrune(f"the custom key generator does not say what partition field {stray[0]} is")
    return kinds


def split_paths(paths: Sequence[str], fields: Sequence[PathField], *, hive_style: bool) -> list[list[str | None]]:
    """The segments of each path, by field; None for all fields of a path that cannot be cut.

    Args:
        paths: partition paths.
        fields: in the order of the paths.
        hive_style: whether segments begin with `field=`; they keep it.
    """
    rows = [_hive_segments(path, fields) if hive_style else _segments(path, fields) for path in paths]
    return [[None if row is None else row[position] for row in rows] for position in range(len(fields))]


def _segments(path: str, fields: Sequence[PathField]) -> list[str] | None:
    parts = path.split("/")
    if len(parts) != sum(field.levels for field in fields):
        return None
    found, start = [], 0
    for field in fields:
        found.append("/".join(parts[start : start + field.levels]))
        start += field.levels
    return found


def _hive_segments(path: str, fields: Sequence[PathField]) -> list[str] | None:
    pattern = "/".join(f"({re.escape(field.name)}=" + "/".join(["[^/]*"] * field.levels) + ")" for field in fields)
    match = re.fullmatch(pattern, path)
    return None if match is None else list(match.groups())
