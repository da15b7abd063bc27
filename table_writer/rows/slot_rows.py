"""The rows of a batch that go to one file group, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.reader import as_schema
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.errors import RecordError, SchemaError
from table_format.keys.key_text import columns_of_fields
from table_format.keys.partition_buckets import BucketRules
from table_format.meta_columns import IS_DELETED, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from table_format.schema.evolution import conform
from table_format.schema.nested import holds
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.encoding.record_index_entries import refuse_long_keys
from table_writer.plan.plan import BUCKET_COLUMN, FRESH_COLUMN, GONE_COLUMN, FilePlan, KeyPlan
from table_writer.rows.key_identity import doubtful_keys, key_forms, refuse_shared_keys
from table_writer.rows.merge import sorted_rows, winners
from table_writer.rows.number_order import number_order
from table_writer.rows.ordering import held_fields, ordering_columns


def keyed_rows(plan: KeyPlan, table: pa.Table, payload: Iterable[str]) -> pa.Table:
    """Rows with their record key, partition path (if the table is partitioned) and bucket after the payload columns.

    Without buckets (`plan.buckets` is 0) there is no bucket column.

    Raises:
        RecordError: a row without a key, or with one that is too long for the record index.
        SchemaError: a key or partition column is missing.
    """
    generator = plan.generator
    fields = generator.key_fields(table)
    keys = generator.record_keys(table, fields)
    if plan.indexed:
        refuse_long_keys(keys)
    result = table.select(list(payload))
    result = result.append_column(RECORD_KEY, keys)
    if plan.spec.is_partitioned:
        result = result.append_column(PARTITION_PATH, pc.dictionary_encode(generator.partition_paths(table)))
    if not plan.buckets:
        return result
    modulus = plan.buckets if plan.rules is None else plan.rules.common
    buckets = generator.bucket_ids(table, modulus, plan.hash_fields, keys, fields)
    if plan.rules is not None:
        buckets %= _counts_of_rows(plan.rules, result)
    return result.append_column(BUCKET_COLUMN, from_numpy(buckets.astype(np.int32)))


def _counts_of_rows(rules: BucketRules, rows: pa.Table) -> npt.NDArray[np.int32]:
    """The number of buckets of the partition of each row."""
    if PARTITION_PATH not in rows.column_names:
        return np.full(rows.num_rows, rules.count_of(""), np.int32)
    paths: Any = one_chunk(rows.column(PARTITION_PATH))
    counts = np.array(rules.counts_of(paths.dictionary.to_pylist()), np.int32)
    return np.take(counts, to_numpy(paths.indices))


def user_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Rows in the table's types, without meta columns, each column in one piece.

    Raises:
        RecordError: a text is not valid UTF-8.
    """
    table = pa.Table.from_batches(list(batches))
    table = table.drop_columns([name for name in META_COLUMNS if name in table.column_names])
    rows = conform(table, schema).combine_chunks()
    _refuse_broken_texts(rows)
    return rows


def _refuse_broken_texts(rows: pa.Table) -> None:
    """Arrow takes texts as they are; one that is not valid would fail readers, and has no statistics."""
    for field in rows.schema:
        if not holds(field.type, pa.types.is_string):
            continue
        reason = _why_invalid(rows[field.name])
        if reason and pa.types.is_nested(field.type):
            # a part of nested values lies in arrays that have those of other rows, too
            reason = _why_invalid(rows[field.name].take(pa.array(range(len(rows)))))
        if reason:
            raise RecordError(
                f"column {field.name!r} has a text that is not valid UTF-8 ({reason}): give such bytes in a column of "
                "binary values"
            )


def _why_invalid(column: Any) -> str:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return ""


