"""What Hive would misread: columns declared otherwise than in the table, and base files written before a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache, memoize
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.options import ScanSettings
from hudi_catalog.metastore.hive_types import hive_type
from hudi_catalog.metastore.stored_columns import HIVE_RULES, StoredTypes, differing_names
from table_format.errors import SchemaError, ServiceError, UnsupportedTableError

_OPENING, _CLOSING, _BETWEEN = frozenset("<("), frozenset(">)"), frozenset(":,;")
_CUT = ("varchar(", "char(")


def check_columns(snapshot: Snapshot, settings: ScanSettings, read: Sequence[str] | None, table: str) -> None:
    """Refuse a scan in which Hive would misread a column.

    Hive reads by its own entry and reports no error: numbers that do not fit the declared type become null, and dropped
    columns are read from old files. An outdated entry leads to that.

    Args:
        snapshot: to be read.
        settings: with the columns declared in Hive; without any, nothing is checked.
        read: lower-case names of the columns to read; None for all.
        table: Hive's name, for messages.

    Raises:
        SchemaError: a column to read has another type than in the table, is missing or ambiguous there, or has the name
            of one that was renamed or dropped.
        ServiceError: the numbers of names and types differ.
    """
    if settings.columns is None or settings.column_types is None or snapshot.instant is None:
        return
    declared = declared_columns(settings.columns, settings.column_types)
    wanted = declared if read is None else {name: declared[name] for name in map(str.lower, read) if name in declared}
    current = {field.name.lower(): field for field in snapshot.schema}
    spellings = Counter(field.name.lower() for field in snapshot.schema)
    what = f"{snapshot.config.name} of {snapshot.instant}"
    for name, kind in wanted.items():
        if spellings[name] > 1:
            raise SchemaError(f"{table}: column {name} matches several of {what}, which Hive does not distinguish")
        if name not in current:
            if settings.as_of is None:
                raise SchemaError(f"{table}: column {name} is not in {what}; run `hudi-catalog sync` for the entry")
            # An older snapshot may lack columns added since: Hive reads nulls unless a file has a column of that name.
            if _existed_before(snapshot, name):
                raise SchemaError(
                    f"{table}: column {name} is not in {what}, but older files hold another one of that name, which "
                    "Hive would show; leave it out of the query"
                )
        elif not type_matches(kind, current[name]):
            advice = "run `hudi-catalog sync` for the entry"
            if settings.as_of is not None:
                advice += ", or, if its type was another one then, leave the column out of the query"
            raise SchemaError(
                f"{table}: column {name} is {kind} in Hive and {_text(current[name])} in {what}; {advice}"
            )


def _existed_before(snapshot: Snapshot, name: str) -> bool:
    """Whether the table had a column of this lower-case name before it was renamed or dropped."""
    history = snapshot.schema_history
    return history is not None and any(
        column.name.lower() == name
        for schema in history.versions
        if schema.version <= history.current.version
        for column in schema.columns
    )


def type_matches(declared: str, field: Any) -> bool:
    """Whether the type declared in Hive is the one that the sync would register.

    Strings may be declared with a length, to which Hive truncates them.

    Args:
        declared: Hive's type, in lower case and without spaces.
        field: the column as an Arrow field.
    """
    right = _text(field)
    return declared == right or (right == "string" and declared.startswith(_CUT))


def normalized_type(text: str) -> str:
    """A type's text in lower case without spaces."""
    return text.lower().replace(" ", "")


def declared_columns(names: str, types: str) -> dict[str, str]:
    """Column names with their types as declared in Hive, all in lower case.

    >>> declared_columns("id,s,d", "bigint:struct<a:int,b:array<string>>:decimal(10, 2)")
    {'id': 'bigint', 's': 'struct<a:int,b:array<string>>', 'd': 'decimal(10,2)'}

    Args:
        names: as in the property `columns`, comma-separated, or NUL-separated if a name contains a comma.
        types: as in the property `columns.types`.

    Raises:
        ServiceError: the numbers of names and types differ.
    """
    separator = "\0" if "\0" in names else ","
    listed = names.split(separator) if names else []
    kinds = list(_split_types(types)) if types else []
    if len(listed) != len(kinds):
        raise ServiceError(f"Hive names {len(listed)} columns and {len(kinds)} types of columns")
    return {name.lower(): normalized_type(kind) for name, kind in zip(listed, kinds, strict=True)}


def _split_types(types: str) -> Iterator[str]:
    depth = begin = 0
    for at, character in enumerate(types):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif depth == 0 and character in _BETWEEN:
            yield types[begin:at]
            begin = at + 1
    yield types[begin:]


def _text(field: Any) -> str:
    """The type that the sync registers for a column; for unsupported types a text that Hive never declares."""
    try:
        return normalized_type(hive_type(field.type, field.name))
    except UnsupportedTableError:
        return f"no type ({field.type})"


_MOST_TABLES: Final = 1000


class MisreadColumns:
    """Which columns of base files Hive would misread, by the instant that wrote the files; thread-safe."""

    def __init__(self) -> None:
        self._types: LruCache[str, StoredTypes] = LruCache(_MOST_TABLES)

    def of(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, dict[str, str]]:
        """The columns that Hive would misread in the base files of some slices.

        Args:
            snapshot: of the table.
            rows: positions of slices.

        Returns:
            By the instant that wrote the files: by lower-case column name, what is wrong with it.

        Raises:
            UnsupportedTableError: columns were renamed or dropped and the schema of these files is unknown.
        """
        config = snapshot.config
        absent = config.partition_fields if config.drop_partition_columns else ()
        misread = {}
        for instant, types in self._stored_types(snapshot).misread(snapshot, rows).items():
            if types is None:  # unreadable: materializing reports the error
                misread[instant] = {name.lower(): "cannot be read" for name in snapshot.schema.names}
                continue
            wrong = {name: f"have it as {kind}" for name, kind in types.items()}
            wrong |= dict.fromkeys(
                _differing_names(snapshot, instant), "have it otherwise, or have another of its name"
            )
            wrong |= dict.fromkeys(absent, "lack it, because it is a partition column")
            misread[instant] = {name.lower(): why for name, why in wrong.items()}
        return {instant: wrong for instant, wrong in misread.items() if wrong}

    def _stored_types(self, snapshot: Snapshot) -> StoredTypes:
        uri = snapshot.client.storage.uri
        return self._types.get(uri) or self._types.setdefault(uri, StoredTypes(HIVE_RULES))


def _differing_names(snapshot: Snapshot, instant: str) -> list[str]:
    return memoize(snapshot, ("differing names", instant), lambda: differing_names(snapshot, instant))
