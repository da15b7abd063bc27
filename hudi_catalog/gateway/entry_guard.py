"""Statements that would change the entries of Hudi tables are refused, and the gateway's own entries are not listed.

Trino would carry such statements out: a dropped or altered entry breaks every reader of the table until the next sync,
and rows inserted into it are in no commit.

SHOW SCHEMAS is carried out by Trino as a query of `information_schema`; that query is written here with one more
condition, so that schemas of pinned snapshots stay out. In queries of `information_schema`, `system.jdbc` and
`system.metadata` the table is replaced by a sub-query with it, so that other conditions are pushed down as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hudi_catalog.gateway.attribution import FullName, Reference, full_name
from hudi_catalog.gateway.lexing import Kind, Lexeme
from hudi_catalog.gateway.statement import SessionNames
from hudi_catalog.metastore.trino_tables import SNAPSHOTS

# Leading words of the statements, longest first, each followed by a name.
_TABLES: Final = (
    "DROP MATERIALIZED VIEW",
    "DROP TABLE",
    "DROP VIEW",
    "ALTER MATERIALIZED VIEW",
    "ALTER TABLE",
    "ALTER VIEW",
    "CREATE OR REPLACE MATERIALIZED VIEW",
    "CREATE OR REPLACE TABLE",
    "CREATE OR REPLACE VIEW",
    "COMMENT ON TABLE",
    "COMMENT ON VIEW",
    "COMMENT ON COLUMN",
    "TRUNCATE TABLE",
    "INSERT INTO",
    "DELETE FROM",
    "MERGE INTO",
    "UPDATE",
)
_CREATED: Final = ("CREATE TABLE", "CREATE VIEW", "CREATE MATERIALIZED VIEW")
_SCHEMAS: Final = ("DROP SCHEMA", "ALTER SCHEMA")
_ANALYZED: Final = ("EXPLAIN", "ANALYZE")
_OF_COLUMN: Final = "COMMENT ON COLUMN"


@dataclass(frozen=True)
class Change:
    """What a statement would change.

    Attributes:
        verb: its leading words, such as `DROP TABLE`.
        name: the table or view; of a schema, its `table` is empty.
    """

    verb: str
    name: FullName

    @property
    def is_schema(self) -> bool:
        """Whether a whole schema would be changed."""
        return not self.name.table


def changes_of(lexemes: Sequence[Lexeme], session: SessionNames) -> list[Change]:
    """The tables, views and schemas that a statement would change; empty for queries and all other statements.

    Args:
        lexemes: of the statement.
        session: see `SessionNames`.
    """
    real = [lexeme for lexeme in lexemes if lexeme.kind is not Kind.COMMENT]
    if real and real[0].word == _ANALYZED[0]:
        if len(real) < 2 or real[1].word != _ANALYZED[1]:
            return []  # it is not carried out
        real = real[2:]
        real = real[1:] if real and real[0].word == "VERBOSE" else real
    for verb in (*_TABLES, *_CREATED, *_SCHEMAS):
        words = verb.split()
        if [lexeme.word for lexeme in real[: len(words)]] == words:
            return _changes(verb, real[len(words) :], session)
    return []


def _changes(verb: str, rest: Sequence[Lexeme], session: SessionNames) -> list[Change]:
    for words in (["IF", "NOT", "EXISTS"], ["IF", "EXISTS"]):
        if [lexeme.word for lexeme in rest[: len(words)]] == words:
            rest = rest[len(words) :]
            break
    parts = _name(rest)
    if verb in _SCHEMAS:
        return _schema_change(verb, parts, session)
    after = rest[2 * len(parts) - 1 :] if parts else []
    name = full_name(parts[:-1] if verb == _OF_COLUMN else parts, session)
    changes = [] if name is None else [Change(verb, name)]
    if verb.startswith("ALTER") and [lexeme.word for lexeme in after[:2]] == ["RENAME", "TO"]:
        target = full_name(_name(after[2:]), session)
        changes += [] if target is None else [Change(verb, target)]
    return changes


def _name(lexemes: Sequence[Lexeme]) -> list[str]:
    """The parts of the dotted name at the start."""
    parts: list[str] = []
    for position in range(0, len(lexemes), 2):
        name = lexemes[position].name
        if name is None:
            break
        parts.append(name)
        if position + 1 >= len(lexemes) or lexemes[position + 1].word != ".":
            break
    return parts


def _schema_change(verb: str, parts: Sequence[str], session: SessionNames) -> list[Change]:
    catalog, schema = (parts[0], parts[1]) if len(parts) == 2 else (session.catalog, parts[0] if parts else None)
    return [Change(verb, FullName(catalog.lower(), schema, ""))] if catalog and schema else []


def refusal_of(
    changes: Sequence[Change], catalogs: frozenset[str], entries_of: Callable[[str, str], Sequence[str]]
) -> str | None:
    """Why a statement is refused; None if it is not.

    Args:
        changes: of the statement.
        catalogs: Trino's catalogs with the entries.
        entries_of: the entries of Hudi tables with a schema and name; with an empty name, all of the schema.
    """
    for change in changes:
        name = change.name
        if name.catalog not in catalogs:
            continue
        shown = ".".join(part for part in (name.catalog, name.schema, name.table) if part)
        if name.schema.endswith(SNAPSHOTS):
            return (
                f"{change.verb} {shown}: the gateway keeps its snapshots of Hudi tables in {name.schema}, and removes "
                "them by itself; choose another schema"
            )
        if change.verb in _CREATED:
            continue  # Trino says itself that the name is taken
        held = entries_of(name.schema, name.table)
        if held and change.is_schema:
            return (
                f"{change.verb} {shown}: it holds {held[0]} and perhaps others, by which Trino reads Hudi tables; send "
                "the statement to Trino itself if they are to go"
            )
        if held:
            return (
                f"{change.verb} {shown}: this is the entry by which Trino reads a Hudi table. Its rows and columns are "
                "changed by writing the table, its entry by `hudi-catalog sync --target trino`; to remove the entry, "
                "send the statement to Trino itself"
            )
    return None


_INFORMATION: Final = "information_schema"
_SYSTEM: Final = "system"
# The column with the schema's name, by table.
_IN_CATALOG: Final = {
    "schemata": "schema_name",
    "tables": "table_schema",
    "columns": "table_schema",
    "views": "table_schema",
    "table_privileges": "table_schema",
}
# The columns with the names of catalog and schema.
_IN_SYSTEM: Final = {
    ("jdbc", "schemas"): ("table_catalog", "table_schem"),
    ("jdbc", "tables"): ("table_cat", "table_schem"),
    ("jdbc", "columns"): ("table_cat", "table_schem"),
    ("metadata", "table_comments"): ("catalog_name", "schema_name"),
}
_PATTERN: Final = "'%" + SNAPSHOTS.replace("_", "$_") + "' ESCAPE '$'"


def shown_schemas(sql: str, lexemes: Sequence[Lexeme], session: SessionNames, catalogs: frozenset[str]) -> str | None:
    """The query that stands for SHOW SCHEMAS; None for other statements and catalogs.

    Args:
        sql: the statement.
        lexemes: of it.
        session: see `SessionNames`.
        catalogs: Trino's catalogs with the entries.
    """
    real = [lexeme for lexeme in lexemes if lexeme.kind is not Kind.COMMENT]
    if [lexeme.word for lexeme in real[:2]] != ["SHOW", "SCHEMAS"]:
        return None
    rest = real[2:]
    catalog = session.catalog
    if len(rest) > 1 and rest[0].word in {"FROM", "IN"}:
        catalog, rest = rest[1].name, rest[2:]
    if not catalog or catalog.lower() not in catalogs:
        return None
    condition = f"schema_name NOT LIKE {_PATTERN}"
    if rest:
        kinds = [lexeme.word if lexeme.kind is Kind.WORD else lexeme.kind for lexeme in rest]
        if kinds not in (["LIKE", Kind.STRING], ["LIKE", Kind.STRING, "ESCAPE", Kind.STRING]):
            return None
        condition += f" AND schema_name {sql[rest[0].start : rest[-1].end]}"
    name = catalog.lower().replace('"', '""')
    return (
        f'SELECT schema_name AS "Schema" FROM "{name}".{_INFORMATION}.schemata '  # noqa: S608  # all parts are quoted
        f"WHERE {condition} ORDER BY schema_name"
    )


def without_snapshots(reference: Reference, sql: str, catalogs: frozenset[str]) -> str | None:
    """What replaces a listing in a query; None for all other tables.

    Args:
        reference: to a table.
        sql: the statement.
        catalogs: Trino's catalogs with the entries.
    """
    condition = None if reference.problem else _condition(reference.name, catalogs)
    if condition is None:
        return None
    called = "" if reference.own_name is None else f" AS {reference.own_name}"
    return f"(SELECT * FROM {sql[reference.start : reference.end]} WHERE {condition}){called}"  # noqa: S608


def _condition(name: FullName, catalogs: frozenset[str]) -> str | None:
    if name.schema == _INFORMATION and name.catalog in catalogs:
        column = _IN_CATALOG.get(name.table)
        return None if column is None else f"{column} NOT LIKE {_PATTERN}"
    columns = _IN_SYSTEM.get((name.schema, name.table)) if name.catalog == _SYSTEM else None
    if columns is None:
        return None
    listed = ", ".join("'" + catalog.replace("'", "''") + "'" for catalog in sorted(catalogs))
    return f"NOT coalesce({columns[0]} IN ({listed}) AND {columns[1]} LIKE {_PATTERN}, false)"
