"""Where a query reads tables, and which rows of each it can need there."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from hudi_catalog.gateway.current_time import put_current_times
from hudi_catalog.gateway.lexing import Lexeme, chains
from hudi_catalog.gateway.parsing import DIALECT, Query
from hudi_catalog.gateway.reasons import LeftAloneError, Reason
from hudi_catalog.gateway.session_names import SessionNames
from hudi_catalog.gateway.unsure import take_unsure_out
from pushdown.errors import FilterSyntaxError
from pushdown.expression import Constant, HudiExpression
from pushdown.sql.queries import table_scans
from pushdown.sql.scopes import table_parts

_KNOWN_PARTS = frozenset({"this", "db", "catalog", "alias", "joins"})
_MOST_PARTS = 3
# Every condition is looked at for every table that is joined before it.
_MOST_JOINS = 60
_TABLE_WORDS = {"FROM": 0, "JOIN": 0, "TABLE": 0, "DESCRIBE": 0, "DESC": 0, "USING": 0, "(": 1, ",": 1}


@dataclass(frozen=True)
class FullName:
    """A table by all parts of its name, in lower case."""

    catalog: str
    schema: str
    table: str


@dataclass(frozen=True, eq=False)
class Reference:
    """One place where a query reads a table.

    Attributes:
        node: in the syntax tree.
        name: the table.
        start: where its name begins in the text.
        end: the position behind it.
        own_name: the last part of the name as it is written, by which the query calls it; None where it has an alias.
        problem: why the name must stay as it is; empty if it may be replaced.
    """

    node: Any
    name: FullName
    start: int
    end: int
    own_name: str | None
    problem: str


def full_name(parts: Sequence[str], session: SessionNames) -> FullName | None:
    """The table that a name means in a session; None where the session does not say it."""
    if not 1 <= len(parts) <= _MOST_PARTS:
        return None
    missing = [session.catalog, session.schema][: _MOST_PARTS - len(parts)]
    given = [*missing, *parts]
    if not all(given) or not "".join(map(str, given)).isprintable():
        return None
    return FullName(*(str(part).lower() for part in given))


def likely_tables(lexemes: Sequence[Lexeme], session: SessionNames) -> list[FullName]:
    """Names that may be of tables, by the words before them; the surer ones first. For statements not understood."""
    ranked: dict[FullName, int] = {}
    before = {after.start: lexeme.word for lexeme, after in itertools.pairwise(lexemes)}
    for chain in chains(lexemes):
        rank = _TABLE_WORDS.get(before.get(chain[0].start, ""))
        name = full_name([part.name or "" for part in chain], session)
        if rank is not None and name is not None:
            ranked[name] = min(rank, ranked.get(name, rank))
    return sorted(ranked, key=lambda name: ranked[name])


def references_of(query: Query, sql: str, session: SessionNames) -> list[Reference]:
    """All places where a query reads tables by their names.

    Args:
        query: as parsed.
        sql: the statement.
        session: see `SessionNames`.

    Raises:
        LeftAloneError: the query asks for hidden columns, or reads tables in a way that is not followed.
    """
    _check_forms(query.lexemes)
    if any(len(select.args.get("joins") or ()) > _MOST_JOINS for select in query.tree.find_all(exp.Select)):
        raise LeftAloneError(Reason.NOT_ATTRIBUTED, f"more than {_MOST_JOINS} joins")
    longer = [tuple(part.name or part.text for part in chain) for chain in chains(query.lexemes) if len(chain) > 1]
    return list(_references(query.tree, sql, session, longer))


def _check_forms(lexemes: Sequence[Lexeme]) -> None:
    for lexeme in lexemes:
        name = lexeme.name
        if name is not None and name.startswith("$"):
            raise LeftAloneError(Reason.HIDDEN_COLUMN, name)
        if lexeme.word in {"TABLE", "MATCH_RECOGNIZE", "TABLESAMPLE"}:
            raise LeftAloneError(Reason.NOT_ATTRIBUTED, lexeme.word)


def _references(tree: Any, sql: str, session: SessionNames, chained: Sequence[tuple[str, ...]]) -> Iterator[Reference]:
    for node in tree.find_all(exp.Table):
        parts = table_parts(node)
        name = None if parts is None else full_name(parts, session)
        if parts is None or name is None:
            continue
        places = [part.meta for part in node.parts]
        if not all("start" in place and "end" in place for place in places):
            raise LeftAloneError(Reason.NOT_ATTRIBUTED, f"nobody knows where {'.'.join(parts)} stands")
        start, end = places[0]["start"], places[-1]["end"] + 1
        alias = node.args.get("alias")
        named = isinstance(alias, exp.TableAlias) and bool(alias.name)
        own = sql[places[-1]["start"] : end]
        problem = _problem(node, parts, named=named, chained=chained)
        yield Reference(node, name, start, end, None if named else own, problem)


def _problem(node: Any, parts: Sequence[str], *, named: bool, chained: Sequence[tuple[str, ...]]) -> str:
    """Why a table's name cannot be replaced."""
    odd = [key for key, value in node.args.items() if value not in (None, [], False) and key not in _KNOWN_PARTS]
    if odd:
        return f"{parts[-1]} is read with {odd[0]}"
    if node.args.get("alias") is not None and not named:
        return f"{parts[-1]} has an odd alias"
    if not isinstance(node.parent, exp.From | exp.Join | exp.Subquery | exp.Paren):
        return f"{parts[-1]} is read by {type(node.parent).__name__}"
    if named:
        return ""
    lowered = tuple(part.lower() for part in parts)
    for size in range(2, len(lowered) + 1):
        qualifier = lowered[-size:]
        if any(len(chain) > size and chain[:size] == qualifier for chain in chained):
            return f"columns are called by {'.'.join(qualifier)}"
    return ""


def filters_of(query: Query, session: SessionNames, schemas: Mapping[FullName, pa.Schema]) -> dict[int, HudiExpression]:
    """What the rows of tables must meet to be needed, for each place where one is read.

    Args:
        query: as parsed; conditions that are not sure are taken out of its tree.
        session: see `SessionNames`.
        schemas: the columns of the tables, as the query sees them.

    Returns:
        By the `id` of the node of a `Reference`; TRUE where all rows are needed.

    Raises:
        LeftAloneError: the query is nested too deeply.
    """
    put_current_times(query.tree, dt.datetime.now(dt.UTC))
    take_unsure_out(query.tree, schemas.values())

    def find(parts: tuple[str, ...]) -> tuple[str, pa.Schema] | None:
        name = full_name(parts, session)
        return None if name is None or name not in schemas else (name.table, schemas[name])

    try:
        scans = table_scans(query.tree, DIALECT, find, query.lists)
    except FilterSyntaxError as error:
        raise LeftAloneError(Reason.NOT_PARSED, str(error)) from None
    filters: dict[int, HudiExpression] = {}
    for scan in scans:
        # read twice by the walk: both filters may be meant
        key = id(scan.node)
        filters[key] = Constant(value=True) if key in filters else scan.filter
    return filters
