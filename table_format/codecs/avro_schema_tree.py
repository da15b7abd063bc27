"""Avro schemas as a tree of nodes, with named types resolved."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from table_format.errors import SchemaError

#: Logical types added in Hudi 1.2.
HUDI_TYPES = frozenset({"vector", "variant", "blob"})
UTC_MICROS = pa.timestamp("us", "UTC")
LOGICAL_TYPES: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": UTC_MICROS,
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
}
"""Arrow types of logical types, all stored as `int` or `long`."""

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(slots=True, eq=False)
class Node:
    """One type of an Avro schema; recursive schemas are graphs.

    Attributes:
        kind: an Avro type name, e.g. `record`, `union`, `long`.
        name: the short name of a record, enum or fixed; otherwise the kind.
        fields: of a record, in order.
        branches: of a union, in order.
        item: of an array, or the values of a map.
        size: bytes of a fixed.
        logical: the logical type, or None.
        scale: of a decimal.
        precision: of a decimal.
        symbols: of an enum, in order.
    """

    kind: str
    name: str
    fields: list[tuple[str, Node]] = field(default_factory=list)
    branches: list[Node] = field(default_factory=list)
    item: Node | None = None
    size: int = 0
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()

    @property
    def optional(self) -> Node | None:
        """The other branch of a union of null and one type; None for any other type."""
        if self.kind != "union" or len(self.branches) != 2:
            return None
        first, second = self.branches
        if first.kind == "null":
            return second
        return first if second.kind == "null" else None

    def child(self, name: str) -> Node:
        """A field of a record.

        Raises:
            SchemaError: there is no such field.
        """
        for field_name, node in self.fields:
            if field_name == name:
                return node
        raise SchemaError(f"the Avro schema has no field {name!r} in {self.name}")


def parse(schema: Any) -> Node:
    """Parse an Avro schema.

    Args:
        schema: parsed JSON.

    Raises:
        SchemaError: an unknown type, or not a schema.
    """
    try:
        return _parse(schema, "", {})
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SchemaError(f"not an Avro schema: {type(error).__name__} {error}") from error


@functools.lru_cache(maxsize=64)
def parse_text(text: str) -> Node:
    """Parse the text of an Avro schema; cached, since files and log blocks repeat few texts.

    Raises:
        ValueError: not JSON.
        SchemaError: as `parse`.
    """
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise SchemaError("not an Avro schema: its JSON is nested too deeply") from error
    return parse(content)


def columns_of_hudi_types(text: str | None) -> list[str]:
    """Columns of a table's Avro schema that are or contain a VECTOR, VARIANT or BLOB of Hudi 1.2."""
    if text is None or not any(f'"{name}"' in text for name in HUDI_TYPES):
        return []
    return [name for name, node in parse(json.loads(text)).fields if _any_node(node, set())]


def _any_node(node: Node, seen: set[int]) -> bool:
    if id(node) in seen:
        return False
    seen.add(id(node))
    below = [*(child for _, child in node.fields), *node.branches, *([node.item] if node.item else [])]
    return node.logical in HUDI_TYPES or any(_any_node(child, seen) for child in below)


def _parse_name(name: str, namespace: str, names: dict[str, Node]) -> Node:
    if name in PRIMITIVES:
        return Node(name, name)
    node = names.get(f"{namespace}.{name}") or names.get(name)
    if node is None:
        raise SchemaError(f"unknown Avro type {name!r}")
    return node


def _parse(schema: Any, namespace: str, names: dict[str, Node]) -> Node:
    if isinstance(schema, str):
        return _parse_name(schema, namespace, names)
    if isinstance(schema, list):
        return Node("union", "union", branches=[_parse(branch, namespace, names) for branch in schema])
    if not isinstance(schema, dict) or "type" not in schema:
        raise SchemaError(f"not an Avro type: {schema!r}")
    kind = schema["type"]
    if kind in ("record", "error", "enum", "fixed"):
        return _parse_named(schema, namespace, names)
    if kind in ("array", "map"):
        return Node(kind, kind, item=_parse(schema["items" if kind == "array" else "values"], namespace, names))
    if isinstance(kind, str) and kind in PRIMITIVES:
        return Node(kind, kind, **_annotation(schema))
    return _parse(kind, namespace, names)


def _annotation(schema: dict[str, Any]) -> dict[str, Any]:
    """The logical type; one that is no text is none, as the specification has it of unknown ones."""
    logical = schema.get("logicalType")
    numbers = {name: _count(schema, name) for name in ("precision", "scale")}
    return {"logical": logical if isinstance(logical, str) else None, **numbers}


def _count(schema: dict[str, Any], name: str) -> int:
    count = schema.get(name, 0)
    if not isinstance(count, int) or count < 0:
        raise SchemaError(f"not an Avro schema: {name} is {count!r}")
    return count


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"not an Avro schema: {value!r} is a symbol")
    return value


def _parse_named(schema: dict[str, Any], namespace: str, names: dict[str, Node]) -> Node:
    full = schema["name"]
    if "." in full:
        namespace, _, short = full.rpartition(".")
    else:
        short, namespace = full, schema.get("namespace", namespace)
    kind = "record" if schema["type"] == "error" else schema["type"]
    node = Node(kind, short, size=_count(schema, "size"), **_annotation(schema))
    node.symbols = tuple(map(_text, schema.get("symbols", ())))
    names[f"{namespace}.{short}" if namespace else short] = node
    # Later references from another namespace may use the short name alone.
    names.setdefault(short, node)
    for entry in schema.get("fields", []):
        node.fields.append((entry["name"], _parse(entry["type"], namespace, names)))
    return node