def flushes(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Non-empty batches, in lists of at most `most` bytes."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            size += batch.nbytes
        if size >= most:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


Rows = npt.NDArray[np.integer[Any]]

Mask = npt.NDArray[np.bool_]

_NOT_THE_USERS = (RECORD_KEY, PARTITION_PATH, BUCKET_COLUMN, GONE_COLUMN, FRESH_COLUMN)


@dataclass(frozen=True)
class Incoming:
    """The rows of a slot that one file group takes.

    Attributes:
        plan: the write's.
        rows: of the whole slot.
        chosen: positions of the group's rows in it, in key order unless the plan keeps theirs; one row per key if the
            plan requires it.
        keys: their record keys.
        first: where the row counter of their sequence numbers starts.
    """

    plan: FilePlan
    rows: pa.Table
    chosen: Rows
    keys: Any
    first: int

    @classmethod
    def of(cls, plan: FilePlan, rows: pa.Table, positions: Rows | None, first: int) -> Incoming:
        """Sort the rows at the positions (None for all) and make them unique, as the plan requires.

        Raises:
            RecordError: rows of several records have one record key, of which only one row would be left.
        """
        keys = one_chunk(rows.column(RECORD_KEY))
        if plan.as_they_come:
            chosen = np.arange(rows.num_rows) if positions is None else positions
            return cls(plan, rows, chosen, keys if positions is None else keys.take(from_numpy(positions)), first)
        order = _key_order(plan, rows, positions)
        if plan.shared and len(order) < (rows.num_rows if positions is None else len(positions)):
            _refuse_shared_keys(plan, rows, positions)
        chosen = order if positions is None else positions[order]
        return cls(plan, rows, chosen, keys.take(from_numpy(chosen)), first)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the group's rows."""
        return self.rows.nbytes * len(self.chosen) // max(1, self.rows.num_rows)

    @cached_property
    def gone(self) -> Mask | None:
        """Rows that delete their key whatever the ordering values are; None for none."""
        if self.plan.delete:
            return np.ones(len(self.chosen), np.bool_)
        return self._flags(GONE_COLUMN)

    @cached_property
    def fresh(self) -> Mask | None:
        """Rows whose key the record index lacks, whether the file has it or not; None for none, or if nobody asks."""
        return self._flags(FRESH_COLUMN)

    @cached_property
    def deletes(self) -> Mask | None:
        """Rows that the user marked as deleted; None for none."""
        return None if self.plan.delete else self._flags(IS_DELETED)

    @cached_property
    def doubtful(self) -> Rows | None:
        """Positions of the keys whose text another record may have, too; None for none."""
        return doubtful_keys(self.keys, self.plan.shared)

    def key_rows(self, positions: Rows) -> pa.Table:
        """The columns of the record key of some of the rows."""
        columns = columns_of_fields(self.rows.schema, self.plan.shared)
        return self.rows.select(columns).take(from_numpy(self.chosen[positions]))

    @cached_property
    def values(self) -> pa.Table:
        """The rows in the table's columns, some with dictionaries; those that the batch lacks are null."""
        user = self.rows.drop_columns([name for name in _NOT_THE_USERS if name in self.rows.column_names])
        # Arrow would check the positions again for each column
        return as_schema(pc.take(user, from_numpy(self.chosen), boundscheck=False), self.plan.schema)

    @cached_property
    def kept_columns(self) -> frozenset[str]:
        """Columns that keep their values in existing records, because the batch lacks them."""
        if not self.plan.partial:
            return frozenset()
        return frozenset(self.plan.schema.names) - frozenset(self.rows.column_names)

    def ordering(self) -> list[Any]:
        """Ordering values, for the comparison with old rows.

        Raises:
            SchemaError: a batch of some columns lacks an ordering column.
        """
        missing = sorted(self.kept_columns.intersection(columns_of_fields(self.plan.schema, self.plan.ordering)))
        if missing:
            raise SchemaError(
                f"the batch has no ordering column {missing[0]!r}: with hoodie.catalog.write.partial.columns it must "
                "hold the ordering columns, to decide which row is newer"
            )
        return ordering_columns(self.values, self.plan.ordering)

    def with_meta(self, task: int, partition: str, file_name: str) -> pa.Table:
        """The rows with the meta columns of this write."""
        return add_meta_columns(
            self.values,
            instant=self.plan.instant,
            task=task,
            keys=self.keys,
            partition=partition,
            file_name=file_name,
            first_row=self.first,
        )

    def without_deletes(self) -> Incoming:
        """The rows of a new file group, without those that delete their key."""
        doomed = np.zeros(len(self.chosen), np.bool_)
        for flags in (self.gone, self.deletes):
            if flags is not None:
                doomed |= flags
        if not doomed.any():
            return self
        left = np.flatnonzero(~doomed)
        return Incoming(self.plan, self.rows, self.chosen[left], self.keys.take(from_numpy(left)), self.first)

    def between(self, start: int, end: int) -> Incoming:
        """A range of the rows, in key order."""
        keys = self.keys.slice(start, end - start)
        return Incoming(self.plan, self.rows, self.chosen[start:end], keys, self.first + start)

    def without_rows(self) -> Incoming:
        """The same without rows, for what is needed after the rows were written."""
        # built from new arrays, since slices would keep the rows in memory
        keys: Any = pa.array([], self.keys.type)
        return Incoming(self.plan, self.rows.schema.empty_table(), np.empty(0, np.int64), keys, self.first)

    def _flags(self, name: str) -> Mask | None:
        if name not in self.rows.column_names:
            return None
        flags = one_chunk(self.rows.column(name)).take(from_numpy(self.chosen))
        if not pa.types.is_boolean(flags.type):
            raise SchemaError(f"column {name} is {flags.type}; it must be boolean")
        marked: Mask = to_numpy(flags.fill_null(fill_value=False)).astype(np.bool_)
        return marked if marked.any() else None


def _key_order(plan: FilePlan, rows: pa.Table, positions: Rows | None) -> Rows:
    """The order of the rows at the positions by key, one row per key if the plan requires it."""

    def chosen(name: str) -> Any:
        column = one_chunk(rows.column(name))
        return column if positions is None else column.take(from_numpy(positions))

    ordering = [] if plan.delete else _ordering(plan, rows, positions)
    unique = plan.unique or plan.delete
    if plan.key_fields and set(plan.key_fields) <= set(rows.column_names):
        order = number_order([chosen(name) for name in plan.key_fields])
        if order is not None:
            return winners(order.rows, order.same, ordering) if unique else order.rows
    return sorted_rows(chosen(RECORD_KEY), unique=unique, ordering=ordering)


def _refuse_shared_keys(plan: FilePlan, rows: pa.Table, positions: Rows | None) -> None:
    parts = rows.select([*columns_of_fields(rows.schema, plan.shared), RECORD_KEY])
    parts = parts if positions is None else parts.take(from_numpy(positions))
    forms = key_forms(parts, plan.shared)
    if forms is not None:
        keys = one_chunk(parts[RECORD_KEY])
        refuse_shared_keys(keys, forms, keys)


def _ordering(plan: FilePlan, rows: pa.Table, positions: Rows | None) -> list[Any]:
    columns = ordering_columns(rows, held_fields(rows.schema, plan.ordering))
    return columns if positions is None else [column.take(from_numpy(positions)) for column in columns]
