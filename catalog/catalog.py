"""Tables by name in a warehouse: a folder under which tables lie, in folders for databases or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.table import Table
from table_format.errors import HudiError, TableNotFoundError
from table_format.storage import Storage
from table_format.table_config import PROPERTIES_PATH, TableConfig, parse_table_config

_DEPTH = 4


@dataclass(frozen=True)
class TableEntry:
    """A table of a warehouse, as far as its properties tell; it need not be of a kind that is read.

    Attributes:
        name: `database.table`, or `table` for one that lies at the top.
        path: of its folder, relative to the warehouse.
        uri: of its folder.
        config: its properties; None when they cannot be read.
        problem: why they cannot be read.
    """

    name: str
    path: str
    uri: str
    config: TableConfig | None
    problem: str | None = None


class Catalog:
    """The Hudi tables under a folder.

    Args:
        warehouse: path or URI.
        storage_options: keyword arguments for the `pyarrow.fs` file system.
        depth: how many folders deep tables are looked for.
    """

    def __init__(
        self, warehouse: str, storage_options: Mapping[str, Any] | None = None, *, depth: int = _DEPTH
    ) -> None:
        self.storage = Storage(warehouse, storage_options)
        self.depth = depth

    def tables(self) -> list[TableEntry]:
        """All tables, by name. Folders inside tables are not looked into.

        Raises:
            TableNotFoundError: there is no such folder.
        """
        entry = self.storage.entry("")
        if entry is None or not entry.is_dir:
            raise TableNotFoundError(f"{self.storage.uri}: there is no such folder")
        return sorted(self._find("", self.depth), key=lambda found: found.name)

    def load(self, name: str, *, options: Mapping[str, str] | None = None) -> Table:
        """Open a table.

        Args:
            name: `database.table`, `table`, or the path of its folder in the warehouse.
            options: as for `Table.open`.

        Raises:
            TableNotFoundError: the warehouse has no table of that name, or more than one.
        """
        direct = name.strip("/")
        if direct and ".." not in direct.split("/") and self.storage.exists(f"{direct}/{PROPERTIES_PATH}"):
            return Table.open(f"{self.storage.uri}/{direct}", self.storage.options, options=options)
        found = [entry for entry in self.tables() if name in {entry.name, entry.name.rsplit(".", 1)[-1]}]
        exact = [entry for entry in found if entry.name == name] or found
        if len(exact) != 1:
            why = "there is no table" if not exact else f"{', '.join(entry.path for entry in exact)} are all called"
            raise TableNotFoundError(f"{self.storage.uri}: {why} {name}")
        return Table.open(exact[0].uri, self.storage.options, options=options)

    def _find(self, folder: str, depth: int) -> Iterator[TableEntry]:
        entries = [entry for entry in self.storage.list(folder) if entry.is_dir]
        if any(entry.name == ".hoodie" for entry in entries) and self.storage.exists(_inside(folder, PROPERTIES_PATH)):
            yield self._entry(folder)
            return
        if depth == 0:
            return
        for entry in entries:
            if not entry.name.startswith("."):
                yield from self._find(entry.path, depth - 1)

    def _entry(self, folder: str) -> TableEntry:
        uri = f"{self.storage.uri}/{folder}" if folder else self.storage.uri
        path = _inside(folder, PROPERTIES_PATH)
        try:
            config = parse_table_config(self.storage.read(path), path)
        except HudiError as error:
            return TableEntry(_name(folder, None), folder, uri, None, str(error))
        return TableEntry(_name(folder, config), folder, uri, config)


def _inside(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _name(folder: str, config: TableConfig | None) -> str:
    """The folders' names with dots between; Hive's `.db` ending of databases is left out."""
    parts = [part for part in folder.split("/") if part]
    if not parts:
        return config.name if config else ""
    named = ".".join([*(part.removesuffix(".db") for part in parts[:-1]), parts[-1]])
    if len(parts) == 1 and config and config.database:
        return f"{config.database}.{named}"
    return named
