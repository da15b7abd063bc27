"""What the driver tells the workers: plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from table_format.keys.bucket_index import BucketHashRule
from table_format.keys.key_generator import KeyGenerator, KeySpec
from table_format.storage import Storage
from table_writer.plan.operations import Duplicates
from table_writer.plan.path_limits import PathLimits

if TYPE_CHECKING:
    from table_format.metadata_table.record_index_layout import IndexLayout
    from table_format.table.schema_history import SchemaHistory

BUCKET_COLUMN = "_hudi_catalog_bucket"
"""Name under which rows carry their bucket, or the number of their file group, from the first stage to the second."""

GONE_COLUMN = "_hudi_catalog_gone"
"""Name of a column of booleans: true on rows that only delete their key in their file group, whatever its ordering
values are there, such as the old place of a record that moves to another partition."""

_CURRENT: dict[str, pa.DataType] = {
    "partition": pa.string(),
    "bucket": pa.int32(),
    "file_id": pa.string(),
    "instant": pa.string(),
    "path": pa.string(),
}
CURRENT_SCHEMA = pa.schema(_CURRENT)
"""Columns of the table of current base files."""


@dataclass(frozen=True)
class KeyPlan:
    """How keys, partitions and buckets come from rows.

    Attributes:
        spec: the table's key rules.
        hash_rule: generation of Apache's bucket hash.
        hash_fields: fields that decide the bucket; all key fields when empty.
        buckets: file groups per partition.
        indexed: the keys go into a record index, which does not take them in any length.
    """

    spec: KeySpec
    hash_rule: BucketHashRule
    hash_fields: tuple[str, ...]
    buckets: int
    indexed: bool = False

    @property
    def generator(self) -> KeyGenerator:
        """The key generator."""
        return KeyGenerator(self.spec, self.hash_rule)


@dataclass(frozen=True)
class SplitPlan:
    """The first stage: rows to slots. A slot is what one task of the second stage writes.

    Attributes:
        keys: see `KeyPlan`.
        schema: user columns of the batch, in the types of the table, to which the rows are cast.
        payload: names of the columns that go on to the second stage, besides the keys.
        slots: how many there are.
        flush_bytes: rows that a task collects before it splits them.
        limits: of partition paths; None for none.
    """

    keys: KeyPlan
    schema: pa.Schema
    payload: tuple[str, ...]
    slots: int
    flush_bytes: int
    limits: PathLimits | None = None


@dataclass(frozen=True)
class FilePlan:
    """The second stage: a slot's rows to base files.

    Attributes:
        storage: the table's.
        instant: of the write.
        schema: user columns of the table after the write.
        footer_schema: the Avro schema with meta columns, for the files.
        current: base files as of the start of the write, of `CURRENT_SCHEMA`; empty where the write replaces them.
        unique: keep one row a key of the batch.
        duplicates: what becomes of rows whose key is in the file.
        delete: the rows are keys to delete.
        ordering: ordering fields for the batch's rows against each other.
        event_time: the greater ordering value wins against the file's rows too.
        indexed: columns with statistics in the metadata table; None for no statistics.
        file_options: options of base files.
        footer_texts: further keys of their footers.
        bucketed: the bucket column holds buckets, after which new file groups are named; else numbers of file groups,
            those of new groups in no row of `current`.
        partial: the batch's columns only are written; the others of records that are there keep their values.
        index: the record index that the write keeps up to date; None when it keeps none.
        index_folder: where the slots leave what they changed in it, relative to the storage.
        as_they_come: the rows are in the order that files shall have; else they are sorted by key.
        history: which columns the current files have, where the table's have ids; None where they go by names.
    """

    storage: Storage
    instant: str
    schema: pa.Schema
    footer_schema: str
    current: pa.Table
    unique: bool
    duplicates: Duplicates = Duplicates.MERGE
    delete: bool = False
    ordering: tuple[str, ...] = ()
    event_time: bool = False
    indexed: tuple[str, ...] | None = None
    file_options: Mapping[str, str] = field(default_factory=dict)
    footer_texts: Mapping[str, str] = field(default_factory=dict)
    bucketed: bool = True
    partial: bool = False
    index: IndexLayout | None = None
    index_folder: str = ""
    as_they_come: bool = False
    history: SchemaHistory | None = None


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Which attempt of which task writes.

    Attributes:
        number: of the task within its stage; part of the sequence numbers.
        token: `<task>-<stage>-<attempt>`: tells the files of retried and speculative attempts apart.
    """

    number: int
    token: str
