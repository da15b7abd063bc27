"""Types of rows beside those of the table: numbers that are wider than they need be, timestamps without a time zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from table_format.errors import OptionError, SchemaError

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take
arrow: Any = pa
types = pa.types

_UTC_MICROS: Final = pa.timestamp("us", "UTC")


def narrowed(table: pa.Table, columns: pa.Schema | None, *, fractions: bool = True) -> pa.Table:
    """Rows without numbers that are wider than the table's, where their values fit.

    Args:
        table: rows of a source that has only one width of numbers.
        columns: of the table that is written to.
        fractions: whether the source has no other fractions than those of 64 bits, which are rounded to 32 then.
    """
    for position, field in enumerate(table.schema):
        index = -1 if columns is None else columns.get_field_index(field.name)
        if columns is None or index < 0:
            continue
        target = columns.field(index).type
        if field.type != target and _is_wider(field.type, target, fractions=fractions):
            column = _cast(table.column(position), target)
            if column is not None:
                table = table.set_column(position, pa.field(field.name, target), column)
    return table


def _cast(column: Any, target: pa.DataType) -> Any:
    """The column in another type, None where a value does not fit."""
    try:
        return column.cast(target)
    except pa.ArrowException:
        return None


def _is_wider(kind: Any, target: Any, *, fractions: bool) -> bool:
    """Whether a type differs from another one by the width of its numbers alone."""
    if types.is_integer(target) and kind in (pa.int64(), pa.float64()):
        return True
    if target == pa.float32() and kind == pa.float64():
        return fractions
    if types.is_struct(kind) and types.is_struct(target):
        own, other = _members(kind), _members(target)
        return list(own) == list(other) and all(
            own[name] == other[name] or _is_wider(own[name], other[name], fractions=fractions) for name in own
        )
    if types.is_list(kind) and types.is_list(target):
        same = kind.value_type == target.value_type
        return same or _is_wider(kind.value_type, target.value_type, fractions=fractions)
    return False


def _members(kind: Any) -> dict[str, pa.DataType]:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return {field.name: field.type for field in fields}


def decoded(schema: pa.Schema) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch] | None]:
    """How dictionaries of text views, as the categories of Polars are, become texts: Arrow itself decodes none of them.

    Returns:
        The schema afterwards, and what changes a batch; None where nothing is to be changed.
    """
    names = [field.name for field in schema if _is_dictionary_of_views(field.type)]
    if not names:
        return schema, None
    plain = pa.schema([pa.field(field.name, pa.string()) if field.name in names else field for field in schema])

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays: list[Any] = list(batch.columns)
        for position, array in enumerate(arrays):
            if batch.schema.names[position] in names:
                arrays[position] = array.dictionary.cast(pa.string()).take(array.indices)
        return pa.RecordBatch.from_arrays(arrays, schema=plain)

    return plain, change


def _is_dictionary_of_views(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.DictionaryType) and types.is_string_view(kind.value_type)


def zoned(
    schema: pa.Schema, columns: pa.Schema | None, time_zone: str | None
) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch] | None]:
    """How timestamps without a time zone become instants.

    Args:
        schema: of the rows.
        columns: of the table that is written to; where these have no time zone either, nothing is done.
        time_zone: of the rows' clock times.

    Returns:
        The schema afterwards, and what changes a batch; None where nothing is to be changed.

    Raises:
        SchemaError: there is such a timestamp, and no time zone to take it in, or it lies inside another column.
        OptionError: there is no such time zone.
    """
    positions = []
    for position, field in enumerate(schema):
        if not _has_clock_times(field.type) or (columns is not None and _has_clock_times_in(columns, field.name)):
            continue
        if time_zone is None or not types.is_timestamp(field.type):
            raise SchemaError(_remedy(field))
        positions.append(position)
    if not positions or time_zone is None:
        return schema, None
    _check_zone(time_zone)
    for position in positions:
        schema = schema.set(position, pa.field(schema.field(position).name, _UTC_MICROS))

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = list(batch.columns)
        for position in positions:
            micros = _micros(arrays[position], batch.schema.names[position])
            arrays[position] = pc.assume_timezone(micros, time_zone).cast(_UTC_MICROS)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, change


def _micros(array: Any, name: str) -> Any:
    try:
        return array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {name!r} has parts of microseconds, which Hudi tables cannot hold: {error}"
        ) from error


def _check_zone(time_zone: str) -> None:
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), time_zone)
    except (pa.ArrowException, ValueError) as error:
        raise OptionError(
            f"time zone {time_zone!r}: there is none of this name; write UTC or one as Europe/Vienna"
        ) from error


def _has_clock_times_in(columns: pa.Schema, name: str) -> bool:
    index = columns.get_field_index(name)
    return index >= 0 and _has_clock_times(columns.field(index).type)


def _has_clock_times(kind: Any) -> bool:
    if types.is_timestamp(kind):
        return kind.tz is None
    if isinstance(kind, pa.DictionaryType):
        return _has_clock_times(kind.value_type)
    if types.is_map(kind):
        return _has_clock_times(kind.item_type)
    if types.is_struct(kind):
        return any(map(_has_clock_times, _members(kind).values()))
    return hasattr(kind, "value_type") and _has_clock_times(kind.value_type)


def _remedy(field: pa.Field[Any]) -> str:
    if not types.is_timestamp(field.type):
        return (
            f"column {field.name!r} is {field.type}, with a timestamp that has no time zone inside: cast it to "
            "timestamp('us', 'UTC')"
        )
    return (
        f"column {field.name!r} holds timestamps without a time zone, and Hudi tables hold instants: open or create "
        "the table with time_zone='UTC' or another one (--time-zone of the command line), and they are taken in that "
        "zone"
    )
