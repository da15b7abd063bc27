"""The tables that a statement of SQL names: those it reads answer for it, and the one it writes is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from catalog.table import SNAPSHOT, Table
from spark_writer.read.names import query_type_of, quoted_name, session_names
from spark_writer.session import SPARK_CATALOG, entry_place, table_entry
from table_format.errors import OptionError, TableNotFoundError
from table_format.storage import Storage
from table_writer.in_place.words import mentioned_tables, with_replaced_paths

#: The database whose tables are paths.
PATHS: Final = "hudi_catalog"


class StatementNames:
    """The names in a statement, in this order: a path, a temporary view, an entry of the session's catalog.

    Args:
        session: a classic one with pinned threads.
        options: for reading, of tables that are opened here.
        storage_options: likewise.

    Raises:
        UnsupportedTableError: the session is not such a one.
    """

    def __init__(
        self, session: SparkSession, options: Mapping[str, str], storage_options: Mapping[str, Any] | None
    ) -> None:
        self._session = session
        self._names = session_names(session)
        self._options = options
        self._storage_options = storage_options

    def query(self, text: str) -> DataFrame:
        """The rows of a query, whose Hudi tables are at their newest state."""
        return self._session.sql(self.answered(text))

    def answered(self, text: str) -> str:
        """A query or an expression, whose Hudi tables answer."""
        text = with_replaced_paths(text, PATHS, lambda path: self._names.call(self._open(path)))
        for parts in mentioned_tables(text):
            self._answer(parts)
        return text

    def written(self, parts: Sequence[str]) -> Storage | str:
        """The place of a table that is written.

        Raises:
            TableNotFoundError: no Hudi table has the name.
            OptionError: Spark cannot load the entry, or it is one of read-optimised queries.
        """
        if len(parts) == 2 and parts[0].casefold() == PATHS and "/" in parts[1]:
            return parts[1]
        if len(parts) == 1:
            table = self._names.table_of_view(parts[0])
            if table is not None:
                return table.client.storage
        entry = self._entry(parts)
        if query_type_of(entry) != SNAPSHOT:
            name = ".".join(parts)
            raise OptionError(f"{name} shows base files only: write to the entry that shows the log files, too")
        return entry_place(entry)

    def _answer(self, parts: Sequence[str]) -> None:
        """Let an entry of the session's catalog answer, if it is a Hudi table's."""
        try:
            if len(parts) == 1 and self._names.is_view(parts[0]):
                return
            entry = self._entry(parts)
        except TableNotFoundError:
            return  # Spark knows it, or says that nobody does
        if not self._names.answers(entry):
            self._names.add_entry(entry, self._open(entry_place(entry)), query_type_of(entry))

    def _entry(self, parts: Sequence[str]) -> Any:
        home, *rest = parts
        own = rest if len(parts) > 2 and home.casefold() == SPARK_CATALOG else parts
        if len(own) > 2:
            raise TableNotFoundError(f"{'.'.join(parts)}: only the session's own catalog is looked up")
        return table_entry(self._session, ".".join(map(quoted_name, own)))

    def _open(self, place: str) -> Table:
        return Table.open(place, self._storage_options, options=self._options)
