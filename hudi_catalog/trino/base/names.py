"""Names in Trino of schemas, tables and columns.

Trino's Thrift connector accepts ``[a-z][a-z0-9_]*`` only, and one other name makes the listing of all tables and
columns fail. `valid_name` spells names accordingly. A table `db.trips` is `trips` in schema `db`; tables without a
database are in schema `default`. `trips__at_20260101120000000` is the table as of that instant, which may also have 14
digits (a second) or 8 (the beginning of a day).
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from threading import Lock
from time import monotonic
from typing import NamedTuple

from catalog.concurrency.workers import each
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.server.tables import WarehouseTables
from table_format.errors import HudiError, LateTableError, TableNotFoundError

_VALID = re.compile(r"[a-z][a-z0-9_]*\Z")


def is_valid(name: str) -> bool:
    """Whether the connector accepts a name."""
    return _VALID.match(name) is not None


def valid_name(name: str, prefix: str) -> str:
    """The spelling of a name in Trino; different names may be spelled alike.

    Leading underscores are dropped (``_hoodie_commit_time`` is ``hoodie_commit_time``), letters lose their accents,
    other letters become their code point (``u6570``), and other characters underscores.

    Args:
        name: in the table or the warehouse.
        prefix: a lower-case letter, put before a spelling that does not begin with a letter.
    """
    lowered = name.lower()
    if is_valid(lowered):
        return lowered
    text = "".join(map(_ascii, unicodedata.normalize("NFKD", name).lower())).lstrip("_")
    return text if is_valid(text) else f"{prefix}_{text}"


def _ascii(character: str) -> str:
    if character.isascii():
        return character if character.isalnum() else "_"
    if unicodedata.combining(character):
        return ""
    return f"u{ord(character):04x}" if character.isalnum() else "_"


def column_names(names: Sequence[str]) -> list[str]:
    """The names in Trino of a table's columns, all different.

    Names are spelled by `valid_name`; a spelling that is taken gets a number: ``name_2``. Names that are valid as they
    are take precedence over those that differ in case, and these over all others.

    Args:
        names: of the table's columns, all different.
    """
    renamed: dict[str, str] = {}
    taken: set[str] = set()
    for spelling in (str, str.lower, _column_name):
        for name in names:
            if name in renamed or not is_valid(spelling(name)):
                continue
            if spelling is _column_name or spelling(name) not in taken:
                renamed[name] = _numbered(spelling(name), taken)
                taken.add(renamed[name])
    return [renamed[name] for name in names]


def _numbered(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _column_name(name: str) -> str:
    return valid_name(name, "c")


_LOG = logging.getLogger(__name__)
DEFAULT_SCHEMA = "default"
_AT_AN_INSTANT = re.compile(r"(.+)__at_(\d{17}|\d{14}|\d{8})\Z")
_DAY_DIGITS = 8
_CHECK_THREADS = 8

# How long a table counts as readable, or as unreadable, before it is checked again.
_READABLE_SECONDS, _UNREADABLE_SECONDS = 600.0, 30.0


class TableName(NamedTuple):
    """A table's name in Trino.

    Attributes:
        schema: `default` for a table without a database.
        table: may end with `__at_` and an instant.
    """

    schema: str
    table: str

    @classmethod
    def of(cls, name: str) -> TableName:
        """The name in Trino of a table of the warehouse; the text before the last dot is the schema."""
        schema, _, table = name.rpartition(".")
        return cls(valid_name(schema, "s") if schema else DEFAULT_SCHEMA, valid_name(table, "t"))

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class NamedTable(NamedTuple):
    """A table of the warehouse, found by its name in Trino.

    Attributes:
        requested: the name in Trino.
        name: the name in the warehouse.
        when: an instant or a date; None for the newest snapshot.
    """

    requested: TableName
    name: str
    when: str | None = None


class TableNames:
    """Lists the tables of a warehouse, and finds them by their names in Trino. Thread-safe.

    Args:
        tables: of the warehouse.
    """

    def __init__(self, tables: WarehouseTables) -> None:
        self._tables = tables
        self._lock = Lock()
        self._checked: dict[str, tuple[bool, float]] = {}
        self._known: dict[TableName, str] = {}

    def schemas(self) -> list[str]:
        """Names of the schemas that have tables."""
        return sorted({name.schema for name in self._by_name()})

    def readable(self, schema: str | None = None) -> list[TableName]:
        """The readable tables of one schema or of all.

        Trino requests the columns of all listed tables, and shows none if one of them fails.
        """
        matching = [(key, names) for key, names in sorted(self._by_name().items()) if schema in {None, key.schema}]
        unambiguous = [(key, names[0]) for key, names in matching if len(names) == 1]
        checks = each([name for _, name in unambiguous], self._is_readable, _CHECK_THREADS, "hudi-list")
        tables: list[TableName] = []
        for (key, _), readable in zip(unambiguous, checks, strict=True):
            if isinstance(readable, Exception) and not isinstance(readable, LateTableError):
                raise readable
            if readable is True:
                tables.append(key)
        return tables

    def find(self, requested: TableName) -> NamedTable | None:
        """The table of a name; None when there is none.

        Raises:
            TableNotFoundError: the names of several tables are spelled so.
        """
        name = self._name_of(requested)
        if name is not None:
            return NamedTable(requested, name)
        past = _AT_AN_INSTANT.match(requested.table)
        name = None if past is None else self._name_of(TableName(requested.schema, past[1]))
        return None if past is None or name is None else NamedTable(requested, name, _instant_or_date(past[2]))

    def require(self, requested: TableName) -> NamedTable:
        """The table of a name.

        Raises:
            TableNotFoundError: there is none, or several.
        """
        table = self.find(requested)
        if table is None:
            raise TableNotFoundError(f"{self._tables.uri}: there is no table {requested}")
        return table

    def snapshot(self, named: NamedTable) -> Snapshot:
        """The table's newest snapshot, or that of the instant in its name.

        Raises:
            SplitError: the snapshot of that instant no longer exists.
            OptionError: the instant is invalid.
        """
        return self._tables.newest(named.name)[1] if named.when is None else self._tables.at(named.name, named.when)

    def _name_of(self, requested: TableName) -> str | None:
        """The name in the warehouse, which is listed again only for a name not seen before."""
        known = self._known.get(requested)
        if known is not None:
            return known
        names = self._by_name(fresh=True).get(requested, [])
        if len(names) > 1:
            both = " and ".join(sorted(names))
            raise TableNotFoundError(f"{requested}: {both} are spelled alike for Trino; rename one of them")
        if names:
            return names[0]
        # An unreadable table is not listed, but opening it gives the reason.
        return next((name for name in self._tables.names(unread=True) if TableName.of(name) == requested), None)

    def _by_name(self, *, fresh: bool = False) -> dict[TableName, list[str]]:
        names_by_key: dict[TableName, list[str]] = {}
        for name in self._tables.names(fresh=fresh):
            names_by_key.setdefault(TableName.of(name), []).append(name)
        self._known = {key: names[0] for key, names in names_by_key.items() if len(names) == 1}
        return names_by_key

    def _is_readable(self, name: str) -> bool:
        with self._lock:
            readable, since = self._checked.get(name, (False, -_READABLE_SECONDS))
        if monotonic() - since < (_READABLE_SECONDS if readable else _UNREADABLE_SECONDS):
            return readable
        try:
            with self._tables.watched(name):
                self._tables.table(name).client.table_schema()
        except HudiError as error:
            _LOG.warning("%s is not listed: %s", name, error)
            readable = False
        else:
            readable = True
        with self._lock:
            self._checked[name] = (readable, monotonic())
        return readable


def _instant_or_date(digits: str) -> str:
    """An instant unchanged; eight digits as a date."""
    return digits if len(digits) > _DAY_DIGITS else f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
