"""Partition paths of the timestamp-based key generator, and the range of times that a path covers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import OptionError, RecordError
from table_format.keys.joda_time import format_time, letters_of, parse_time, parse_zone

PREFIX = "hoodie.keygen.timebased."

_UNITS_IN_MS = {
    "NANOSECONDS": 1e-6,
    "MICROSECONDS": 1e-3,
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}

_TYPE_UNITS = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
    "MIXED": "SECONDS",
}

# Zone offsets are whole quarters of an hour since 1972; before, local mean times of cities were in use.
_QUARTER_MS = 900_000
_QUARTERS_SINCE_MS = 63_072_000_000


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """How a time column is formatted as a partition path (`hoodie.keygen.timebased.*`).

    Attributes:
        kind: UNIX_TIMESTAMP, EPOCHMILLISECONDS, EPOCHMICROSECONDS, SCALAR, DATE_STRING or MIXED.
        unit: unit of SCALAR numbers.
        input_patterns: Joda-Time patterns of strings, tried in order.
        output_pattern: Joda-Time pattern of the path.
        input_zone: zone of strings without an offset.
        output_zone: zone of the path; if unset, numbers are formatted in this process' zone, strings in their own.
    """

    kind: str
    unit: str
    input_patterns: tuple[str, ...]
    output_pattern: str
    input_zone: str | None
    output_zone: str | None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> TimestampFormat:
        """Read it from table properties or write options.

        Raises:
            OptionError: an unknown type or unit, or no output format.
        """
        get = _getter(options)
        kind = (get("timestamp.type", "type") or "").upper()
        unit = _TYPE_UNITS.get(kind) or (get("timestamp.scalar.time.unit") or "SECONDS").upper()
        if kind not in (*_TYPE_UNITS, "SCALAR", "DATE_STRING") or unit not in _UNITS_IN_MS:
            known = (*_TYPE_UNITS, "SCALAR", "DATE_STRING")
            raise OptionError(
                f"{PREFIX}timestamp.type={kind!r} with unit {unit!r} is not supported; give "
                f"{PREFIX}* as the jobs that write this table, with a type of {', '.join(known)}"
            )
        pattern = output_pattern(options)
        both = get("timezone")
        inputs = tuple(part.strip() for part in (get("input.dateformat") or "").split(",") if part.strip())
        return cls(kind, unit, inputs, pattern, both or get("input.timezone"), both or get("output.timezone"))

    def partition_texts(self, column: pa.Array[Any]) -> pa.Array[Any]:
        """Path text of each value of a time column (before URL encoding and `field=`)."""
        if isinstance(column, pa.DictionaryArray):
            return self.partition_texts(column.dictionary).take(column.indices)
        types = pa.types
        if types.is_string(column.type) or types.is_large_string(column.type):
            return self._of_strings(column)
        if self.kind == "DATE_STRING":
            raise RecordError(f"{PREFIX}timestamp.type=DATE_STRING needs a string column, not {column.type}")
        return self._of_numbers(column)

    def _of_strings(self, column: pa.Array[Any]) -> pa.Array[Any]:
        encoded = pc.dictionary_encode(column)
        texts = [self._of_string(value.as_py()) for value in encoded.dictionary]
        if encoded.null_count:  # Hudi formats null as one millisecond after the epoch
            utc = parse_zone("UTC")
            zone = parse_zone(self.output_zone) or parse_zone(self.input_zone) or utc
            texts.append(format_time(1, self.output_pattern, zone))
        rows = encoded.indices.fill_null(len(encoded.dictionary))
        result: pa.Array[Any] = pa.array(texts, pa.string()).take(rows)
        return result

    def _of_string(self, text: str) -> str:
        input_zone, output_zone = parse_zone(self.input_zone), parse_zone(self.output_zone)
        for pattern in self.input_patterns:
            parsed = parse_time(text, pattern, input_zone)
            if parsed is not None:
                zone = output_zone or parsed.zone or parse_zone("UTC")
                return format_time(parsed.epoch_ms, self.output_pattern, zone)
        raise RecordError(f"partition value {text!r} matches none of {PREFIX}input.dateformat={self.input_patterns}")

    def _of_numbers(self, column: pa.Array[Any]) -> pa.Array[Any]:
        zone = parse_zone(self.output_zone)
        moments = self._milliseconds(column)
        if not any(letter in self.output_pattern for letter in "msS"):
            moments = np.where(moments >= _QUARTERS_SINCE_MS, moments // _QUARTER_MS * _QUARTER_MS, moments)
        distinct, rows = np.unique(moments, return_inverse=True)
        texts = pa.array([self._text(int(moment), zone) for moment in distinct], pa.string())
        result: pa.Array[Any] = texts.take(pa.array(rows, pa.int64()))
        return result

    def _text(self, moment: int, zone: tzinfo | None) -> str:
        return format_time(moment, self.output_pattern, zone)

    def _milliseconds(self, column: pa.Array[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
        raw: Any = column
        if isinstance(column.type, pa.TimestampType):
            raw = pc.cast(column, pa.timestamp("us", column.type.tz))
        elif pa.types.is_date(column.type):
            raw = pc.cast(pc.cast(column, pa.date32()), pa.int32())
        elif pa.types.is_decimal(column.type) or pa.types.is_floating(column.type):
            raw = pc.trunc(column)
        numbers = pc.cast(raw, pa.int64()).fill_null(1).to_numpy(zero_copy_only=False)
        factor = _UNITS_IN_MS[self.unit]
        if factor < 1:
            divisor = round(1 / factor)
            # Java's unit conversion rounds towards zero.
            return np.asarray(np.sign(numbers) * (np.abs(numbers) // divisor), dtype=np.int64)
        return np.asarray(numbers * int(factor), dtype=np.int64)


def milliseconds_of_unit(unit: str) -> float:
    """Milliseconds in a Java time unit, such as `SECONDS`."""
    return _UNITS_IN_MS[unit]


def output_pattern(options: Mapping[str, str]) -> str:
    """The pattern of partition paths, from table properties or write options.

    Raises:
        OptionError: it is missing.
    """
    pattern = _getter(options)("output.dateformat")
    if not pattern:
        raise OptionError(f"{PREFIX}output.dateformat is missing; the timestamp-based key generator needs it")
    return pattern


def _getter(options: Mapping[str, str]) -> Callable[..., str | None]:
    # Options of the 0.14 line and before were named hoodie.deltastreamer.keygen.timebased.*.
    prefixes = (PREFIX, PREFIX.replace("hoodie.", "hoodie.deltastreamer."))

    def get(*names: str) -> str | None:
        values = [options.get(prefix + name) for name in names for prefix in prefixes]
        return next((value for value in values if value), None)

    return get


_ORDER = "yMdHms"
_STEP = {"d": dt.timedelta(days=1), "H": dt.timedelta(hours=1), "m": dt.timedelta(minutes=1)}
_YEAR_DIGITS = 4
_MONTH_DIGITS = 2
_DAY = dt.timedelta(days=1)
_MILLISECOND = dt.timedelta(milliseconds=1)

# Greatest offsets from UTC ever: the local mean times of Manila and Alaska.
_ANY_ZONE = dt.timedelta(hours=16)

# The writer's time zone database may differ from ours; countries changed their offset by up to two hours.
_RULES_DIFFER = dt.timedelta(hours=3)
_MEAN_TIMES_END = dt.datetime(1972, 1, 1)  # noqa: DTZ001 - local time
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local time
_NUMBERS = frozenset({"UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR"})


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A closed range of time, in milliseconds since 1970-01-01 UTC."""

    first: int
    last: int


