"""Log records of a file slice as one table: data and deletes, with their ordering values."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Mask, one_chunk, to_numpy
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.keys.key_generator import KeyGenerator
from table_format.keys.key_text import field_parts, key_texts, raw_column
from table_format.log.blocks import BlockType, LogBlock
from table_format.log.deletes import DeletedRecord, read_deletes, read_uniform_keys
from table_format.log.records import is_partial, read_records
from table_format.merge.rules import MergeRules
from table_format.meta_columns import IS_DELETED, RECORD_KEY
from table_format.schema.evolution import conform
from table_format.table.schema_history import SchemaHistory

arrow: Any = pa
OPERATION = "_hoodie_operation"
_DELETING = ("D", "-U")
_MILLIS = (pa.timestamp("ms"), pa.timestamp("ms", "UTC"))
_COARSER = {"s": "second", "ms": "millisecond"}


@dataclass(frozen=True, slots=True)
class LogRows:
    """The records of log blocks, in merge order.

    Attributes:
        table: their columns; records of delete blocks are null except for ordering values.
        keys: record keys.
        deleted: the record deletes its key.
        by_block: the record is from a delete block.
        natural: it deletes its key regardless of ordering values.
        held: for columns that not every data block has: whether the record's block has them.
        counts: number of records by block.
    """

    table: pa.Table
    keys: Any
    deleted: Mask
    by_block: Mask
    natural: Mask
    held: dict[str, Mask]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads blocks in the columns that a merge needs.

    Attributes:
        schema: columns to read: the query's, and those used by merging. A required one is null where a block lacks it.
        rules: the table's merge rules.
        history: the table's schema history, if any.
    """

    schema: pa.Schema
    rules: MergeRules
    history: SchemaHistory | None = None

    def read(self, blocks: Sequence[LogBlock]) -> LogRows:
        """Read the records of data and delete blocks.

        Raises:
            CorruptFileError: a block is malformed.
            SchemaError: a block's columns do not fit the table's.
            UnsupportedTableError: an unsupported type of block.
        """
        tables, keys, by_block, natural, held = [], [], [], [], []
        for block in blocks:
            if block.type is BlockType.DELETE:
                table, block_keys, commit_order = self._deletes(block)
                names = set(self.schema.names)
            else:
                table, block_keys, names = self._records(block)
                commit_order = np.zeros(len(table), dtype=np.bool_)
            if block_keys.null_count:
                raise CorruptFileError(block.path, block.offset, "a log record has no record key")
            tables.append(table)
            keys.append(block_keys)
            by_block.append(np.full(len(table), block.type is BlockType.DELETE))
            natural.append(commit_order)
            held.append((len(table), names))
        whole = pa.concat_tables(tables) if tables else self.schema.empty_table()
        all_keys: Any = arrow.concat_arrays(keys) if keys else arrow.nulls(0, pa.string())
        blocked, commit_ordered = _joined(by_block), _joined(natural)
        marked = self._marked(whole) & ~blocked
        if not self.rules.deletes_forget:
            commit_ordered |= marked & self._without_order(whole)
        counts = tuple(count for count, _ in held)
        return LogRows(whole, all_keys, marked | blocked, blocked, commit_ordered, self._held(held), counts)

    def _records(self, block: LogBlock) -> tuple[pa.Table, Any, set[str]]:
        wanted = self.schema.names
        if self.history is not None:
            renamed = self.history.physical_names(str(block.instant), wanted)
            wanted = [name for name in renamed.values() if name is not None]
        table = read_records(block, {*wanted, *self._key_columns()})
        if self.rules.nulls_keep:
            _check_defaults(block)
        if self.history is not None:
            table = self.history.renamed(str(block.instant), table)
        names = set(table.column_names) if is_partial(block) else set(self.schema.names)
        lost = [name for name in self._key_columns() if name not in table.column_names]
        if lost:
            reason = f"records without {lost[0]}, in a table that has it in all files"
            raise CorruptFileError(block.path, block.offset, reason)
        for name in self.rules.ordering_fields if self.rules.by_ordering else ():
            if field_parts(self.schema, name)[0] not in names:
                raise UnsupportedTableError(f"{block.path}: a partial update without the ordering field {name!r}")
        table = conform(table, self.schema)
        return table, record_keys(table, self.rules.keys, block.path), names

    def _key_columns(self) -> tuple[str, ...]:
        return (RECORD_KEY,) if self.rules.keys is None else self.rules.keys.spec.key_columns

    def _deletes(self, block: LogBlock) -> tuple[pa.Table, Any, Mask]:
        keys, columns = _plain_keys(block), {}
        if keys is None:
            records = read_deletes(block)
            keys = arrow.array([record.key for record in records], pa.string())
            natural = np.array([record.ordering is None for record in records], dtype=np.bool_)
            if self.rules.by_ordering:
                columns = self._orderings(records, block.path)
        else:
            natural = np.ones(len(keys), dtype=np.bool_)
        self._check_form(keys, block.path)
        columns = {field.name: columns.get(field.name, arrow.nulls(len(keys), field.type)) for field in self.schema}
        return pa.table(columns, schema=self.schema), keys, natural

    def _check_form(self, keys: Any, path: str) -> None:
        """Check the form of deleted keys: releases write complex keys of one field in two forms."""
        spec = None if self.rules.keys is None else self.rules.keys.spec
        if spec is None or spec.generator != "COMPLEX" or len(spec.record_key_fields) > 1:
            return
        prefixed = _mask(pc.starts_with(keys, f"{spec.record_key_fields[0]}:"))
        if (prefixed != (spec.complex_single_field_form == "field:value")).any():
            raise UnsupportedTableError(f"{path}: deleted keys of another form than the table's rows get")

    def _orderings(self, records: Sequence[DeletedRecord], path: str) -> dict[str, Any]:
        """The columns of a delete block's ordering values; a nested one is in a struct that has nothing else."""
        columns: dict[str, Any] = {}
        for place, name in enumerate(self.rules.ordering_fields):
            column, *inner = field_parts(self.schema, name)
            kind = _kind_of(self.schema.field(column).type, inner)
            values = self._ordering(records, place, pa.field(name, kind), path)
            columns[column] = _put(columns.get(column), self.schema.field(column).type, inner, values)
        return columns

    def _ordering(self, records: Sequence[DeletedRecord], place: int, field: Any, path: str) -> Any:
        """A delete block's values of one ordering field, cast from their wrapper types to the column's type."""
        values = [record.ordering for record in records]
        if any(isinstance(value, list) for value in values):
            values = [value[place] if isinstance(value, list) and place < len(value) else None for value in values]
        elif place:
            values = [None] * len(values)
        try:
            return _stored_as(arrow.array(values), field.type)
        except (pa.ArrowException, ArithmeticError) as error:
            raise UnsupportedTableError(
                f"{path}: deletes ordered by other values than column {field.name!r} of {field.type} has ({error})"
            ) from error

    def _marked(self, table: pa.Table) -> Mask:
        """Records that are marked as deleted in a column."""
        marked = np.zeros(len(table), dtype=np.bool_)
        if IS_DELETED in table.column_names and pa.types.is_boolean(table.schema.field(IS_DELETED).type):
            marked |= _mask(table.column(IS_DELETED))
        if OPERATION in table.column_names:
            marked |= _mask(pc.is_in(table.column(OPERATION), value_set=pa.array(_DELETING)))
        if self.rules.delete_field in table.column_names:
            text = self._delete_field_text(table.column(str(self.rules.delete_field)))
            marked |= _mask(pc.equal(text, self.rules.delete_marker))
        return marked

    def _delete_field_text(self, column: Any) -> Any:
        """Java's text of each value of the column that marks deletes: Hudi compares it with the marker."""
        kind, types = column.type, pa.types
        number = types.is_integer(kind) or types.is_floating(kind)
        if not (number or types.is_string(kind) or types.is_boolean(kind)):
            raise UnsupportedTableError(
                f"hoodie.payload.delete.field: column {self.rules.delete_field!r} is {kind}, whose text Hudi's readers "
                "make differently; it must be text, a number or a boolean"
            )
        return key_texts(column, str(self.rules.delete_field))

    def _without_order(self, table: pa.Table) -> Mask:
        """Records whose ordering value is missing or Java's default, an int 0."""
        if not self.rules.by_ordering:
            return np.ones(len(table), dtype=np.bool_)
        none = np.ones(len(table), dtype=np.bool_)
        for name in self.rules.ordering_fields:
            column = raw_column(table, name)
            single = len(self.rules.ordering_fields) == 1 and column.type == pa.int32()
            missing = pc.fill_null(pc.equal(column, 0), fill_value=True) if single else pc.is_null(column)
            none &= _mask(missing)
        return none

    def _held(self, blocks: Sequence[tuple[int, set[str]]]) -> dict[str, Mask]:
        return {
            name: _joined([np.full(count, name in names) for count, names in blocks])
            for name in self.schema.names
            if not all(name in names for _, names in blocks)
        }


