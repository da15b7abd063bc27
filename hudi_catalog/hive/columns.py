"""The columns that Hive was told of a table, beside those that the table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.options import ScanSettings
from hudi_catalog.metastore.hive_types import hive_type
from table_format.errors import SchemaError, ServiceError, UnsupportedTableError

_OPENING, _CLOSING, _BETWEEN = frozenset("<("), frozenset(">)"), frozenset(":,;")
_CUT = ("varchar(", "char(")


def check_columns(snapshot: Snapshot, settings: ScanSettings, read: Sequence[str] | None, table: str) -> None:
    """Refuse a scan that would read columns as something that they are not.

    Hive reads whatever its entry says: a number that does not fit its type as null, a column that was dropped from old
    files, without an error. An entry that was not brought up to date says such things.

    Args:
        snapshot: that is read.
        settings: with the columns as Hive has them; when it has none, nothing is checked.
        read: names of the columns that are read, in lower case; None for all.
        table: Hive's name, for messages.

    Raises:
        SchemaError: a column that is read has another type than in the table, is none of its columns or several, or
            has the name of one that was renamed or dropped before.
        ServiceError: the names and types do not go together.
    """
    if settings.columns is None or settings.column_types is None or snapshot.instant is None:
        return
    told = declared_columns(settings.columns, settings.column_types)
    wanted = told if read is None else {name: told[name] for name in map(str.lower, read) if name in told}
    own = {field.name.lower(): field for field in snapshot.schema}
    several = Counter(field.name.lower() for field in snapshot.schema)
    what = f"{snapshot.config.name} of {snapshot.instant}"
    for name, kind in wanted.items():
        if several[name] > 1:
            raise SchemaError(f"{table}: column {name} is several of {what}, which Hive does not tell apart")
        if name not in own:
            if settings.as_of is None:
                raise SchemaError(f"{table}: column {name} is none of {what}; run `hudi-catalog sync` for the entry")
            # An older state may lack columns that were added since: Hive reads nulls, unless a file has the name.
            if _was_there(snapshot, name):
                raise SchemaError(
                    f"{table}: column {name} is none of {what}, but older files hold another one of that name, which "
                    "Hive would show; leave it out of the query"
                )
        elif not declared_right(kind, own[name]):
            advice = "run `hudi-catalog sync` for the entry"
            if settings.as_of is not None:
                advice += ", or, if its type was another one then, leave the column out of the query"
            raise SchemaError(f"{table}: column {name} is {kind} in Hive and {_text(own[name])} in {what}; {advice}")


def _was_there(snapshot: Snapshot, name: str) -> bool:
    """Whether the table had a column of a name, in lower case, before it was renamed or dropped."""
    history = snapshot.schema_history
    return history is not None and any(
        column.name.lower() == name
        for schema in history.versions
        if schema.version <= history.current.version
        for column in schema.columns
    )


def declared_right(told: str, field: Any) -> bool:
    """Whether Hive was told the type of a column that the sync would tell it.

    Texts may be declared with a length, to which Hive cuts them.

    Args:
        told: Hive's type, in lower case and without spaces.
        field: the column, an Arrow field.
    """
    right = _text(field)
    return told == right or (right == "string" and told.startswith(_CUT))


def plain_type(text: str) -> str:
    """A type's text in lower case and without spaces."""
    return text.lower().replace(" ", "")


def declared_columns(names: str, types: str) -> dict[str, str]:
    """Names and types, both in lower case, of the columns of a table in Hive.

    >>> declared_columns("id,s,d", "bigint:struct<a:int,b:array<string>>:decimal(10, 2)")
    {'id': 'bigint', 's': 'struct<a:int,b:array<string>>', 'd': 'decimal(10,2)'}

    Args:
        names: as in the property `columns`, with commas between, or zero characters where a name has a comma.
        types: as in the property `columns.types`.

    Raises:
        ServiceError: there are more of the ones than of the others.
    """
    separator = "\0" if "\0" in names else ","
    listed = names.split(separator) if names else []
    kinds = list(_divided(types)) if types else []
    if len(listed) != len(kinds):
        raise ServiceError(f"Hive names {len(listed)} columns and {len(kinds)} types of columns")
    return {name.lower(): plain_type(kind) for name, kind in zip(listed, kinds, strict=True)}


def _divided(types: str) -> Iterator[str]:
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
    """What the sync tells Hive of a column's type; nothing that Hive could say for one of a type that Hive lacks."""
    try:
        return plain_type(hive_type(field.type, field.name))
    except UnsupportedTableError:
        return f"no type ({field.type})"
