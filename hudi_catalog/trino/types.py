"""Mapping of a table's types to those of Trino's Thrift connector, without loss or not at all.

The connector supports integer, bigint, double, varchar, boolean, date, timestamp(3), json and array(bigint). A column
of another type is converted to one of these; a column that cannot be is declared as varchar and refused when it is
read, because a type name unknown to Trino would break the listing of all columns of the catalog.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from hudi_catalog.trino.base.names import column_names
from table_format.config.option_keys import ALIKE
from table_format.errors import OptionError, did_you_mean
from table_format.meta_columns import META_COLUMNS
from table_format.schema.nested import is_list

types = pa.types

TYPE_PREFIX = "hoodie.catalog.trino.type."
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "decimal": ("auto", "varchar", "double", "bigint", "error"),
    "timestamp": ("millis", "truncate", "varchar", "bigint", "error"),
    "time": ("varchar", "bigint", "error"),
    "binary": ("hex", "base64", "error"),
    "nested": ("json", "error"),
}
TYPE_KEYS = tuple(f"{TYPE_PREFIX}{kind}" for kind in _CHOICES)
_LONG_DIGITS = 18
# A double holds so many digits: decimals of that many are served as different doubles, in the same order.
_DOUBLE_DIGITS = 15


class BlockKind(enum.Enum):
    """Kinds of blocks of the Thrift connector; the value is the field number in `TrinoThriftBlock`."""

    INTEGER = 1
    BIGINT = 2
    DOUBLE = 3
    VARCHAR = 4
    BOOLEAN = 5
    DATE = 6
    TIMESTAMP = 7
    JSON = 8
    BIGINT_ARRAY = 10


class Form(enum.Enum):
    """How the values of a column are converted to those of a block; the value completes "is served as ..."."""

    PLAIN = "its own values, integers and floats widened"
    MILLIS = "timestamps of whole milliseconds"
    MILLIS_CUT = "timestamps rounded down to milliseconds"
    MICROS = "microseconds since 1970"
    TIME_TEXT = "timestamps in Trino's text form"
    CLOCK_TEXT = "times of day in text form"
    CLOCK_MICROS = "microseconds since midnight"
    DECIMAL_TEXT = "decimals as text with all digits"
    DECIMAL_DOUBLE = "decimals as the nearest double"
    DECIMAL_UNSCALED = "unscaled decimals"
    HEX = "hexadecimal text"
    BASE64 = "base64 text"
    JSON = "JSON text"
    REFUSED = "nothing"


@dataclass(frozen=True, slots=True)
class ServedColumn:
    """A column of a table as Trino sees it.

    Attributes:
        name: the column's name in Trino.
        trino_type: its type in Trino.
        block: kind of block for its values.
        form: how its values are converted to those of the block.
        source: the column's name in the table.
        kind: its type in the table.
        comment: human-readable; may be None.
        hidden: whether ``SELECT *`` leaves it out, as Hudi's meta columns.
        problem: why it cannot be read; None for a readable column.
    """

    name: str
    trino_type: str
    block: BlockKind
    form: Form
    source: str
    kind: pa.DataType
    comment: str | None = None
    hidden: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class TypeMapping:
    """How types that the connector lacks are served.

    Attributes:
        decimal: ``auto`` for the nearest double up to 15 digits, which determines the decimal, and text beyond;
            ``varchar`` for text with all digits; ``double``; ``bigint`` for the unscaled value (text beyond 18
            digits); ``error``.
        timestamp: ``millis`` for timestamp(3), which refuses values that are not whole milliseconds; ``truncate`` for
            timestamp(3) rounded down; ``varchar`` for Trino's text form; ``bigint`` for microseconds since 1970, which
            refuses values that are not whole microseconds; ``error``.
        time: ``varchar`` for Trino's text form; ``bigint`` for microseconds since midnight; ``error``.
        binary: ``hex`` or ``base64`` text; ``error``.
        nested: ``json`` for structs, maps and lists other than those of integers; ``error``.
    """

    decimal: str = "auto"
    timestamp: str = "millis"
    time: str = "varchar"
    binary: str = "hex"
    nested: str = "json"

    @classmethod
    def of(cls, options: Mapping[str, str] | None = None) -> TypeMapping:
        """The mapping set by options ``hoodie.catalog.trino.type.<kind>``; other keys are ignored.

        Raises:
            OptionError: there is no such kind or choice.
        """
        choices_by_key = {key: str(value) for key, value in (options or {}).items() if key.startswith(TYPE_PREFIX)}
        unknown = sorted(set(choices_by_key) - set(TYPE_KEYS))
        if unknown:
            hint = did_you_mean(unknown[0], TYPE_KEYS, ALIKE)
            raise OptionError(f"{unknown[0]}: no such option{hint}; there are {', '.join(TYPE_KEYS)}")
        chosen = {}
        for kind, choices in _CHOICES.items():
            key = f"{TYPE_PREFIX}{kind}"
            chosen[kind] = choices_by_key.get(key, choices[0]).strip().lower()
        return cls(**chosen)

    def __post_init__(self) -> None:
        for field in fields(self):
            value, choices = getattr(self, field.name), _CHOICES[field.name]
            if value not in choices:
                raise OptionError(f"{TYPE_PREFIX}{field.name}: {value!r} is none of {', '.join(choices)}")


def columns_of(schema: pa.Schema, mapping: TypeMapping) -> tuple[ServedColumn, ...]:
    """The columns of a table as Trino sees them, in order.

    Names are those of `column_names`; a column renamed by more than its case has its original name in the comment.

    Args:
        schema: of the table's snapshot, meta columns first; a field's ``comment`` metadata is its comment.
        mapping: how types that the connector lacks are served.
    """
    names = column_names(schema.names)
    return tuple(_served(name, field, mapping) for name, field in zip(names, schema, strict=True))


def _served(name: str, field: pa.Field[Any], mapping: TypeMapping) -> ServedColumn:
    trino_type, block, form, problem = _target(field.type, mapping)
    if form is Form.REFUSED:
        reason = problem or f"Trino's Thrift connector has no type for {field.type}"
        problem = f"column {field.name!r} cannot be read: {reason}"
    comment = (field.metadata or {}).get(b"comment", b"").decode("utf-8", "replace") or None
    if name != field.name.lower():
        comment = f"{field.name} in the table{f': {comment}' if comment else ''}"
    if form is Form.DECIMAL_TEXT:
        decimal: Any = field.type
        hint = f"decimal({decimal.precision}, {decimal.scale}) as text: cast it to compare or add"
        comment = f"{comment}; {hint}" if comment else hint
    return ServedColumn(
        name=name,
        trino_type=trino_type,
        block=block,
        form=form,
        source=field.name,
        kind=field.type,
        comment=comment,
        hidden=field.name in META_COLUMNS,
        problem=problem,
    )


_Target = tuple[str, BlockKind, Form, "str | None"]
_TEXT, _LONG, _STAMP = (
    ("varchar", BlockKind.VARCHAR),
    ("bigint", BlockKind.BIGINT),
    ("timestamp(3)", BlockKind.TIMESTAMP),
)
_JSON, _DOUBLE = ("json", BlockKind.JSON), ("double", BlockKind.DOUBLE)


def _target(kind: pa.DataType, mapping: TypeMapping) -> _Target:
    plain = next((target for test, target in _PLAIN if test(kind)), None)
    if plain is not None:
        return (*plain, Form.PLAIN, None)
    for test, option, targets in _BY_OPTION:
        if test(kind):
            choice = getattr(mapping, option)
            if choice == "error":
                return (*_TEXT, Form.REFUSED, f"{TYPE_PREFIX}{option} is error for columns such as this {kind}")
            if option == "decimal":
                choice = _decimal_choice(choice, _digits(kind))
            return (*targets[choice], None)
    return (*_TEXT, Form.REFUSED, None)


def _decimal_choice(choice: str, digits: int) -> str:
    if choice == "auto":
        return "double" if digits <= _DOUBLE_DIGITS else "varchar"
    return "varchar" if choice == "bigint" and digits > _LONG_DIGITS else choice


def _digits(kind: Any) -> int:
    return int(kind.precision)


def _is_small(kind: pa.DataType) -> bool:
    return kind in {pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()}


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _is_integer_list(kind: Any) -> bool:
    return is_list(kind) and (_is_small(kind.value_type) or kind.value_type == pa.int64())


def _is_nested(kind: pa.DataType) -> bool:
    return types.is_struct(kind) or types.is_map(kind) or is_list(kind)


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], tuple[str, BlockKind]], ...] = (
    (_is_small, ("integer", BlockKind.INTEGER)),
    (lambda kind: kind in {pa.int64(), pa.uint32()}, _LONG),
    (types.is_floating, _DOUBLE),
    (_is_text, _TEXT),
    (types.is_boolean, ("boolean", BlockKind.BOOLEAN)),
    (types.is_date, ("date", BlockKind.DATE)),
    (_is_integer_list, ("array(bigint)", BlockKind.BIGINT_ARRAY)),
)
_BY_OPTION: tuple[tuple[Callable[[pa.DataType], bool], str, Mapping[str, tuple[str, BlockKind, Form]]], ...] = (
    (
        types.is_decimal,
        "decimal",
        {
            "varchar": (*_TEXT, Form.DECIMAL_TEXT),
            "double": (*_DOUBLE, Form.DECIMAL_DOUBLE),
            "bigint": (*_LONG, Form.DECIMAL_UNSCALED),
        },
    ),
    (
        types.is_timestamp,
        "timestamp",
        {
            "millis": (*_STAMP, Form.MILLIS),
            "truncate": (*_STAMP, Form.MILLIS_CUT),
            "varchar": (*_TEXT, Form.TIME_TEXT),
            "bigint": (*_LONG, Form.MICROS),
        },
    ),
    (
        types.is_time,
        "time",
        {"varchar": (*_TEXT, Form.CLOCK_TEXT), "bigint": (*_LONG, Form.CLOCK_MICROS)},
    ),
    (_is_bytes, "binary", {"hex": (*_TEXT, Form.HEX), "base64": (*_TEXT, Form.BASE64)}),
    (_is_nested, "nested", {"json": (*_JSON, Form.JSON)}),
)
