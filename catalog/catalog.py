"""Tables by name in a warehouse: a folder with tables in it, or with folders of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.concurrency.late_tables import LateTables
from catalog.concurrency.workers import each
from catalog.table import Table
from table_format.config.table_config import PROPERTIES_PATH, TableConfig, parse_table_config
from table_format.errors import ArgumentError, HudiError, TableNotFoundError
from table_format.storage import Storage
from table_format.table.client import TableClient

_DEPTH = 4
_LISTING_THREADS = 8


@dataclass(frozen=True)
class TableEntry:
    """A table of a warehouse, as its `hoodie.properties` describe it; it need not be of a supported kind.

    Attributes:
        name: `database.table`, or `table` for one at the top level.
        path: of its folder, relative to the warehouse.
        uri: of its folder.
        config: its properties; None when they cannot be read.
        problem: why they, or what `Catalog.tables` was asked to look at, cannot be read.
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
        depth: greatest depth of the folders that are searched.
        outside_links: whether symbolic links that lead out of the warehouse are followed.
        late: watches over tables whose storage does not answer, such as a mount whose server is gone: `tables` lists
            the others. None for one with the default limit.

    Attributes:
        storage: of the warehouse.
        depth: greatest depth of the folders searched.
        late: watches for tables whose storage hangs.
        within: folder that links must not lead out of; None if they may.

    Raises:
        OptionError: the path or URI names no file system that is known.
    """

    def __init__(
        self,
        warehouse: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        depth: int = _DEPTH,
        outside_links: bool = True,
        late: LateTables | None = None,
    ) -> None:
        storage = Storage(warehouse, storage_options)
        self.within = storage.base if storage.is_local and not outside_links else None
        self.storage = Storage(warehouse, storage_options, self.within)
        self.depth = depth
        self.late = LateTables() if late is None else late

    def tables(self, *, newest: bool = False) -> list[TableEntry]:
        """All tables, by name; folders inside tables are not searched.

        A folder that cannot be read, or whose storage does not answer in time, is an entry with that problem.

        Args:
            newest: whether to list the timeline of each and read its newest commit, too; no data file is opened.

        Raises:
            TableNotFoundError: there is no such folder.
            StorageError: it cannot be listed.
        """
        self.check()
        entries: list[TableEntry] = []
        folders = [""]
        for _ in range(self.depth + 1):
            below: list[str] = []
            contents = each(folders, lambda folder: self._search(folder, newest=newest), _LISTING_THREADS, "hudi-list")
            for folder, content in zip(folders, contents, strict=True):
                if isinstance(content, TableEntry):
                    entries.append(content)
                elif not isinstance(content, Exception):
                    below += content
                elif folder and isinstance(content, HudiError):
                    entries.append(self._problem(folder, content))
                else:
                    raise content
            folders = below
        return sorted(entries, key=lambda entry: entry.name)

    def check(self) -> None:
        """Check that the folder is there and can be listed.

        Raises:
            TableNotFoundError: there is no such folder.
            StorageError: it cannot be listed.
        """
        entry = self.storage.entry("")
        if entry is None:
            raise TableNotFoundError(f"{self.storage.uri}: there is no such folder")
        if not entry.is_dir:
            raise TableNotFoundError(f"{self.storage.uri} is a file, and not a folder with tables")
        self.storage.check_folder()

    def load(self, name: str, *, options: Mapping[str, str] | None = None) -> Table:
        """Open a table.

        Args:
            name: `database.table`, `table`, or the path of its folder in the warehouse.
            options: as for `Table.open`.

        Raises:
            ArgumentError: the name is no text.
            OptionError: an option is unknown, or its value does not fit it.
            TableNotFoundError: the warehouse has no table of that name, or more than one.
            UnsupportedTableError: the table is of a version or kind that is not read.
        """
        if not isinstance(name, str):
            raise ArgumentError(f"the name of a table is a text, not {name!r}")
        direct = name.strip("/")
        if direct and ".." not in direct.split("/") and self.storage.exists(f"{direct}/{PROPERTIES_PATH}"):
            return self._open(f"{self.storage.uri}/{direct}", options)
        usual = [path for path in _usual_paths(name) if self.storage.exists(f"{path}/{PROPERTIES_PATH}")]
        if len(usual) == 1 and self.depth >= 2:  # without listing the warehouse
            return self._open(f"{self.storage.uri}/{usual[0]}", options)
        entries = [entry for entry in self.tables() if name in {entry.name, entry.name.rsplit(".", 1)[-1]}]
        exact = [entry for entry in entries if entry.name == name] or entries
        if len(exact) != 1:
            why = "there is no table" if not exact else f"{', '.join(entry.path for entry in exact)} are all called"
            raise TableNotFoundError(f"{self.storage.uri}: {why} {name}")
        return self._open(exact[0].uri, options)

    def _open(self, uri: str, options: Mapping[str, str] | None) -> Table:
        return Table.open(Storage(uri, self.storage.options, self.within), options=options)

    def _search(self, folder: str, *, newest: bool) -> TableEntry | list[str]:
        """The table in a folder, or the folders to search next."""
        storage = self.storage
        with self.late.working(folder or storage.uri, storage.full_path(folder), self._probe(folder), own_calls=True):
            storage.check_within(folder)
            if storage.is_local and not storage.is_dir(folder):  # a link to something else
                return []
            names = storage.folders(folder)
            if ".hoodie" in names and storage.exists(_inside(folder, PROPERTIES_PATH)):
                return self._entry(folder, newest=newest)
            return [_inside(folder, name) for name in names if not name.startswith(".")]

    def _probe(self, folder: str) -> Callable[[], object]:
        return lambda: self.storage.exists(_inside(folder, PROPERTIES_PATH))

    def _problem(self, folder: str, error: HudiError) -> TableEntry:
        return TableEntry(_name(folder, None), folder, f"{self.storage.uri}/{folder}", None, str(error))

    def _entry(self, folder: str, *, newest: bool) -> TableEntry:
        uri = f"{self.storage.uri}/{folder}" if folder else self.storage.uri
        path = _inside(folder, PROPERTIES_PATH)
        try:
            config = parse_table_config(self.storage.read(path), path)
        except HudiError as error:
            return self._problem(folder, error)
        problem = self._problem_of_newest(uri, config) if newest else None
        return TableEntry(_name(folder, config), folder, uri, config, problem)

    def _problem_of_newest(self, uri: str, config: TableConfig) -> str | None:
        try:
            # the schema is what every reader needs of the newest commit
            TableClient(Storage(uri, self.storage.options, self.within), config).table_schema_json()
        except HudiError as error:
            return str(error)
        return None


def _usual_paths(name: str) -> list[str]:
    """Where a table of a name with its database's is by the convention of Hive, or of folders for databases."""
    database, _, table = name.partition(".")
    if not (database and table) or not {".", "/"}.isdisjoint(table) or "/" in database:
        return []
    return [f"{database}.db/{table}", f"{database}/{table}"]


def _inside(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _name(folder: str, config: TableConfig | None) -> str:
    """The names of the folders joined by dots; the `.db` ending of Hive's databases is left out."""
    parts = [part for part in folder.split("/") if part]
    if not parts:
        return config.name if config else ""
    named = ".".join([*(part.removesuffix(".db") for part in parts[:-1]), parts[-1]])
    if len(parts) == 1 and config and config.database:
        return f"{config.database}.{named}"
    return named
