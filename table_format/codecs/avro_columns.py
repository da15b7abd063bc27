"""Vectorized decoding of selected fields of many Avro records into Arrow columns.

All records advance field by field in lock-step: an array has the position that each record has reached, and one
numpy operation reads the next length, number or union branch of all of them. Work grows with the number of fields,
not with the number of records, as far as Python code is concerned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs import avro_values
from table_format.codecs.arrow_numpy import Bytes, Positions, binary_array
from table_format.codecs.avro_maps import walk_maps
from table_format.codecs.avro_schema_tree import Node, parse
from table_format.codecs.avro_values import Leaf
from table_format.errors import CorruptFileError, SchemaError


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A column with values of several types.

    Attributes:
        branches: for each record the index of its branch in the Avro union; -1 if an outer field is null.
        names: the name of each branch; `null`, a type, or a record's name.
        values: for each branch that occurs, other than null, an array over all records, null for records of another
            branch. A record with one field is represented by that field. Branches of nested values are left out.
        starts: where the union starts in the buffer, with its branch index.
        lengths: bytes of the union, with its branch index.
        buffer: the bytes.
    """

    branches: NDArray[np.int8]
    names: tuple[str, ...]
    values: Mapping[int, pa.Array[Any]]
    starts: Positions
    lengths: Positions
    buffer: Bytes

    def encoded(self) -> pa.BinaryArray:
        """Avro bytes of each value, branch index included; null if an outer field is null."""
        return binary_array(self.buffer, self.starts, self.lengths, self.branches >= 0)


@dataclass(frozen=True, slots=True)
class MapColumn:
    """Concatenated entries of a map field of all records.

    Attributes:
        records: for each entry the index of its record.
        key_starts: where each key starts in the buffer.
        key_lengths: bytes of each key.
        values: the fields of the values by name, or one array named `""` if they are not records.
        buffer: the bytes.
    """

    records: Positions
    key_starts: Positions
    key_lengths: Positions
    values: Mapping[str, Any]
    buffer: Bytes

    @property
    def keys(self) -> pa.StringArray:
        """The keys, copied."""
        texts: Any = binary_array(self.buffer, self.key_starts, self.key_lengths).cast(pa.string())
        keys: pa.StringArray = texts
        return keys


# Errors of numpy and Arrow for impossible positions, numbers and strings.
_BROKEN = (avro_values.BadValueError, IndexError, pa.ArrowInvalid)
Wanted = dict[str, "Wanted"]


def decode_columns(
    buffer: Bytes,
    starts: Positions,
    lengths: Positions,
    schema: Any,
    paths: Sequence[str],
    *,
    name: str = "Avro records",
) -> dict[str, Any]:
    """Decode some fields of many records.

    A union of null and one type is that type with nulls. A null in an outer record makes the field null.

    Args:
        buffer: the bytes of all records.
        starts: where each record starts.
        lengths: bytes of each record.
        schema: the writer's Avro schema, as `json.loads` gives it, or a parsed `Node`.
        paths: fields, dotted through nested records; `""` is the value itself, for a schema other than a record.
        name: the file, for messages.

    Returns:
        For each path a `pyarrow.Array`, a `UnionColumn` (a union of several types) or a `MapColumn`.

    Raises:
        CorruptFileError: a record's bytes do not follow the schema, or are too few or too many.
        SchemaError: a path is not in the schema, or names an array or a record.
    """
    root = schema if isinstance(schema, Node) else parse(schema)
    wanted: Wanted = {}
    for path in paths:
        level = wanted
        for part in path.split(".") if path else ():
            level = level.setdefault(part, {})
    decoder = _Decoder(buffer)
    positions = starts.astype(np.int64, copy=True)
    try:
        with np.errstate(over="ignore"):
            leaves, reached = decoder.value(root, positions, wanted, "")
    except _BROKEN as error:
        raise CorruptFileError(name, 0, f"records do not follow their Avro schema ({error})") from error
    except RecursionError as error:
        raise SchemaError(f"{name}: the Avro schema of its records is nested too deeply, or contains itself") from error
    check_ends(name, starts, lengths, reached)
    try:
        return {path: _finish(buffer, leaves[path], len(starts)) for path in paths}
    except _BROKEN as error:
        raise CorruptFileError(name, 0, f"impossible Avro value ({error})") from error


