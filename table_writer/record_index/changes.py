"""What a slot changes in the record index, left in one file for the commit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy
from table_format.metadata_table.record_index_entries import CHANGES_SCHEMA
from table_writer.metadata.index_deltas import DeltaFile, write_delta
from table_writer.plan.plan import FilePlan, TaskIdentity


class IndexChanges:
    """Collects the keys that a slot put into its files or took out of them."""

    def __init__(self, plan: FilePlan, task: TaskIdentity) -> None:
        self._plan = plan
        self._name = task.token
        self._tables: list[pa.Table] = []

    def add(self, partition: str, file_id: str, inserted: Any, deleted: Any) -> None:
        """Keys of one file group; nothing is kept where the table has no index."""
        if self._plan.index is None:
            return
        for keys, place in ((inserted, file_id), (deleted, None)):
            if len(keys):
                count = len(keys)
                columns = [
                    keys,
                    _repeated(partition, count),
                    _repeated(place, count),
                    from_numpy(np.full(count, place is None)),
                ]
                self._tables.append(pa.Table.from_arrays(columns, schema=CHANGES_SCHEMA))

    def write(self) -> DeltaFile | None:
        """Leave them in a file; None when there are none."""
        plan = self._plan
        if plan.index is None or not self._tables:
            return None
        changes = pa.concat_tables(self._tables)
        return write_delta(plan.storage, plan.index_folder, self._name, plan.index, changes)


def _repeated(text: str | None, count: int) -> Any:
    repeat: Any = pa.repeat
    return repeat(pa.scalar(text, pa.string()), count)
