"""Python's values as Arrow arrays, by the table's type where they do not tell their own: maps, and whole decimals.

Arrow takes a dict for a struct, and pairs for a list. Inside of maps and around them, values are still read as what
they are, so that a clock time without a zone, or a text for a number, is noticed. Arrow gives dates and times the type
of the first one, and silently changes the others.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from table_format.schema.nested import holds, is_list

arrow: Any = pa
types = pa.types


def array_of(values: Sequence[Any], kind: Any = None) -> Any:
    """An array of some values, where they are as the type has them; else of the type that Arrow finds.

    Args:
        values: any, None for null.
        kind: of the table's column; None if there is none.

    Raises:
        pyarrow.ArrowException, OverflowError, ValueError, TypeError: the values have no one type.
    """
    if kind is None or not needs_type(kind):
        return _found(values)
    present = [value for value in values if value is not None]
    if types.is_map(kind) and all(map(_is_map, present)):
        return _maps(values, kind)
    if types.is_struct(kind) and all(isinstance(value, Mapping) for value in present):
        return _structs(values, present, kind)
    if is_list(kind) and all(isinstance(value, list | tuple | np.ndarray) for value in present):
        return _lists(values, kind)
    if types.is_decimal(kind) and all(type(value) in (int, Decimal) for value in present):
        return _decimals(values, kind)
    return _found(values)


def needs_type(kind: Any) -> bool:
    """Whether Python's values of a type, or some in it, do not tell it."""
    return holds(kind, lambda one: bool(types.is_map(one) or types.is_decimal(one)))


def check_times(values: Iterable[Any], kind: Any) -> None:
    """Refuse Python's dates and times that an array of a type does not hold as they are.

    Raises:
        ValueError: a time that lost its time of day or parts of a microsecond, or a clock time read as one of UTC.
    """
    if not holds(kind, _is_time):
        return
    present = [value for value in values if value is not None]
    if types.is_struct(kind):
        for at in range(kind.num_fields):
            field = kind.field(at)
            check_times((value.get(field.name) for value in present if isinstance(value, Mapping)), field.type)
    elif is_list(kind):
        check_times(itertools.chain.from_iterable(filter(_is_many, present)), kind.value_type)
    for value in present:
        if not isinstance(value, dt.datetime) or value != value:  # noqa: PLR0124  pandas' NaT
            continue
        if types.is_date(kind) and value.timetz() != dt.time():
            raise ValueError(
                f"{value} has a time of day, and the first value is a date: give dates only, or times only"
            )
        if types.is_timestamp(kind) and kind.tz is not None and value.tzinfo is None:
            raise ValueError(f"{value} has no time zone, and the first value has one: give all of them one, or none")
        if types.is_timestamp(kind) and kind.unit != "ns" and getattr(value, "nanosecond", 0):
            raise ValueError(f"{value} has parts of microseconds, which Hudi tables cannot hold: round it")


def _is_many(value: Any) -> bool:
    return isinstance(value, Iterable)  # which pandas' missing values are not


def _is_time(kind: Any) -> bool:
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def _found(values: Sequence[Any]) -> Any:
    array = pa.array(values)
    check_times(values, array.type)
    return array


def _is_map(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    is_list = isinstance(value, list | tuple | np.ndarray)
    return is_list and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value)


def _maps(values: Sequence[Any], kind: Any) -> Any:
    entries = [None if value is None else _pairs(value) for value in values]
    pairs = list(itertools.chain.from_iterable(filter(None, entries)))
    keys = array_of([key for key, _ in pairs], kind.key_type) if pairs else pa.array([], kind.key_type)
    items = array_of([item for _, item in pairs], kind.item_type) if pairs else pa.array([], kind.item_type)
    if keys.null_count:
        raise ValueError("a key of a map is None")
    return arrow.MapArray.from_arrays(_offsets(entries), keys, items)


def _pairs(value: Any) -> list[Any]:
    return list(value.items() if isinstance(value, Mapping) else value)


def _structs(values: Sequence[Any], present: Sequence[Mapping[str, Any]], kind: Any) -> Any:
    kinds = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
    names = list(dict.fromkeys(name for value in present for name in value)) or list(kinds)
    members = [
        array_of([None if value is None else value.get(name) for value in values], kinds.get(name)) for name in names
    ]
    return arrow.StructArray.from_arrays(members, names, mask=pa.array([value is None for value in values], pa.bool_()))


def _lists(values: Sequence[Any], kind: Any) -> Any:
    elements = [element for value in values if value is not None for element in value]
    return arrow.ListArray.from_arrays(_offsets(values), array_of(elements, kind.value_type))


def _offsets(values: Sequence[Any]) -> Any:
    """Where the elements of each value begin; None for null."""
    ends = itertools.accumulate((0 if value is None else len(value) for value in values), initial=0)
    return pa.array(
        [None if value is None else end for value, end in zip([*values, ()], ends, strict=True)], pa.int32()
    )


def _decimals(values: Sequence[Any], kind: Any) -> Any:
    try:
        return pa.array([None if value is None else Decimal(value) for value in values], kind)
    except pa.ArrowException:  # more digits than the table has: the error names both types
        return pa.array(values)
