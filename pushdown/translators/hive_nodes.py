"""The nodes of Hive's expression tree as JSON has them, read without trust in their shape.

======================================  ==========================================================================
``{"c": name, "t": type}``              a column
``{"v": text or null, "t": type}``      a constant of a primitive type, as Java prints it
``{"v": [text, …], "t": "struct<…>"}``  a constant struct of primitives, field by field
``{"v": hex, "t": "binary", "e": "hex"}``  constant bytes
``{"f": name, "t": type, "a": [node]}`` a function: the class's simple name for Hive's own GenericUDFs (the full name
                                        for others), the name that a GenericUDFBridge carries, or ``.field`` of a struct
``{"x": text, "t": type}``              anything else
======================================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pushdown.translators.hive_literals import HiveType, LiteralNotUnderstoodError, cast_type, hive_literal, hive_type

_HIVES_PACKAGES = ("org.apache.hadoop.hive.ql.udf.generic.", "org.apache.hadoop.hive.ql.udf.")
_SHOWN = 120
# Columns that Hive makes up for each row.
_VIRTUAL = frozenset(
    {
        "block__offset__inside__file",
        "grouping__id",
        "input__file__name",
        "partition__hash",
        "partition__projection",
        "partition__spec__id",
        "raw__data__size",
        "row__id",
        "row__is__deleted",
        "row__offset__inside__block",
        "row__position",
        "snapshot__id",
        "file__path",
    }
)
# Casts, by what Hive calls the function; the type of the node says to what.
CASTS = frozenset(
    {
        "GenericUDFTimestamp",
        "GenericUDFToChar",
        "GenericUDFToDate",
        "GenericUDFToDecimal",
        "GenericUDFToString",
        "GenericUDFToVarchar",
        "UDFToByte",
        "UDFToDouble",
        "UDFToFloat",
        "UDFToInteger",
        "UDFToLong",
        "UDFToShort",
        "UDFToString",
    }
)


@dataclass(frozen=True)
class Operand:
    """A column, or a field of one, in a comparison.

    Attributes:
        column: the dotted name.
        kind: its type after casts that keep its values; None when it is of no type that is compared.
    """

    column: str
    kind: HiveType | None


@dataclass(frozen=True)
class Literal:
    """A constant's value; None is NULL.

    Attributes:
        value: as `hive_literal` reads it.
        single: it is a 32-bit float.
    """

    value: Any
    single: bool = False


@dataclass(frozen=True)
class NotUnderstood:
    """A node that is neither an operand nor a literal, with the reason."""

    reason: str


def is_object(node: Any) -> bool:
    """Whether a node is a JSON object."""
    # The first test is the fast one.
    return type(node) is dict or isinstance(node, Mapping)


def function_of(node: Any) -> str | None:
    """The function name of a node without Hive's own package; None for other nodes."""
    name = node.get("f") if is_object(node) else None
    if not isinstance(name, str):
        return None
    for package in _HIVES_PACKAGES:
        if name.startswith(package) and "." not in name[len(package) :]:
            return name[len(package) :]
    return name


def arguments_of(node: Any) -> list[Any]:
    """The arguments of a function node; none when it has no list of them."""
    arguments = node.get("a") if is_object(node) else None
    return list(arguments) if isinstance(arguments, list | tuple) else []


def read_operand(node: Any, time_zone: str) -> Operand | Literal | NotUnderstood:
    """Read a side of a comparison: a column under lossless casts, or a constant."""
    if is_object(node) and "v" in node:
        return _constant(node, time_zone)
    casts: list[Any] = []
    inner = node
    while function_of(inner) in CASTS and len(arguments_of(inner)) == 1:
        casts.append(inner)
        inner = arguments_of(inner)[0]
    operand = _column(inner)
    if operand is None:
        return NotUnderstood(shown(node))
    kind = operand.kind
    for cast in reversed(casts):
        to = hive_type(cast.get("t"))
        kind = None if kind is None or to is None else cast_type(kind, to)
        if kind is None:
            return NotUnderstood(shown(node))
    return Operand(operand.column, kind)


def read_struct(node: Any, time_zone: str, types: list[HiveType | None]) -> tuple[Any, ...] | None:
    """The fields of a constant struct, as literals of the given types; None when they are not understood."""
    values = node.get("v") if is_object(node) else None
    if not isinstance(values, list | tuple) or len(values) != len(types):
        return None
    fields = []
    for value, kind in zip(values, types, strict=True):
        if kind is None:
            return None
        try:
            fields.append(hive_literal(value, kind, time_zone))
        except LiteralNotUnderstoodError:
            return None
    return tuple(fields)


def _constant(node: Mapping[str, Any], time_zone: str) -> Literal | NotUnderstood:
    value, type_name = node["v"], node.get("t")
    if value is None:
        return Literal(None)
    if type_name == "binary":
        try:
            return Literal(bytes.fromhex(value)) if node.get("e") == "hex" else NotUnderstood("constant bytes")
        except (ValueError, TypeError):
            return NotUnderstood("constant bytes that are not hexadecimal")
    kind = hive_type(type_name)
    if kind is None:
        return NotUnderstood(f"a constant of type {str(type_name)[:_SHOWN]}")
    try:
        return Literal(hive_literal(value, kind, time_zone), single=kind.base == "float")
    except LiteralNotUnderstoodError as error:
        return NotUnderstood(str(error))


def _column(node: Any) -> Operand | None:
    """A column or a field of a struct; a field of an array of structs is an array in Hive, and not understood."""
    path: list[str] = []
    top: Any = node
    while (name := function_of(top)) is not None and name.startswith("."):
        inner = arguments_of(top)
        if len(inner) != 1 or not _is_struct(inner[0]):
            return None
        path.append(name[1:])
        top = inner[0]
    column = top.get("c") if is_object(top) else None
    if not isinstance(column, str) or not column or column.lower() in _VIRTUAL or not all(path):
        return None
    return Operand(".".join([column, *reversed(path)]), hive_type(node.get("t")))


def _is_struct(node: Any) -> bool:
    type_name = node.get("t") if is_object(node) else None
    return isinstance(type_name, str) and type_name.startswith("struct<")


def shown(node: Any) -> str:
    """A node as text, shortened, for the reason of an `Unknown`."""
    out: list[str] = []
    pending: list[Any] = [node]
    length = 0
    while pending and length < _SHOWN:
        item = pending.pop()
        text = item if isinstance(item, _Text) else _head(item)
        out.append(text)
        length += len(text)
        arguments = arguments_of(item)
        if arguments:
            separated: list[Any] = [_Text("(")]
            for argument in arguments[:_SHOWN]:
                separated += [argument, _Text(", ")]
            separated[-1] = _Text(")")
            pending.extend(reversed(separated))
    text = "".join(out)
    return (text if len(text) <= _SHOWN and not pending else text[:_SHOWN] + "…") + " is not understood"


class _Text(str):
    """Punctuation between nodes."""

    __slots__ = ()


def _head(node: Any) -> str:
    if not is_object(node):
        return "a node that is not an object"
    for key in ("f", "c", "x"):
        if key in node:
            return str(node[key])[:_SHOWN].lstrip(".")
    return ascii(node["v"])[:_SHOWN] if "v" in node else "an empty node"
