"""A table that is held open for many at once, with what is known of its files' columns."""

from __future__ import annotations

from catalog.table import Table
from hudi_catalog.metastore.stored_types import StoredTypes
from hudi_catalog.server.tables import NewestState


class NewestSnapshot(NewestState):
    """The newest snapshot of a table.

    Args:
        table: to be held open.
        query_type: see `Table.snapshot`.

    Attributes:
        types: what is known of the columns of the table's files.
    """

    def __init__(self, table: Table, query_type: str) -> None:
        super().__init__(table, query_type)
        self.types = StoredTypes()
