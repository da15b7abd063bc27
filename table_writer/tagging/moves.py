"""Records that move to another partition, with ordering values: an older version must not move a record."""

from __future__ import annotations

from collections.abc import Mapping
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
from table_writer.rows.ordering import not_older, ordering_columns

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
class MovePlan:
    """Where the current versions of records are.

    Attributes:
        storage: the table's.
        files: of the table.
        schema: user columns of the table after the write.
        fields: ordering fields.
        history: which columns the files have, see `FilePlan`.
    """

    storage: Storage
    files: GroupFiles
    schema: pa.Schema
    fields: tuple[str, ...]
    history: SchemaHistory | None = None


def lost_moves(plan: MovePlan, keys: Any, groups: Any, ordering: Mapping[int, Any]) -> Mask:
    """Which of some new versions are older than the table's, so that nothing may come of them.

    Only key and ordering columns of the files that have such records are read, one file at a time.

    Args:
        plan: see `MovePlan`.
        keys: record keys, unique.
        groups: the file group that has each of them by the index, see `group_keys`.
        ordering: ordering values of the new versions, see `ordering_columns`, by the place of their field among the
            plan's; those of fields that the batch lacks are null.

    Raises:
        RecordIndexError: the table does not have a file group of the index, or that not a key of the index.
    """
    lost = np.zeros(len(keys), np.bool_)
    known = pa.schema([*META_FIELDS, *plan.schema])
    schema = pa.schema([known.field(name) for name in (RECORD_KEY, *columns_of_fields(plan.schema, plan.fields))])
    encoded = groups.dictionary_encode()
    numbers = to_numpy(encoded.indices)
    for number, path in enumerate(plan.files.paths_of(encoded.dictionary)):
        positions = np.flatnonzero(numbers == number)
        old = read_columns(plan.storage, path, schema, plan.history)
        wanted = keys.take(from_numpy(positions))
        at = pc.index_in(wanted, value_set=one_chunk(old[RECORD_KEY]))
        if at.null_count:
            key = wanted[int(np.flatnonzero(~valid_mask(at))[0])].as_py()
            raise RecordIndexError(
                f"{path}: key {key!r} is not in this file, where the record index locates it: find what else is wrong "
                "by `hudi-catalog index verify`"
            )
        places = from_numpy(to_numpy(at).astype(np.int64))
        present = [column.take(places) for column in ordering_columns(old, plan.fields)]
        coming = [
            ordering[place].take(from_numpy(positions)) if place in ordering else pa.nulls(len(positions), column.type)
            for place, column in enumerate(present)
        ]
        lost[positions] = ~not_older(coming, present, len(positions))
    return lost