def check_ends(name: str, starts: Positions, lengths: Positions, reached: Positions) -> None:
    """Check that records end where decoding them did.

    Raises:
        CorruptFileError: a record of the file `name` is longer or shorter than its schema says.
    """
    wrong = reached != starts + lengths
    if wrong.any():
        index = int(np.argmax(wrong))
        reason = f"record {index} of {len(starts)} is not as long as its Avro schema says"
        raise CorruptFileError(name, int(starts[index]), reason)


def _finish(buffer: Bytes, leaf: Leaf | _Union | _Map, count: int) -> Any:
    if isinstance(leaf, _Map):
        return leaf.column
    if isinstance(leaf, _Union):
        values = {
            branch: avro_values.to_arrow(buffer, part.spread(rows, count))
            for branch, (rows, part) in leaf.parts.items()
        }
        return UnionColumn(leaf.branches, leaf.names, values, leaf.starts, leaf.ends - leaf.starts, buffer)
    return avro_values.to_arrow(buffer, leaf)


@dataclass(slots=True)
class _Union:
    branches: NDArray[np.int8]
    names: tuple[str, ...]
    parts: dict[int, tuple[Positions, Leaf]]
    starts: Positions
    ends: Positions

    def spread(self, rows: Positions, count: int) -> _Union:
        branches = np.full(count, -1, dtype=np.int8)
        branches[rows] = self.branches
        starts, ends = np.zeros((2, count), dtype=np.int64)
        starts[rows], ends[rows] = self.starts, self.ends
        parts = {branch: (rows[inner], leaf) for branch, (inner, leaf) in self.parts.items()}
        return _Union(branches, self.names, parts, starts, ends)


@dataclass(slots=True)
class _Map:
    column: MapColumn

    def spread(self, rows: Positions, _count: int) -> _Map:
        return _Map(dataclasses.replace(self.column, records=rows[self.column.records]))


Leaves = dict[str, "Leaf | _Union | _Map"]


