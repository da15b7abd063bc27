"""Types of rows beside those of the table: numbers wider than needed, timestamps without a zone, guesses from texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import OptionError, RecordError, SchemaError

arrow: Any = pa
types = pa.types

_UTC_MICROS: Final = pa.timestamp("us", "UTC")
_MOST_DIGITS: Final = 16
LONG_NUMBER: Final = rf"[-+]?[0-9]{{{_MOST_DIGITS + 1},}}"
#: How values of a type are written, so that each has one text. White space around them is not looked at.
_FORMS: Final = {pa.int64(): r"^\s*(0|-?[1-9][0-9]{0,18})\s*$", pa.bool_(): r"^\s*(true|false)\s*$"}


def type_in(columns: pa.Schema | None, name: str) -> pa.DataType | None:
    """The type that a column has in a table; None if there is no table yet, or no such column in it."""
    index = -1 if columns is None else columns.get_field_index(name)
    return None if columns is None or index < 0 else columns.field(index).type


def narrowed(table: pa.Table, columns: pa.Schema | None, *, fractions: bool = True) -> pa.Table:
    """Cast numbers that are wider than the table's where the values fit, those in structs, lists and maps too.

    Args:
        table: rows of a source that has only one width of numbers.
        columns: the columns of the table to write to.
        fractions: whether the source has only 64-bit floats, which may then be rounded to 32 bits. Those in structs,
            lists and maps are Python's, and always are.
    """
    for position, field in enumerate(table.schema):
        target = type_in(columns, field.name)
        if target is None or field.type == target or types.is_null(field.type):
            continue
        column = _narrowed(table.column(position), target, fractions=fractions)
        table = table.set_column(position, pa.field(field.name, column.type), column)
    return table


_Path = tuple[str, ...]


def _narrowed(column: Any, target: pa.DataType, *, fractions: bool) -> Any:
    wider = list(_wider_numbers(column.type, target, fractions=fractions))
    narrow = _cast(column, _replaced(column.type, target, wider))
    if narrow is None:  # a value does not fit: only its own numbers stay wide
        fitting = [path for path in wider if _cast(column, _replaced(column.type, target, [path])) is not None]
        narrow = column.cast(_replaced(column.type, target, fitting))
    return narrow


def _cast(column: Any, target: pa.DataType) -> Any:
    """The column cast to another type; None if a value does not fit."""
    try:
        narrow = column.cast(target)
    except pa.ArrowException:
        return None
    return None if _infinities(narrow) > _infinities(column) else narrow


def _infinities(column: Any) -> int:
    """How many numbers are infinite, as Arrow makes those that are too large for 32 bits."""
    kind = column.type
    if types.is_floating(kind):
        return int(pc.sum(pc.is_inf(column), min_count=0).as_py())
    if types.is_struct(kind):
        return sum(_infinities(member) for member in column.flatten())
    if types.is_list(kind):
        return _infinities(pc.list_flatten(column))
    if types.is_map(kind):
        return sum(_infinities(chunk.keys) + _infinities(chunk.items) for chunk in column.chunks)
    return 0


def _wider_numbers(kind: Any, target: Any, *, fractions: bool, path: _Path = ()) -> Iterator[_Path]:
    """Where in a type there are wider numbers than in another one, or nothing but nulls."""
    pairs = _inner_types(kind, target)
    if pairs:
        for name, (own, other) in pairs.items():
            yield from _wider_numbers(own, other, fractions=fractions, path=(*path, name))
    elif (
        types.is_null(kind)
        or (types.is_integer(target) and kind in (pa.int64(), pa.float64()))
        or (target == pa.float32() and kind == pa.float64() and (fractions or path))
    ):
        yield path


def _replaced(kind: Any, target: Any, paths: Collection[_Path], path: _Path = ()) -> Any:
    """A type that is as another one in some places."""
    if path in paths:
        return target
    pairs = _inner_types(kind, target)
    inner = {name: _replaced(own, other, paths, (*path, name)) for name, (own, other) in pairs.items()}
    if not inner:
        return kind
    if types.is_map(kind):
        return arrow.map_(inner["key"], inner["value"])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(inner["element"]))
    return pa.struct([field.with_type(inner.get(field.name, field.type)) for field in _fields(kind)])


def _inner_types(kind: Any, target: Any) -> dict[str, tuple[Any, Any]]:
    """The types that two nested types of one kind consist of, where both have them."""
    if types.is_struct(kind) and types.is_struct(target):
        others = {field.name: field.type for field in _fields(target)}
        return {field.name: (field.type, others[field.name]) for field in _fields(kind) if field.name in others}
    if types.is_map(kind) and types.is_map(target):
        return {"key": (kind.key_type, target.key_type), "value": (kind.item_type, target.item_type)}
    if types.is_list(kind) and types.is_list(target):
        return {"element": (kind.value_type, target.value_type)}
    return {}


def _fields(kind: Any) -> list[pa.Field[Any]]:
    return [kind.field(index) for index in range(kind.num_fields)]


def decoded(schema: pa.Schema) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch] | None]:
    """Decode dictionaries of string views (Polars categoricals) to strings, which Arrow itself cannot.

    Returns:
        The resulting schema, and a function that converts a batch; None if there is nothing to convert.
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
    """Convert timestamps without a time zone to instants.

    Args:
        schema: of the rows.
        columns: the columns of the table to write to; those without a time zone are left alone.
        time_zone: of the rows' clock times.

    Returns:
        The resulting schema, and a function that converts a batch; None if there is nothing to convert.

    Raises:
        SchemaError: there is such a timestamp, but no time zone is given, or it is nested in another column.
        OptionError: there is no such time zone.
    """
    check_zone(time_zone)
    positions = []
    for position, field in enumerate(schema):
        stored = type_in(columns, field.name)
        if not _has_clock_times(field.type) or (stored is not None and _has_clock_times(stored)):
            continue
        if time_zone is None or not types.is_timestamp(field.type):
            raise SchemaError(_remedy(field))
        positions.append(position)
    if not positions or time_zone is None:
        return schema, None
    for position in positions:
        schema = schema.set(position, pa.field(schema.field(position).name, _UTC_MICROS))

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = list(batch.columns)
        for position in positions:
            micros = _micros(arrays[position], batch.schema.names[position])
            arrays[position] = _placed(micros, time_zone, batch.schema.names[position])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, change


