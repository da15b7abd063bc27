"""Partition paths of the timestamp-based key generator: a time column, written in a given pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.errors import OptionError, RecordError
from table_format.keys.joda_time import format_time, parse_time, parse_zone

pc: Any = compute  # the stubs lag behind the functions

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
# Zone offsets are whole quarters of an hour since 1972; before, the local mean times of cities were about.
_QUARTER_MS = 900_000
_QUARTERS_SINCE_MS = 63_072_000_000


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """How a time column becomes a partition path (`hoodie.keygen.timebased.*`).

    Attributes:
        kind: UNIX_TIMESTAMP, EPOCHMILLISECONDS, EPOCHMICROSECONDS, SCALAR, DATE_STRING or MIXED.
        unit: of SCALAR numbers.
        input_patterns: Joda-Time patterns of strings, tried in order.
        output_pattern: Joda-Time pattern of the path.
        input_zone: of strings that name no offset.
        output_zone: of the path; unset, numbers are written in this process' zone, strings in their own.
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
            OptionError: a type or unit that is not known, or no output format.
        """
        get = _getter(options)
        kind = (get("timestamp.type", "type") or "").upper()
        unit = _TYPE_UNITS.get(kind) or (get("timestamp.scalar.time.unit") or "SECONDS").upper()
        if kind not in (*_TYPE_UNITS, "SCALAR", "DATE_STRING") or unit not in _UNITS_IN_MS:
            raise OptionError(f"{PREFIX}timestamp.type={kind!r} with unit {unit!r} is not supported")
        pattern = get("output.dateformat")
        if not pattern:
            raise OptionError(f"{PREFIX}output.dateformat is missing; the timestamp-based key generator needs it")
        both = get("timezone")
        inputs = tuple(part.strip() for part in (get("input.dateformat") or "").split(",") if part.strip())
        return cls(kind, unit, inputs, pattern, both or get("input.timezone"), both or get("output.timezone"))

    def partition_texts(self, column: pa.Array[Any]) -> pa.Array[Any]:
        """The path text of each value of a time column (before URL encoding and `field=`)."""
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
        if encoded.null_count:  # null: one millisecond after the epoch
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
            # Java's unit conversion drops the fraction towards zero.
            return np.asarray(np.sign(numbers) * (np.abs(numbers) // divisor), dtype=np.int64)
        return np.asarray(numbers * int(factor), dtype=np.int64)


def milliseconds_of_unit(unit: str) -> float:
    """Milliseconds in one unit of time, by Java's name of it, such as `SECONDS`."""
    return _UNITS_IN_MS[unit]


def _getter(options: Mapping[str, str]) -> Callable[..., str | None]:
    # Options of the 0.14 line and before were named hoodie.deltastreamer.keygen.timebased.*.
    prefixes = (PREFIX, PREFIX.replace("hoodie.", "hoodie.deltastreamer."))

    def get(*names: str) -> str | None:
        found = [options.get(prefix + name) for name in names for prefix in prefixes]
        return next((value for value in found if value), None)

    return get
