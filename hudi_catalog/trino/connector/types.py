"""Types of a table as the types of Trino that hold the same values: nothing is converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from table_format.errors import SchemaError
from table_format.meta_columns import META_COLUMNS

types = pa.types

_FRACTIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MOST_DIGITS = 38
_NUMBERS: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double",
    pa.date32(): "date",
}


@dataclass(frozen=True, slots=True)
class ConnectorColumn:
    """A column of a table in Trino.

    Attributes:
        name: in Trino: in lower case, because Trino knows no other.
        source: its name in the table.
        trino_type: SQL text of its type.
        kind: its type in the table.
        comment: of the column; may be None.
        hidden: whether ``SELECT *`` leaves it out, as Hudi's meta columns.
    """

    name: str
    source: str
    trino_type: str
    kind: pa.DataType
    comment: str | None
    hidden: bool


def connector_columns(schema: pa.Schema, table: str) -> list[ConnectorColumn]:
    """The columns of a table in Trino, in order.

    Args:
        schema: of the table's snapshot, meta columns first; a field's ``comment`` metadata is its comment.
        table: name for messages.

    Raises:
        SchemaError: two names differ in case alone, or a type has no counterpart in Trino.
    """
    spellings = Counter(name.lower() for name in schema.names)
    columns = []
    for field in schema:
        name = field.name.lower()
        if spellings[name] > 1:
            raise SchemaError(f"{table}: several columns are called {name} in Trino, which does not distinguish case")
        if name.startswith("$"):
            raise SchemaError(f"{table}: column {field.name}: names that begin with $ are the connector's own")
        try:
            text = trino_type(field.type)
        except SchemaError as error:
            raise SchemaError(f"{table}: column {field.name}: {error}") from error
        comment = (field.metadata or {}).get(b"comment", b"").decode("utf-8", "replace") or None
        columns.append(ConnectorColumn(name, field.name, text, field.type, comment, field.name in META_COLUMNS))
    return columns


def trino_type(kind: Any) -> str:
    """The SQL text of the type in Trino with the same values as an Arrow type.

    >>> trino_type(pa.timestamp("us", "UTC")), trino_type(pa.struct({"a": pa.list_(pa.decimal128(10, 2))}))
    ('timestamp(6) with time zone', 'row("a" array(decimal(10,2)))')

    Raises:
        SchemaError: there is none.
    """
    kind = plain_type(kind)
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    for test, text in _TEXTS:
        if test(kind):
            return text(kind)
    raise SchemaError(f"Trino has no type for {kind}")


def plain_type(kind: Any) -> Any:
    """The type without Arrow's own variants: dictionaries, large texts and lists, fixed sizes."""
    if isinstance(kind, pa.DictionaryType):
        return plain_type(kind.value_type)
    if types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _decimal(kind: Any) -> str:
    if not 0 <= kind.scale <= kind.precision <= _MOST_DIGITS:
        raise SchemaError(f"Trino has no type for {kind}")
    return f"decimal({kind.precision},{kind.scale})"


def _timestamp(kind: Any) -> str:
    return f"timestamp({_FRACTIONS[kind.unit]})" + (" with time zone" if kind.tz else "")


def _row(kind: Any) -> str:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    if not fields:
        raise SchemaError("Trino has no rows without fields")
    if len({field.name.lower() for field in fields}) < len(fields):
        raise SchemaError(f"fields of {kind} differ in case alone, which Trino does not distinguish")
    return "row(" + ",".join(f"{_quoted(field.name)} {trino_type(field.type)}" for field in fields) + ")"


_TEXTS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Any], str]]] = (
    (types.is_string, lambda _: "varchar"),
    (types.is_binary, lambda _: "varbinary"),
    (types.is_decimal128, _decimal),
    (types.is_timestamp, _timestamp),
    (types.is_time, lambda kind: f"time({_FRACTIONS[kind.unit]})"),
    (types.is_list, lambda kind: f"array({trino_type(kind.value_type)})"),
    (types.is_map, lambda kind: f"map({trino_type(kind.key_type)},{trino_type(kind.item_type)})"),
    (types.is_struct, _row),
)
