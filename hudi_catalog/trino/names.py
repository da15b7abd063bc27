"""Names that Trino's Thrift connector takes: a small Latin letter, then such letters, digits and underscores.

The connector fails on any other name of a schema, table or column, and with one bad name the lists of all tables and
columns fail.
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
    """Whether the connector takes a name as it is."""
    return _VALID.match(name) is not None


def valid_name(name: str, prefix: str) -> str:
    """The spelling of a name; different names may have the same one.

    Leading underscores are left out (``_hoodie_commit_time`` is ``hoodie_commit_time``), letters lose their accents,
    other letters become the number of their character (``u6570``), and other signs underscores.

    Args:
        name: as the table or the warehouse has it.
        prefix: a small letter, for names that then begin with none.
    """
    lowered = name.lower()
    if is_valid(lowered):
        return lowered
    text = "".join(_sign(sign) for sign in unicodedata.normalize("NFKD", name).lower()).lstrip("_")
    return text if is_valid(text) else f"{prefix}_{text}"


def _sign(sign: str) -> str:
    if sign.isascii():
        return sign if sign.isalnum() else "_"
    if unicodedata.combining(sign):
        return ""
    return f"u{ord(sign):04x}" if sign.isalnum() else "_"


def column_names(names: Sequence[str]) -> list[str]:
    """The name in Trino of each column of a table.

    It is spelled as `names.valid_name` does; one that is taken then gets a number at the end: ``name_2``. Names that
    were allowed as they are come first, then those that differ in case, then the others.

    Args:
        names: in the table, each once.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    # As they are, in lower case, rewritten: names that need no change are never taken by others.
    for form in (str, str.lower, _rewritten):
        for name in names:
            if name in found or not is_valid(form(name)):
                continue
            if form is _rewritten or form(name) not in taken:
                found[name] = _free(form(name), taken)
                taken.add(found[name])
    return [found[name] for name in names]


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _rewritten(name: str) -> str:
    return valid_name(name, "c")


_LOG = logging.getLogger(__name__)
DEFAULT_SCHEMA = "default"
_AT_A_TIME = re.compile(r"(.+)__at_(\d{17}|\d{14}|\d{8})\Z")
_DAY_DIGITS = 8
_CHECKERS = 8

# Whether a table can be read is looked at again after so long.
_GOOD_SECONDS, _BAD_SECONDS = 600.0, 30.0


class TableName(NamedTuple):
    """A table's name as Trino says it.

    Attributes:
        schema: `default` for a table without a database.
        table: may end with `__at_` and a time.
    """

    schema: str
    table: str

    @classmethod
    def of(cls, name: str) -> TableName:
        """The name of a table of the warehouse; what stands before the last dot is the schema."""
        schema, _, table = name.rpartition(".")
        return cls(valid_name(schema, "s") if schema else DEFAULT_SCHEMA, valid_name(table, "t"))

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class NamedTable(NamedTuple):
    """What a name means.

    Attributes:
        said: the name, as Trino says it.
        name: of the table in the warehouse.
        when: an instant or a time; None for the newest state.
    """

    said: TableName
    name: str
    when: str | None = None


class TableNames:
    """Lists tables, and finds one by its name.

    Args:
        tables: of the warehouse.
    """

    def __init__(self, tables: WarehouseTables) -> None:
        self._tables = tables
        self._lock = Lock()
        self._checked: dict[str, tuple[bool, float]] = {}
        self._known: dict[TableName, str] = {}

    def schemas(self) -> list[str]:
        """Names of the schemas, `default` among them only if it has a table."""
        return sorted({name.schema for name in self._by_name()})

    def readable(self, schema: str | None = None) -> list[TableName]:
        """The tables that can be read, of one schema or of all.

        Trino asks for the columns of all tables that it is told of, and shows none if one of them fails.
        """
        wanted = [(key, names) for key, names in sorted(self._by_name().items()) if schema in {None, key.schema}]
        one_each = [key for key, names in wanted if len(names) == 1]
        names = [names[0] for _, names in wanted if len(names) == 1]
        found: list[TableName] = []
        for key, good in zip(one_each, each(names, self._is_readable, _CHECKERS, "hudi-list"), strict=True):
            if isinstance(good, Exception) and not isinstance(good, LateTableError):
                raise good
            if good is True:
                found.append(key)
        return found

    def find(self, said: TableName) -> NamedTable | None:
        """The table of a name; None when there is none.

        Raises:
            TableNotFoundError: the names of several tables are spelled so.
        """
        name = self._name_of(said)
        if name is not None:
            return NamedTable(said, name)
        past = _AT_A_TIME.match(said.table)
        name = None if past is None else self._name_of(TableName(said.schema, past[1]))
        return None if past is None or name is None else NamedTable(said, name, _time(past[2]))

    def require(self, said: TableName) -> NamedTable:
        """The table of a name.

        Raises:
            TableNotFoundError: there is none, or several.
        """
        found = self.find(said)
        if found is None:
            raise TableNotFoundError(f"{self._tables.uri}: there is no table {said}")
        return found

    def snapshot(self, named: NamedTable) -> Snapshot:
        """The newest state, or that of the name's time.

        Raises:
            SplitError: the state of that time is gone.
            OptionError: the time is none.
        """
        return self._tables.newest(named.name)[1] if named.when is None else self._tables.at(named.name, named.when)

    def _name_of(self, said: TableName) -> str | None:
        """The name in the warehouse; listed again only for a name that was never seen."""
        known = self._known.get(said)
        if known is not None:
            return known
        found = self._by_name(fresh=True).get(said, [])
        if len(found) > 1:
            both = " and ".join(sorted(found))
            raise TableNotFoundError(f"{said}: {both} are spelled alike for Trino; rename one of them")
        if found:
            return found[0]
        # one that cannot be read is not listed, and to name it gives the reason
        return next((name for name in self._tables.names(unread=True) if TableName.of(name) == said), None)

    def _by_name(self, *, fresh: bool = False) -> dict[TableName, list[str]]:
        found: dict[TableName, list[str]] = {}
        for name in self._tables.names(fresh=fresh):
            found.setdefault(TableName.of(name), []).append(name)
        self._known = {said: names[0] for said, names in found.items() if len(names) == 1}
        return found

    def _is_readable(self, name: str) -> bool:
        with self._lock:
            good, since = self._checked.get(name, (False, -_GOOD_SECONDS))
        if monotonic() - since < (_GOOD_SECONDS if good else _BAD_SECONDS):
            return good
        try:
            with self._tables.watched(name):
                self._tables.table(name).client.table_schema()
        except HudiError as error:
            _LOG.warning("%s is left out of lists: %s", name, error)
            good = False
        else:
            good = True
        with self._lock:
            self._checked[name] = (good, monotonic())
        return good


def _time(digits: str) -> str:
    """An instant as it is, the beginning of a day as a date."""
    return digits if len(digits) > _DAY_DIGITS else f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
