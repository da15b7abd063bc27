"""Current versions of records that the record index locates, read where a row's key alone does not decide.

An older version must not move a record to another partition, and a row that is left out must be of the same record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import RecordIndexError
from table_format.keys.key_text import columns_of_fields
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.storage import Storage
from table_format.table.schema_history import SchemaHistory, read_columns
from table_writer.rows.key_identity import doubtful_keys, refuse_other_forms
from table_writer.rows.ordering import not_older, ordering_columns

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class GroupFiles(Protocol):
    """The base files of file groups."""

    def paths_of(self, groups: Any) -> list[str]:
        """The path of each group's newest base file.

        Args:
            groups: as `group_keys` names them.

        Raises:
            RecordIndexError: the table does not have a group.
        """


@dataclass(frozen=True)
class CurrentRows:
    """Where the current versions of records are, and which of their fields are read.

    Attributes:
        storage: the table's.
        files: of the table.
        schema: user columns of the table after the write.
        fields: what is read, `a.b` for a member of a struct.
        history: which columns the files have, see `FilePlan`.
    """

    storage: Storage
    files: GroupFiles
    schema: pa.Schema
    fields: tuple[str, ...]
    history: SchemaHistory | None = None

    def read(self, keys: Any, groups: Any) -> Iterator[tuple[Rows, pa.Table]]:
        """The rows of some record keys, a file at a time.

        Args:
            keys: record keys, unique.
            groups: the file group that has each of them by the index, see `group_keys`.

        Yields:
            Positions among the keys, and the row of each, with the columns of the fields.

        Raises:
            RecordIndexError: the table does not have a file group of the index, or that not a key of the index.
        """
        known = pa.schema([*META_FIELDS, *self.schema])
        schema = pa.schema([known.field(name) for name in (RECORD_KEY, *columns_of_fields(self.schema, self.fields))])
        encoded = groups.dictionary_encode()
        numbers = to_numpy(encoded.indices)
        for number, path in enumerate(self.files.paths_of(encoded.dictionary)):
            positions = np.flatnonzero(numbers == number)
            rows = read_columns(self.storage, path, schema, self.history)
            wanted = keys.take(from_numpy(positions))
            at = pc.index_in(wanted, value_set=one_chunk(rows[RECORD_KEY]))
            if at.null_count:
                key = wanted[int(np.flatnonzero(~valid_mask(at))[0])].as_py()
                raise RecordIndexError(
                    f"{path}: key {key!r} is not in this file, where the record index locates it: find what else is "
                    "wrong by `hudi-catalog index verify`"
                )
            yield positions, rows.take(from_numpy(to_numpy(at).astype(np.int64)))


def refuse_others_of_key(current: CurrentRows, keys: Any, groups: Any, forms: Any | None) -> None:
    """Refuse rows whose record key is that of another record of the table, before they are left out.

    Only files of keys that several records may have are read.

    Args:
        current: which reads the fields of the record key, as `shared_fields` gives them.
        keys: record keys that the index locates, unique.
        groups: the file group of each, see `group_keys`.
        forms: of the rows to write, see `key_forms`; None for none.

    Raises:
        RecordError: there are such rows.
        RecordIndexError: see `CurrentRows.read`.
    """
    doubtful = doubtful_keys(keys, current.fields)
    if doubtful is None:
        return
    chosen = from_numpy(doubtful)
    keys, groups = keys.take(chosen), groups.take(chosen)
    forms = pa.nulls(len(keys), pa.string()) if forms is None else forms.take(chosen)
    for positions, rows in current.read(keys, groups):
        taken = from_numpy(positions)
        refuse_other_forms(rows, forms.take(taken), keys.take(taken), current.fields)


def lost_moves(current: CurrentRows, keys: Any, groups: Any, ordering: Mapping[int, Any]) -> Mask:
    """Which of some new versions are older than the table's, so that nothing may come of them.

    Only key and ordering columns of the files that have such records are read, one file at a time.

    Args:
        current: which reads the ordering fields.
        keys: record keys, unique.
        groups: the file group that has each of them by the index, see `group_keys`.
        ordering: ordering values of the new versions, see `ordering_columns`, by the place of their field among
            those that are read; those of fields that the batch lacks are null.

    Raises:
        RecordIndexError: see `CurrentRows.read`.
    """
    lost = np.zeros(len(keys), np.bool_)
    for positions, old in current.read(keys, groups):
        present = ordering_columns(old, current.fields)
        coming = [
            ordering[place].take(from_numpy(positions)) if place in ordering else pa.nulls(len(positions), column.type)
            for place, column in enumerate(present)
        ]
        lost[positions] = ~not_older(coming, present, len(positions))
    return lost
