"""Differences between a metastore's entries and what they should be: printed by the sync, and made by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hudi_catalog.metastore.metastore import HiveColumn, HiveTable, Metastore
from table_format.errors import MetastoreError

CREATE, ALTER, DROP = "create", "alter", "drop"
_SIGNS = {CREATE: "+", ALTER: "~", DROP: "-"}
_SHOWN = 160
# Parameters that a sync removes when obsolete; others are kept.
_OURS = ("hoodie.", "spark.sql.sources.", "storage_handler", "last_commit_")


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        kind: `create`, `alter` or `drop`.
        what: such as `column s.t.price`.
        before: current value; "" if missing.
        after: wanted value; "" if it is dropped.
    """

    kind: str
    what: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        values = " → ".join(_short(text) for text in (self.before, self.after) if text)
        return f"{_SIGNS[self.kind]} {self.what}{f': {values}' if values else ''}"


def schema_changes(metastore: Metastore, schema: str, *, may_create: bool) -> list[Change]:
    """The change that creates an entry's database; none if it exists.

    Raises:
        MetastoreError: it does not exist and may not be created.
    """
    if schema in metastore.schemas():
        return []
    if not may_create:
        raise MetastoreError(f"{metastore.uri}: there is no database {schema}; create it, or allow the sync to")
    return [Change(CREATE, f"schema {schema}")]


def changes_of(before: HiveTable | None, after: HiveTable) -> list[Change]:
    """Changes that turn one definition of a table into another.

    Parameters that only the current entry has are ignored, since metastores and engines add their own, except for those
    that a sync writes.

    Args:
        before: the current definition, None if there is none.
        after: the wanted definition.
    """
    name = f"{after.schema}.{after.name}"
    if before is None:
        made = [Change(CREATE, f"table {name}", "", after.location)]
        return made + [Change(CREATE, f"column {name}.{c.name}", "", _column(c)) for c in _columns(after).values()]
    old, new = before.format, after.format
    changes = [*_columns_changed(name, before, after), *_parameters_changed(name, before.parameters, after.parameters)]
    changes += _properties_set("SerDe property", name, old.serde_parameters, new.serde_parameters)
    pairs = (
        ("location", before.location, after.location),
        ("input format", old.input_format, new.input_format),
        ("output format", old.output_format, new.output_format),
        ("SerDe", old.serde, new.serde),
        ("type", before.table_type, after.table_type),
        ("partition columns", _names(before.partition_columns), _names(after.partition_columns)),
    )
    return changes + [Change(ALTER, f"{what} of {name}", old, new) for what, old, new in pairs if old != new]


def _columns_changed(name: str, before: HiveTable, after: HiveTable) -> Iterator[Change]:
    old, new = _columns(before), _columns(after)
    for column in new.values():
        known = old.get(column.name)
        if known is None:
            yield Change(CREATE, f"column {name}.{column.name}", "", _column(column))
        elif _column(known) != _column(column):
            yield Change(ALTER, f"column {name}.{column.name}", _column(known), _column(column))
    for column in old.values():
        if column.name not in new:
            yield Change(DROP, f"column {name}.{column.name}", _column(column))
    remaining = [column for column in old if column in new]
    wanted = [column for column in new if column in old]
    if remaining != wanted:
        yield Change(ALTER, f"order of columns of {name}", ", ".join(remaining), ", ".join(wanted))


def _parameters_changed(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    yield from _properties_set("property", name, before, after)
    for key, value in before.items():
        if key not in after and key.startswith(_OURS):
            yield Change(DROP, f"property {key} of {name}", value)


def _properties_set(what: str, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for key, value in after.items():
        if before.get(key) != value:
            kind = ALTER if key in before else CREATE
            yield Change(kind, f"{what} {key} of {name}", before.get(key, ""), value)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _columns(table: HiveTable) -> dict[str, HiveColumn]:
    return {column.name: column for column in (*table.columns, *table.partition_columns)}


def _names(columns: tuple[HiveColumn, ...]) -> str:
    return ", ".join(column.name for column in columns)


def _column(column: HiveColumn) -> str:
    return f"{column.type} {column.comment!r}" if column.comment else column.type
