"""The tables that the service holds open, by the paths of their folders in the warehouse."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.catalog import Catalog
from catalog.services.held_tables import HeldTables
from catalog.services.options import ServiceOptions
from catalog.table import Table


class TableFolders(HeldTables):
    """Tables of a warehouse by path, "" for a warehouse that is a table; opened once and held.

    Args:
        warehouse: where the tables are.
        options: how much is held, and for how long.
        table_options: as for `Table.open`.
    """

    def __init__(
        self,
        warehouse: Catalog,
        options: ServiceOptions | None = None,
        *,
        table_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(options or ServiceOptions())
        self._storage = warehouse.storage
        self._table_options = dict(table_options or {})

    @property
    def uri(self) -> str:
        """Of the warehouse, as engines spell it."""
        return self._storage.full_uri("")

    def _open(self, name: str) -> Table:
        uri = self._storage.uri
        folder = f"{uri.rstrip('/')}/{name}" if name else uri
        return Table.open(folder, self._storage.options, options=self._table_options)
