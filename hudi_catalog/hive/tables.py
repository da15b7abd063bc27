"""The tables that the service holds open, by the paths of their folders in the warehouse."""

from __future__ import annotations

from hudi_catalog.server.tables import HeldTables


class TableFolders(HeldTables):
    """Tables of a warehouse by path, "" for a warehouse that is a table; opened once and held."""

    @property
    def uri(self) -> str:
        """Of the warehouse, as engines spell it."""
        return self.warehouse.storage.full_uri("")

    def _folder(self, name: str) -> str:
        return self.warehouse.storage.full_path(name)

    def _place(self, name: str) -> str:
        uri = self.warehouse.storage.uri
        return f"{uri.rstrip('/')}/{name}" if name else uri
