"""The plans that the driver sends to workers: plain values that pickle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from table_format.keys.bucket_index import BucketHashRule
from table_format.keys.key_generator import KeyGenerator, KeySpec
from table_format.keys.partition_buckets import BucketRules
from table_format.storage import Storage
from table_writer.plan.operations import Duplicates
from table_writer.plan.path_limits import PathLimits

if TYPE_CHECKING:
    from table_format.metadata_table.record_index_layout import IndexLayout
    from table_format.table.schema_history import SchemaHistory

BUCKET_COLUMN = "_hudi_catalog_bucket"
"""Name under which rows carry their bucket, or the number of their file group, from the first stage to the second."""

HOME_COLUMN = "_hudi_catalog_home"
"""Name under which rows carry their bucket where it may have several file groups; `BUCKET_COLUMN` has one of them."""

GONE_COLUMN = "_hudi_catalog_gone"
"""Name of a boolean column: true on rows that only delete their key in their file group, regardless of ordering values,
such as the old location of a record that moves to another partition."""

FRESH_COLUMN = "_hudi_catalog_fresh"
"""Name of a boolean column: true on rows whose key the record index lacks, where they go into files that have rows."""

FROM_COLUMN = "_hudi_catalog_from"
"""Name under which rows that a condition selected from the table carry a number of their file group, where an index
finds records: it may know another row of the key. See `group_number`."""

_CURRENT: dict[str, pa.DataType] = {
    "partition": pa.string(),
    "bucket": pa.int32(),
    "file_id": pa.string(),
    "instant": pa.string(),
    "path": pa.string(),
}
CURRENT_SCHEMA = pa.schema(_CURRENT)
"""Columns of the table of current base files."""


@dataclass(frozen=True, slots=True)
class CurrentFile:
    """The newest base file of a file group.

    Attributes:
        file_id: of the group.
        instant: that wrote it.
        path: of the file.
    """

    file_id: str
    instant: str
    path: str


class BaseFiles(Protocol):
    """The newest base file of each file group that a write may merge rows into."""

    def load(self, partitions: Iterable[str]) -> None:
        """Look up the files of several partitions at once, before `find` is called for each."""

    def find(self, partition: str, number: int) -> CurrentFile | None:
        """The file of a partition's bucket, or of the file group with that number; None for a new group."""


class ListedFiles:
    """Base files from a table of `CURRENT_SCHEMA`."""

    def __init__(self, table: pa.Table) -> None:
        self._files: dict[tuple[str, int], CurrentFile] = {}
        for row in table.to_pylist():
            place = row.pop("partition"), row.pop("bucket")
            self._files.setdefault(place, CurrentFile(**row))

    def load(self, partitions: Iterable[str]) -> None:
        """Do nothing, since all files are known."""

    def find(self, partition: str, number: int) -> CurrentFile | None:
        """The file of a group."""
        return self._files.get((partition, number))


@dataclass(frozen=True)
class KeyPlan:
    """How keys, partitions and buckets come from rows.

    Attributes:
        spec: the table's key rules.
        hash_rule: generation of Apache's bucket hash.
        hash_fields: fields that decide the bucket; all key fields when empty.
        buckets: file groups per partition, of the one with most.
        rules: how many each partition has; None where all have the same number.
        indexed: the keys go into a record index, which limits their length.
    """

    spec: KeySpec
    hash_rule: BucketHashRule
    hash_fields: tuple[str, ...]
    buckets: int
    rules: BucketRules | None = None
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
        payload: names of the columns for the second stage, besides the keys.
        slots: how many there are.
        flush_bytes: bytes of rows that a task collects before it splits them.
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
        current: base files as of the start of the write; none where the write replaces them.
        unique: keep one row per key of the batch.
        duplicates: what happens to rows whose key is in the file.
        delete: the rows are keys to delete.
        ordering: ordering fields for the batch's rows against each other.
        event_time: the greater ordering value wins against the file's rows too.
        indexed: columns with statistics in the metadata table; None for no statistics.
        file_options: options of base files.
        footer_texts: further keys of their footers.
        bucketed: the bucket column holds buckets, from which new file groups are named; else it holds numbers of file
            groups, and new groups have numbers that are not in `current`.
        created: buckets of new file groups by number, in a table whose buckets have several.
        partial: only the batch's columns are written; other columns of existing records keep their values.
        index: layout of the record index to update; None for none.
        index_folder: folder for the slots' changes to it, relative to the storage.
        as_they_come: rows are written in the order in which they come; else sorted by key.
        history: which columns the current files have, where the table's have ids; None if columns go by name.
        key_fields: the columns that the record key is made of, in its order; empty where that is not known.
        shared: these, where two records may have one text of their key; see `key_identity.shared_fields`.
    """

    storage: Storage
    instant: str
    schema: pa.Schema
    footer_schema: str
    current: BaseFiles
    unique: bool
    duplicates: Duplicates = Duplicates.MERGE
    delete: bool = False
    ordering: tuple[str, ...] = ()
    event_time: bool = False
    indexed: tuple[str, ...] | None = None
    file_options: Mapping[str, str] = field(default_factory=dict)
    footer_texts: Mapping[str, str] = field(default_factory=dict)
    bucketed: bool = True
    created: Mapping[int, int] = field(default_factory=dict)
    partial: bool = False
    index: IndexLayout | None = None
    index_folder: str = ""
    as_they_come: bool = False
    history: SchemaHistory | None = None
    key_fields: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Which attempt of which task writes.

    Attributes:
        number: of the task within its stage; part of the sequence numbers.
        token: `<task>-<stage>-<attempt>`: tells the files of retried and speculative attempts apart.
    """

    number: int
    token: str
