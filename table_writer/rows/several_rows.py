"""Records of which a table has several rows, since inserts left them there: what a change of some of them does.

A write finds rows by their record keys. A change by a condition is exact only where all rows of each record that it
changes fulfil the condition, and where an update makes one row of each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.errors import RecordError
from table_format.meta_columns import FILE_NAME
from table_writer.plan.plan import FROM_COLUMN
from table_writer.rows.merge import Rows

_NUMBER = pa.field(FROM_COLUMN, pa.int64())
_REMEDY = (
    "Write their partitions anew by insert_overwrite; or, where buckets find records, delete these by key, and insert "
    "them anew"
)


@dataclass(frozen=True, slots=True)
class Several:
    """The records of which a write changes several rows of one file.

    Attributes:
        records: how many there are.
        updated: how many of them it updates.
        key: of one of them.
    """

    records: int = 0
    updated: int = 0
    key: str = ""

    @classmethod
    def of(cls, new_keys: Any, by: Rows, gone: Any, distinct: Any) -> Several:
        """Those of some changes to a file's rows.

        Args:
            new_keys: keys of the new rows.
            by: the new row that each replaced row takes the values of.
            gone: keys of the rows that are deleted.
            distinct: the same keys, each once.
        """
        taken = np.flatnonzero(np.bincount(by) > 1)
        updated = cls(len(taken), len(taken), new_keys[int(taken[0])].as_py()) if len(taken) else cls()
        if len(distinct) == len(gone):
            return updated
        counts = pc.value_counts(gone)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        return cls.total((updated, cls(len(repeated), 0, repeated.field("values")[0].as_py())))

    @classmethod
    def total(cls, parts: Iterable[Several]) -> Several:
        """The sum."""
        known = [part for part in parts if part.records]
        records, updated = sum(part.records for part in known), sum(part.updated for part in known)
        return cls(records, updated, known[0].key if known else "")


def group_number(file_id: str) -> int:
    """A number of a file group: the checksum of its id, which Spark's SQL has, too. Rows carry it at little cost."""
    return zlib.crc32(file_id.encode())


def numbered_schema(schema: pa.Schema) -> pa.Schema:
    """The columns that `with_numbers` returns."""
    return pa.schema([_NUMBER if field.name == FILE_NAME else field for field in schema])


def with_numbers(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the numbers of their file groups in place of the names of their files; others as they are."""
    columns = [
        _numbers(column) if field.name == FILE_NAME else column
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=numbered_schema(rows.schema))


def _numbers(names: Any) -> Any:
    encoded = names.dictionary_encode()
    numbers = [group_number(name.partition("_")[0]) for name in encoded.dictionary.to_pylist()]
    return pa.array(numbers, _NUMBER.type).take(encoded.indices)


def several_rows(records: int, key: object, reason: str) -> RecordError:
    """The refusal of a change by a condition that would change other rows than it selects.

    Args:
        records: how many have several rows.
        key: of one of them.
        reason: what would happen.
    """
    return RecordError(
        f"{records} record(s) have several rows in the table, such as {key!r}, and a change finds rows by their record "
        f"keys: {reason}. {_REMEDY}"
    )


def refuse_inexact(matched: int, changed: int, several: Several) -> None:
    """Refuse a change that would not be that of the rows which its condition selects.

    Args:
        matched: how many rows it selects.
        changed: how many rows of the table would be replaced or removed.
        several: the records of which several rows would be.

    Raises:
        RecordError: other rows would change, or fewer, or the rows of a record would become copies of one.
    """
    reason = f"{matched} row(s) match, and {changed} would change"
    if several.records and changed != matched:
        raise several_rows(several.records, several.key, reason)
    if changed > matched:
        raise RecordError(f"records have several rows in the table, in several files of a bucket: {reason}. {_REMEDY}")
    if changed < matched:
        raise RecordError(
            f"{matched} row(s) were computed, and {changed} would change: either an expression makes several rows of "
            "one, or rows are not where their values say"
        )
    if several.updated:
        raise several_rows(several.updated, several.key, "all of its rows would get the values of one")