def range_of_path(text: str, time_format: TimestampFormat) -> TimeRange | None:
    """Range of the moments that have a path text, or slightly more.

    Args:
        text: the field's part of the path, unescaped, without `field=`.
        time_format: the table's format.

    Returns:
        None if the pattern does not define a range (no four-digit year, a week, an hour without a day), or the text
        does not match it.

    Raises:
        OptionError: an unknown time zone.
    """
    finest = _finest(time_format.output_pattern)
    if finest is None:
        return None
    zone = _zone(time_format.output_zone)
    try:
        parsed = parse_time(text, time_format.output_pattern, dt.UTC)
        if parsed is None or format_time(parsed.epoch_ms, time_format.output_pattern, dt.UTC) != text:
            return None
        begin = _EPOCH + parsed.epoch_ms * _MILLISECOND
        end = _next(begin, finest)
        first, last = begin - _latest_offset(begin, end, zone), end - _MILLISECOND - _earliest_offset(begin, end, zone)
    except (OptionError, RecordError, OverflowError, ValueError):
        return None
    return TimeRange((first - _EPOCH) // _MILLISECOND, (last - _EPOCH) // _MILLISECOND)


def bounds_of_paths(
    texts: Sequence[str | None], time_format: TimestampFormat, kind: pa.DataType
) -> tuple[pa.Array[Any], pa.Array[Any]] | None:
    """Bounds of a time column in each partition.

    Args:
        texts: the field's part of each path; None if unknown.
        time_format: the table's format.
        kind: the column's type.

    Returns:
        Lower and upper bounds of the column's type, null if unknown; None for a type whose values
        not all releases interpret as the same moments.

    Raises:
        OptionError: an unknown time zone.
    """
    parse_zone(time_format.output_zone)
    unit = _unit_of(time_format, kind)
    if unit is None:
        return None
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    ranges = [None if text is None else range_of_path(text, time_format) for text in texts]
    least, most = _limits(kind)
    lower = [None if s is None else max(least, _first_number(s.first, unit)) for s in ranges]
    upper = [None if s is None else min(most, _last_number(s.last, unit)) for s in ranges]
    # A range beyond the type's limits has no reliable bounds.
    sound = [a is not None and b is not None and a <= b for a, b in zip(lower, upper, strict=True)]
    arrays = [
        pa.array([value if ok else None for value, ok in zip(side, sound, strict=True)], storage).cast(kind)
        for side in (lower, upper)
    ]
    return arrays[0], arrays[1]


def path_of_text(text: str, time_format: TimestampFormat) -> str | None:
    """Path text of a value of a string column.

    Args:
        text: a value of the column.
        time_format: the table's format.

    Returns:
        None if releases may parse the text or format its path differently: the text differs from its pattern's output,
        there are several patterns, or time zones or names of months or days are involved.
    """
    patterns, zones = time_format.input_patterns, (time_format.input_zone, time_format.output_zone)
    if time_format.kind != "DATE_STRING" or len(patterns) != 1 or zones[1] not in (None, zones[0]):
        return None
    try:
        if not (_is_plain(patterns[0], "yMdHmsS") and _is_plain(time_format.output_pattern, "yMdHms")):
            return None
        parsed = parse_time(text, patterns[0], dt.UTC)
        if parsed is None or format_time(parsed.epoch_ms, patterns[0], dt.UTC) != text:
            return None
        return format_time(parsed.epoch_ms, time_format.output_pattern, dt.UTC)
    except (OptionError, RecordError, ValueError):
        return None


def _is_plain(pattern: str, letters: str) -> bool:
    """Whether a pattern has only these letters, each once, as numbers that depend on neither language nor century."""
    runs = letters_of(pattern)
    widths = dict(runs)
    plain = len(widths) == len(runs) and set(widths) <= set(letters)
    return plain and widths.get("y", 0) >= _YEAR_DIGITS and widths.get("M", 1) <= _MONTH_DIGITS


def _finest(pattern: str) -> str | None:
    """Finest part of a pattern that also has every coarser part."""
    letters = letters_of(pattern)
    names = [letter for letter, _ in letters]
    if len(set(names)) != len(names) or set(names) != set(_ORDER[: len(names)]) or not names:
        return None
    widths = dict(letters)
    if widths["y"] < _YEAR_DIGITS or widths.get("M", 1) > _MONTH_DIGITS:  # names of months depend on the language
        return None
    return _ORDER[len(names) - 1]


def _zone(name: str | None) -> dt.tzinfo | None:
    """Zone of path texts; None if releases or this one may differ about it."""
    zone = parse_zone(name)
    # To Java an offset without "GMT" is an unknown name, which means UTC.
    bare = isinstance(zone, dt.timezone) and zone != dt.UTC and not str(name).startswith("GMT")
    return None if bare else zone


def _next(begin: dt.datetime, finest: str) -> dt.datetime:
    if finest == "y":
        return begin.replace(year=begin.year + 1)
    if finest == "M":
        return (begin.replace(day=1) + 31 * _DAY).replace(day=1)
    return begin + _STEP.get(finest, dt.timedelta(seconds=1))


def _latest_offset(begin: dt.datetime, end: dt.datetime, zone: dt.tzinfo | None) -> dt.timedelta:
    return max(_offsets(begin, end, zone, _ANY_ZONE, _RULES_DIFFER))


def _earliest_offset(begin: dt.datetime, end: dt.datetime, zone: dt.tzinfo | None) -> dt.timedelta:
    return min(_offsets(begin, end, zone, -_ANY_ZONE, -_RULES_DIFFER))


def _offsets(
    begin: dt.datetime, end: dt.datetime, zone: dt.tzinfo | None, any_zone: dt.timedelta, slack: dt.timedelta
) -> list[dt.timedelta]:
    """Possible offsets of the writer's clock from UTC around a local time."""
    if isinstance(zone, dt.timezone):
        return [zone.utcoffset(None)]
    if zone is None or begin < _MEAN_TIMES_END:
        return [any_zone]
    around = (begin - _DAY, begin, end, end + _DAY)
    offsets = [moment.replace(tzinfo=zone, fold=fold).utcoffset() for moment in around for fold in (0, 1)]
    return [offset + slack for offset in offsets if offset is not None]


def _unit_of(time_format: TimestampFormat, kind: pa.DataType) -> float | None:
    """Milliseconds per unit of the column's numbers."""
    if time_format.kind not in _NUMBERS:
        return None
    unit = milliseconds_of_unit(time_format.unit)
    if pa.types.is_signed_integer(kind) or kind == pa.date32():
        return unit
    # For timestamps some releases use the raw number and some the moment; with microseconds both are equal.
    is_micros = isinstance(kind, pa.TimestampType) and kind.unit == "us"
    return unit if is_micros and time_format.unit == "MICROSECONDS" else None


def _limits(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _first_number(moment: int, unit: float) -> int:
    if unit >= 1:
        return -(-moment // int(unit))
    # Java rounds fractions of a millisecond towards zero, so a moment before 1970 has numbers below it.
    return moment * round(1 / unit) - (round(1 / unit) - 1)


def _last_number(moment: int, unit: float) -> int:
    if unit >= 1:
        return moment // int(unit)
    return moment * round(1 / unit) + round(1 / unit) - 1