def _placed(array: Any, time_zone: str, name: str) -> Any:
    try:
        return pc.assume_timezone(array, time_zone).cast(_UTC_MICROS)
    except pa.ArrowInvalid as error:
        raise RecordError(
            f"column {name!r} has a time that clocks of {time_zone} show twice or never, as they are changed: {error}; "
            "give timestamps with a time zone"
        ) from error


def _micros(array: Any, name: str) -> Any:
    try:
        return array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {name!r} has parts of microseconds, which Hudi tables cannot hold: {error}"
        ) from error


def check_zone(time_zone: object) -> None:
    """Refuse what is no time zone; None is allowed.

    Raises:
        OptionError: there is no time zone of that name.
    """
    if time_zone is None:
        return
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), cast("str", time_zone))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise OptionError(f"time zone {time_zone!r}: unknown; write UTC, or a name such as Europe/Vienna") from error


def _has_clock_times(kind: Any) -> bool:
    if types.is_timestamp(kind):
        return kind.tz is None
    if isinstance(kind, pa.DictionaryType):
        return _has_clock_times(kind.value_type)
    if types.is_map(kind):
        return _has_clock_times(kind.item_type)
    if types.is_struct(kind):
        return any(_has_clock_times(field.type) for field in _fields(kind))
    return hasattr(kind, "value_type") and _has_clock_times(kind.value_type)


def _remedy(field: pa.Field[Any]) -> str:
    if not types.is_timestamp(field.type):
        return (
            f"column {field.name!r} is {field.type}, with a timestamp that has no time zone inside: cast it to "
            "timestamp('us', 'UTC')"
        )
    return (
        f"column {field.name!r} holds timestamps without a time zone, and Hudi tables hold instants: open or create "
        "the table with the zone of these times, such as time_zone='UTC' (--time-zone of the command line)"
    )


def has_long_numbers(texts: Any) -> bool:
    """Whether there are whole numbers that doubles would round."""
    return _any(pc.match_substring_regex(texts, rf"^\s*{LONG_NUMBER}\s*$"))


def has_leading_zeros(texts: Any) -> bool:
    """Whether there are codes such as 007, which is no number, and another code than 7."""
    return _any(pc.match_substring_regex(texts, r"^\s*[+-]?0[0-9]"))


def texts_to_keep(guessed: Mapping[str, pa.DataType], batches: Iterable[pa.RecordBatch]) -> set[str]:
    """Key columns of a new table that stay texts, since several texts are one value of the type that was guessed.

    Args:
        guessed: types by name, from a file's first rows.
        batches: all its rows, in which these columns are texts; only read where the texts decide.
    """
    # 1.1 and 1.10, or more digits than a double has
    kept = {name for name, kind in guessed.items() if pa.types.is_floating(kind)}
    doubtful = {name: _FORMS[kind] for name, kind in guessed.items() if kind in _FORMS}
    if doubtful:
        for batch in batches:
            kept |= {
                name
                for name, form in doubtful.items()
                if _any(pc.invert(pc.match_substring_regex(batch.column(name), form)))
            }
    return kept


def refuse_rounded(file: str, names: Iterable[str]) -> None:
    """Refuse whole numbers that doubles would round, by which two keys may become one.

    Args:
        file: its name.
        names: columns of such.

    Raises:
        RecordError: there is a column of such.
    """
    for name in names:
        raise RecordError(
            f"{file}: column {name!r} has whole numbers of {_MOST_DIGITS + 1} digits or more, which doubles would "
            "round: create the table first, with the column as decimal(38,0) or string: hudi-catalog create PATH "
            f"--key id --schema '{name} decimal(38,0), …'"
        )


def _any(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())