class _Decoder:
    def __init__(self, buffer: Bytes) -> None:
        self.buffer = buffer

    def value(self, node: Node, at: Positions, wanted: Wanted | None, path: str) -> tuple[Leaves, Positions]:
        """Decode values of one type at some positions.

        Returns the leaves by path, one value for each position, and the end positions. `wanted` is None if
        the value is skipped, and an empty dict if this value itself is wanted.
        """
        if node.kind == "record":
            return self._record(node, at, wanted, path)
        if node.kind == "union":
            return self._union(node, at, wanted, path)
        if wanted:
            raise SchemaError(f"{path!r} is not a record in the Avro schema and has no field {next(iter(wanted))!r}")
        if node.kind in ("map", "array"):
            return self._collection(node, at, wanted, path)
        leaf, after = avro_values.read(self.buffer, node, at, keep=wanted is not None)
        return ({} if leaf is None else {path: leaf}), after

    def _record(self, node: Node, at: Positions, wanted: Wanted | None, path: str) -> tuple[Leaves, Positions]:
        if wanted is not None and not wanted:
            raise SchemaError(f"{path!r} is a record in the Avro schema; name its fields")
        for name in wanted or ():
            node.child(name)
        leaves: Leaves = {}
        for name, child in node.fields:
            below = None if wanted is None else wanted.get(name)
            value, at = self.value(child, at, below, f"{path}.{name}" if path else name)
            leaves |= value
        return leaves, at

    def _union(self, node: Node, at: Positions, wanted: Wanted | None, path: str) -> tuple[Leaves, Positions]:
        branches, after = avro_values.read_long(self.buffer, at)
        several = node.optional is None and wanted is not None and not wanted
        parts: dict[int, tuple[Positions, Leaf]] = {}
        leaves: Leaves = {}
        for number, rows in _rows_of_branches(node, branches):
            branch = node.branches[number]
            below = _single_field(branch) if several else wanted
            if len(rows) == len(after):
                value, after = self.value(branch, after, below, path)
            else:
                value, ends = self.value(branch, after[rows], below, path)
                after[rows] = ends
            if several:
                parts.update((number, (rows, leaf)) for leaf in value.values() if isinstance(leaf, Leaf))
            else:
                leaves |= {at_path: leaf.spread(rows, len(at)) for at_path, leaf in value.items()}
        if several:
            names = tuple(branch.name for branch in node.branches)
            leaves[path] = _Union(branches.astype(np.int8), names, parts, at, after)
        elif wanted is not None:
            self._absent(node, len(at), wanted, path, leaves)
        return leaves, after

    def _absent(self, node: Node, count: int, wanted: Wanted, path: str, leaves: Leaves) -> None:
        """Leaves of a union branch that no record has are all null; their type is from the schema."""
        none = np.empty(0, dtype=np.int64)
        for branch in node.branches:
            if branch.kind == "null" or (wanted and branch.kind != "record"):
                continue
            value, _ = self.value(branch, none, wanted, path)
            for at_path, leaf in value.items():
                if at_path not in leaves:
                    leaves[at_path] = leaf.spread(none, count)

    def _collection(self, node: Node, at: Positions, wanted: Wanted | None, path: str) -> tuple[Leaves, Positions]:
        if node.item is None:
            raise SchemaError(f"{path!r} has no item type")
        if wanted is None:
            return {}, self._skip_collection(node, at)
        if node.kind == "array":
            raise SchemaError(f"{path!r} is an array in the Avro schema and cannot be a column")
        entries = walk_maps(self.buffer, node.item, at)
        below: Wanted = {name: {} for name, _ in node.item.fields}
        value, _ = self.value(node.item, entries.value_starts, below, "")
        values = {name: _finish(self.buffer, leaf, len(entries.records)) for name, leaf in value.items()}
        column = MapColumn(entries.records, entries.key_starts, entries.key_lengths, values, self.buffer)
        return {path: _Map(column)}, entries.ends

    def _skip_collection(self, node: Node, at: Positions) -> Positions:
        """Skip arrays and maps, entry by entry, all records together."""
        at = at.copy()
        rows = np.arange(len(at))
        while rows.size:
            counts, after = avro_values.read_long(self.buffer, at[rows])
            at[rows] = after
            sized = counts < 0
            if sized.any():
                sizes, after = avro_values.read_long(self.buffer, at[rows[sized]])
                at[rows[sized]] = after + avro_values.checked_lengths(self.buffer, sizes)
            rows, left = rows[counts != 0], np.maximum(counts[counts != 0], 0)
            while (left > 0).any():
                active = rows[left > 0]
                position = at[active]
                if node.kind == "map":
                    position = avro_values.skip_bytes(self.buffer, position)
                _, after = self.value(node.item or node, position, None, "")
                if (after == at[active]).any():
                    raise avro_values.BadValueError("a collection has items without bytes")
                at[active] = after
                left -= 1
        return at


def _rows_of_branches(node: Node, branches: Positions) -> Iterator[tuple[int, Positions]]:
    """Rows of each branch that occurs, other than null."""
    if not branches.size:
        return
    least, greatest = int(branches.min()), int(branches.max())
    if least < 0 or greatest >= len(node.branches):
        raise avro_values.BadValueError("a union has no such branch")
    if least == greatest:  # as in most files
        if node.branches[least].kind != "null":
            yield least, np.arange(len(branches))
        return
    for number in np.flatnonzero(np.bincount(branches)).tolist():
        if node.branches[number].kind != "null":
            yield number, np.flatnonzero(branches == number)


def _single_field(branch: Node) -> Wanted | None:
    """Part of a union's branch to decode: its value, or the one field of a wrapper record."""
    inner = branch
    below: Wanted = {}
    if branch.kind == "record":
        if len(branch.fields) != 1:
            return None
        name, inner = branch.fields[0]
        below = {name: {}}
    plain = inner.kind not in ("record", "union", "array", "map")
    return below if plain else None
