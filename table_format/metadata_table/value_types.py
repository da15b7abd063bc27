"""What the bounds of version 9 tables stand for: plain values, and beside them the type that they have.

Up to version 8 the wrapper of a bound tells its type (`bounds`). From version 9 on dates are wrapped as ints, times as
ints or longs, decimals as bytes, and each record says which type is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from table_format.codecs import avro_leaves
from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.codecs.avro_schema_tree import Node
from table_format.codecs.byte_spans import spans_of
from table_format.metadata_table.arrow import Column, pc

_BY_WRAPPER = 0
_DECIMAL = 10
_MEANINGS: Mapping[int, tuple[str, str]] = {
    2: ("BooleanWrapper", "BooleanWrapper"),
    3: ("IntWrapper", "Integer"),
    4: ("LongWrapper", "Integer"),
    5: ("FloatWrapper", "FloatWrapper"),
    6: ("DoubleWrapper", "DoubleWrapper"),
    7: ("StringWrapper", "StringWrapper"),
    8: ("BytesWrapper", "BytesWrapper"),
    _DECIMAL: ("BytesWrapper", "Decimal"),
    12: ("IntWrapper", "DateWrapper"),
    13: ("IntWrapper", "TimeMillis"),
    14: ("LongWrapper", "TimeMicrosWrapper"),
    15: ("LongWrapper", "TimestampMillis"),
    16: ("LongWrapper", "TimestampMicrosWrapper"),
    17: ("LongWrapper", "TimestampNanos"),
    18: ("LongWrapper", "TimestampMillis"),
    19: ("LongWrapper", "TimestampMicrosWrapper"),
    20: ("LongWrapper", "TimestampNanos"),
}
"""By the number of the type: its wrapper, and how `bounds` calls such values.

Fixed values (9) and UUIDs (11) are left out; Java orders the latter by signed halves.
"""
_PARAMETERS = re.compile(r"(\d{1,2}),(\d{1,2})")


@dataclass(frozen=True, slots=True)
class ValueTypes:
    """The type that each record names for its bounds.

    Attributes:
        numbers: ordinal of the type; null where the record names none.
        parameters: precision and scale of a decimal.
    """

    numbers: Column
    parameters: Column


def meanings(wrapper: str, values: Column, types: ValueTypes | None) -> Iterator[tuple[str, Column]]:
    """Split the values of one wrapper by the types that their records name.

    Values whose type contradicts the wrapper, or is not known, are left out.

    Args:
        wrapper: its short name.
        values: for all records, null where another wrapper stands.
        types: for all records; None when the writer's schema has no types.

    Yields:
        How `bounds` calls such values, and the values, null for the others.
    """
    if types is None:
        yield wrapper, values
        return
    numbers = one_chunk(pc.fill_null(types.numbers, _BY_WRAPPER))
    present = valid_mask(values)
    for number in np.unique(to_numpy(numbers)[present]).tolist():
        mine = pc.equal(numbers, number)
        part = pc.if_else(mine, values, pa.scalar(None, values.type))
        if number == _BY_WRAPPER:
            yield wrapper, part
        elif number == _DECIMAL and wrapper == "BytesWrapper":
            yield from (("Decimal", decimals) for decimals in _decimals(part, types.parameters))
        elif number in _MEANINGS and _MEANINGS[number][0] == wrapper:
            yield _MEANINGS[number][1], part


def _decimals(values: Column, parameters: Column) -> Iterator[Column]:
    """Unscaled numbers as decimals, by precision and scale."""
    known = pc.filter(parameters, pc.is_valid(values))
    for text in pc.unique(known).to_pylist():
        match = _PARAMETERS.fullmatch(text or "")
        if match is None:
            continue
        part: Any = pc.if_else(pc.equal(parameters, text), values, pa.scalar(None, values.type))
        buffer, starts, lengths = spans_of(part)
        node = Node("bytes", "bytes", logical="decimal", precision=int(match[1]), scale=int(match[2]))
        valid = valid_mask(part) & (lengths > 0)
        try:
            yield avro_leaves.to_arrow(buffer, avro_leaves.Leaf(node, starts, lengths, valid))
        except (avro_leaves.BadValueError, IndexError, pa.ArrowInvalid):
            continue
