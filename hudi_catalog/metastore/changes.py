"""What a sync changes in a metastore, to be printed, and to see that nothing is left to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hudi_catalog.metastore.metastore import HiveColumn, HiveTable, Metastore
from table_format.errors import MetastoreError

CREATE, ALTER, DROP = "create", "alter", "drop"
_SIGNS = {CREATE: "+", ALTER: "~", DROP: "-"}
_SHOWN = 160
# Parameters that a sync takes away again; others are left alone.
_OURS = ("hoodie.", "spark.sql.sources.", "storage_handler", "last_commit_")


@dataclass(frozen=True)
class Change:
    """One thing that is not as it should be.

    Attributes:
        kind: `create`, `alter` or `drop`.
        what: such as `column s.t.price`.
        before: as it is; "" for what is not there.
        after: as it should be; "" for what goes.
    """

    kind: str
    what: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        told = " → ".join(_short(text) for text in (self.before, self.after) if text)
        return f"{_SIGNS[self.kind]} {self.what}{f': {told}' if told else ''}"


def schema_changes(metastore: Metastore, schema: str, *, may_create: bool) -> list[Change]:
    """What makes the database of an entry: nothing where it is there.

    Raises:
        MetastoreError: it is not there, and may not be made.
    """
    if schema in metastore.schemas():
        return []
    if not may_create:
        raise MetastoreError(f"{metastore.uri}: there is no database {schema}; make it, or allow the sync to")
    return [Change(CREATE, f"schema {schema}")]


def changes_of(before: HiveTable | None, after: HiveTable) -> list[Change]:
    """What makes one definition of a table out of another.

    Parameters that only the metastore's has are passed over, for metastores and engines add their own; but those that
    a sync writes are told.

    Args:
        before: as the metastore has it, None when it has none.
        after: as it should be.
    """
    name = f"{after.schema}.{after.name}"
    if before is None:
        made = [Change(CREATE, f"table {name}", "", after.location)]
        return made + [Change(CREATE, f"column {name}.{c.name}", "", _column(c)) for c in _columns(after).values()]
    old, new = before.format, after.format
    found = [*_columns_changed(name, before, after), *_parameters_changed(name, before.parameters, after.parameters)]
    found += _properties_set("SerDe property", name, old.serde_parameters, new.serde_parameters)
    pairs = (
        ("location", before.location, after.location),
        ("input format", old.input_format, new.input_format),
        ("output format", old.output_format, new.output_format),
        ("SerDe", old.serde, new.serde),
        ("type", before.table_type, after.table_type),
        ("partition columns", _names(before.partition_columns), _names(after.partition_columns)),
    )
    return found + [Change(ALTER, f"{what} of {name}", old, new) for what, old, new in pairs if old != new]


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
    kept = [column for column in old if column in new]
    wanted = [column for column in new if column in old]
    if kept != wanted:
        yield Change(ALTER, f"order of columns of {name}", ", ".join(kept), ", ".join(wanted))


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
