"""The entry under which Trino's own Hudi connector reads a table.

That connector lists the table's folders itself, those of the partitions that the metastore names: of a partitioned
table without partitions in the metastore it silently reads nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.metastore import entries
from hudi_catalog.metastore.metastore import HUDI, HiveTable

READER: Final = "Trino's Hudi connector"
TARGET: Final = "hudi"


def hudi_entry(entry: HiveTable, snapshot: Snapshot, name: str, location: str) -> HiveTable:
    """The entry beside ours; partition columns stand apart from the others in it, for the connector asks for that.

    Args:
        entry: ours.
        snapshot: of the table.
        name: of the other entry.
        location: of the table, as the engine spells it.
    """
    fields = [field.lower() for field in snapshot.config.partition_fields]
    by_name = {column.name: column for column in entry.columns}
    parameters = {"EXTERNAL": "TRUE", entries.BASE_PATH: entry.parameters[entries.BASE_PATH], entries.TARGET: TARGET}
    return replace(
        entry,
        name=name,
        columns=tuple(column for column in entry.columns if column.name not in fields),
        partition_columns=tuple(by_name[field] for field in fields),
        location=location,
        format=HUDI,
        parameters=parameters,
    )