def _plain_keys(block: LogBlock) -> Any:
    """The keys of a delete block without ordering values, many times as fast as its records; None for other blocks."""
    keys = read_uniform_keys(block)
    try:
        return None if keys is None else arrow.array(keys, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # not in UTF-8, which `read_deletes` names
        return None


def _check_defaults(block: LogBlock) -> None:
    """Refuse defaults other than null under partial update mode IGNORE_DEFAULTS.

    Hudi compares a value with its column's default by the identity of Java objects, which is exact for null alone.
    """
    try:
        name = _with_default(block.schema_json or "{}")
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise CorruptFileError(
            block.path, block.offset, f"the block's schema is not an Avro schema: {error!r}"
        ) from error
    if name is not None:
        raise UnsupportedTableError(
            f"{block.path}: column {name!r} has a default other than null; which of its values partial update mode "
            "IGNORE_DEFAULTS leaves out depends on the Java virtual machine; compact the table with Hudi"
        )


@functools.lru_cache(maxsize=64)
def _with_default(schema_json: str) -> str | None:
    fields: list[dict[str, Any]] = json.loads(schema_json).get("fields", [])
    return next((str(field["name"]) for field in fields if field.get("default") is not None), None)


def merge_columns(schema: pa.Schema, rules: MergeRules) -> list[str]:
    """Columns used by merging besides the record key; of a nested ordering field the one that holds it."""
    names = [name for name in (IS_DELETED, OPERATION, rules.delete_field) if name]
    for name in rules.ordering_fields if rules.by_ordering else ():
        column, *inner = field_parts(schema, name)
        if column not in schema.names or _kind_of(schema.field(column).type, inner) is None:
            raise UnsupportedTableError(f"the ordering field {name!r} is not a column; merging of log files needs it")
        names.append(column)
    return [name for name in schema.names if name in names]


def _kind_of(kind: Any, path: Sequence[str]) -> Any:
    """The type of a member of a struct; None if there is none."""
    for part in path:
        place = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if place < 0:
            return None
        kind = kind.field(place).type
    return kind


def _put(held: Any, kind: Any, path: Sequence[str], values: Any) -> Any:
    """Values as a member of structs of a type, whose other members are those of `held`, or null."""
    if not path:
        return values
    place = kind.get_field_index(path[0])
    members = [arrow.nulls(len(values), one.type) if held is None else held.field(at) for at, one in enumerate(kind)]
    inner = None if held is None else members[place]
    members[place] = _put(inner, kind.field(place).type, path[1:], values)
    return pa.StructArray.from_arrays(members, fields=list(kind))


def record_keys(table: pa.Table, keys: KeyGenerator | None, path: str) -> Any:
    """Record keys of rows in the table's columns; without meta columns they are computed by the key generator.

    Raises:
        CorruptFileError: the rows have no keys.
    """
    if keys is not None:
        columns = {name: _in_its_unit(raw_column(table, name)) for name in keys.spec.record_key_fields}
        return keys.record_keys(pa.table(columns)).cast(pa.string())
    if RECORD_KEY not in table.column_names:
        raise CorruptFileError(path, 0, f"records without {RECORD_KEY}, in a table that has it in all files")
    return one_chunk(table.column(RECORD_KEY))


def _in_its_unit(column: Any) -> Any:
    """A key column, milliseconds as numbers.

    Deletes name the keys that Hudi's Avro key generators make, of the stored number; Spark stores microseconds only,
    and Flink, whose keys depend on the time zone of its machine, is not known to leave meta columns out.
    """
    return column.cast(pa.int64()) if column.type in _MILLIS else column


def has_operations(blocks: Sequence[LogBlock]) -> bool:
    """Whether records have the operation column, which is not in the table's schema."""
    return any(f'"{OPERATION}"' in (block.schema_json or "") for block in blocks)


def _stored_as(values: Any, kind: pa.DataType) -> Any:
    """Cast ordering values from delete blocks' wrapper types to the column's type.

    A Date is an integer, of days. A Long is what Avro and Flink store in a timestamp column, in its unit; the
    microseconds of a TimestampMicros are cut to that unit, as in the column's values.
    """
    if pa.types.is_timestamp(values.type):
        if not isinstance(kind, pa.TimestampType):
            return values.cast(pa.int64()).cast(kind)
        coarser = _COARSER.get(kind.unit)
        cut = values if coarser is None else pc.floor_temporal(values, unit=coarser)
        return cut.cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_integer(values.type):
        if pa.types.is_date32(kind):
            return values.cast(pa.int32()).cast(kind)
        if isinstance(kind, pa.TimestampType):
            return values.cast(pa.int64()).cast(pa.timestamp(kind.unit)).cast(kind)
    return values.cast(kind)


def _mask(column: Any) -> Mask:
    return to_numpy(one_chunk(pc.fill_null(column, fill_value=False))).astype(np.bool_)


def _joined(masks: Sequence[Mask]) -> Mask:
    return np.concatenate([np.zeros(0, dtype=np.bool_), *masks])
