"""The tables that a service holds open, by their names in its warehouse."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.catalog import Catalog, TableEntry
from hudi_catalog.server.held_tables import HeldTable, HeldTables
from hudi_catalog.server.newest_state import SharedLook
from hudi_catalog.server.options import ServiceOptions
from table_format.errors import TableNotFoundError


class OpenTables(HeldTables):
    """Tables of a warehouse by name, opened once and held.

    Args:
        warehouse: where the tables are; names are those that it gives them.
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
        super().__init__(warehouse, options, table_options=table_options)
        self._listing = SharedLook(self._listed)

    @property
    def uri(self) -> str:
        """Of the warehouse."""
        return self.warehouse.storage.uri

    def names(self, *, fresh: bool = False, unread: bool = False) -> list[str]:
        """Names of the tables whose properties can be read; the list may be some seconds old.

        Args:
            fresh: with every table that was there when this was called.
            unread: those whose properties cannot be read instead; to open one gives the reason.

        Raises:
            HudiError: the warehouse cannot be listed.
        """
        listed = self._listing.get(0 if fresh else self._options.listing_seconds)
        return sorted(name for name, entries in listed.items() if any(entry.config for entry in entries) != unread)

    def _place(self, name: str) -> str:
        return self._entry(name).uri

    def _folder(self, name: str) -> str:
        return self.warehouse.storage.full_path(self._entry(name).path)

    def _folders(self) -> set[str]:
        listed = self._listing.last or {}
        full_path = self.warehouse.storage.full_path
        return {full_path(entry.path) for entries in listed.values() for entry in entries}

    def _let_go(self, name: str, held: HeldTable) -> None:
        super()._let_go(name, held)
        self._listing.forget()

    def _entry(self, name: str) -> TableEntry:
        entries = self._listing.get(self._options.listing_seconds).get(name)
        if not entries:
            entries = self._listing.get().get(name, [])
        if len(entries) != 1:
            paths = " and ".join(entry.path for entry in entries)
            raise TableNotFoundError(f"{self.uri}: {f'{paths} are both' if paths else 'there is no table'} {name}")
        return entries[0]

    def _listed(self) -> dict[str, list[TableEntry]]:
        listed: dict[str, list[TableEntry]] = {}
        for entry in self.warehouse.tables():
            listed.setdefault(entry.name, []).append(entry)
        return listed
