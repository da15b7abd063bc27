"""Which tables a query references, and a filter for each reference: the rows of the table that the query may need.

Before filters are derived, the tree is made safe to read. Current times become literals with a time zone, which are
compared with a tolerance of two days, since the engine's value depends on the session's time zone and on when the query
starts. Conditions that mean something else in Trino than by the rules of `pushdown.sql` are masked by a call of an
unknown function, so that they count as not understood:

- Trino casts both bounds of BETWEEN, and the members of a list of rows, to one type before it compares them. If one of
  them is a double or has a time zone, the others change with it.
- A decimal or an integer is compared with a REAL as REAL, which maps many numbers to one.
- `CAST(… AS timestamp(p))` rounds, by more than the tolerance if p is less than 3.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from hudi_catalog.gateway.lexing import Lexeme, dotted_names
from hudi_catalog.gateway.parsing import DIALECT, Query
from hudi_catalog.gateway.statement import NotRewrittenError, Reason, SessionNames
from pushdown.errors import FilterSyntaxError
from pushdown.expression import Constant, HudiExpression
from pushdown.sql.constants import fold_constants, moved
from pushdown.sql.literal import literal_value
from pushdown.sql.operands import days_of
from pushdown.sql.queries import table_scans
from pushdown.sql.scopes import FULL_NAME, table_parts

_FUNCTIONS = tuple(
    getattr(exp, name) for name in ("CurrentDate", "CurrentTimestamp", "Localtimestamp") if hasattr(exp, name)
)

# Not months: their lengths differ, so a difference of a day may grow to several.
_EVEN = frozenset({"DAY", "DAYS", "WEEK", "WEEKS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND", "SECONDS"})


def replace_current_times(tree: Any, now: dt.datetime) -> None:
    """Replace `current_date`, `now()` and the like, and sums of these and intervals, by literals, in place.

    Args:
        tree: sqlglot's syntax tree.
        now: the current time in UTC.
    """
    for node in list(tree.find_all(*_FUNCTIONS)):
        whole, moment = _moved(node, now.astimezone(dt.UTC).replace(tzinfo=None, microsecond=0))
        text = f"{moment.isoformat(' ')}+00:00"
        whole.replace(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("TIMESTAMP")))


def _moved(node: Any, moment: dt.datetime) -> tuple[Any, dt.datetime]:
    """The outermost sum or difference that starts with a node, and its value."""
    while True:
        around = node.parent
        if isinstance(around, exp.Paren):
            node = around
            continue
        value = _sum(around, moment) if getattr(around, "this", None) is node else None
        if value is None:
            return node, moment
        node, moment = around, value


def _sum(around: Any, moment: dt.datetime) -> dt.datetime | None:
    """The value of a sum whose left operand is known; None if it is not the same number of days every time."""
    if isinstance(around, exp.Add | exp.Sub) and isinstance(around.expression, exp.Interval):
        unit = around.expression.args.get("unit")
        if unit is None or str(unit.name).upper() not in _EVEN:
            return None
        value = moved(moment, around.expression, -1 if isinstance(around, exp.Sub) else 1, DIALECT)
        return value if isinstance(value, dt.datetime) else None
    days = days_of(around.expression, around.args.get("unit")) if isinstance(around, exp.DateAdd) else None
    try:
        return None if days is None else moment + dt.timedelta(days=days)
    except OverflowError:
        return None


_Type = exp.DataType.Type
_TIMES = frozenset({_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPNTZ})
_NAME = "not_understood"
_LEAST_PRECISION = 3
_FRACTION = re.compile(r"\A[^.]*(?:\.([0-9]+))?")

# Nodes that combine or contain conditions.
_AROUND_CONDITIONS = (exp.And, exp.Or, exp.Not, exp.Paren, exp.Where, exp.Join, exp.Query)


def mask_ambiguous(tree: Any, schemas: Iterable[pa.Schema]) -> None:
    """Replace conditions that Trino may evaluate differently in a parsed query, in place.

    Args:
        tree: sqlglot's syntax tree.
        schemas: columns of the tables that are planned.
    """
    floats = _names_of_floats(schemas)
    unsure = [*_casts(tree, floats), *_mixed(tree)]
    for node in unsure:
        node.replace(exp.Anonymous(this=_NAME, expressions=[column.copy() for column in node.find_all(exp.Column)]))


def _names_of_floats(schemas: Iterable[pa.Schema]) -> frozenset[str]:
    """Lower-case names that only floating-point columns have in these tables, at any level."""
    fields = [field for schema in schemas for top in schema for field in _nested(top)]
    others = {field.name.lower() for field in fields if not pa.types.is_floating(field.type)}
    return frozenset(field.name.lower() for field in fields) - others


def _nested(field: Any) -> Iterator[Any]:
    yield field
    if pa.types.is_struct(field.type):
        for member in field.type:
            yield from _nested(member)


def _casts(tree: Any, floats: frozenset[str]) -> Iterator[Any]:
    for node in tree.find_all(exp.Cast, exp.TryCast):
        target = node.to.this
        if (target in _TIMES and _is_coarse(node)) or (target is _Type.FLOAT and not _is_among(node, floats)):
            yield node


def _is_coarse(node: Any) -> bool:
    """Whether a cast to timestamp may round by more than a millisecond; TIMESTAMP '…' is a cast that does not."""
    if not node.to.expressions:
        return False
    precision = literal_value(node.to.expressions[0].this)
    if type(precision) is int and precision >= _LEAST_PRECISION:
        return False
    digits = _FRACTION.search(node.this.name) if isinstance(node.this, exp.Literal) and node.this.is_string else None
    return digits is None or type(precision) is not int or len(digits[1] or "") > precision


def _is_among(node: Any, floats: frozenset[str]) -> bool:
    """Whether only floating-point columns occur in the condition around a node."""
    while node.parent is not None and not isinstance(node.parent, _AROUND_CONDITIONS):
        node = node.parent
    return all(column.name.lower() in floats for column in node.find_all(exp.Column))


def _mixed(tree: Any) -> Iterator[Any]:
    for node in tree.find_all(exp.Between, exp.In):
        if isinstance(node, exp.Between):
            if _is_mixed([node.args.get("low"), node.args.get("high")]):
                yield node
        elif isinstance(node.this, exp.Tuple):
            rows = [member.expressions for member in node.expressions if isinstance(member, exp.Tuple)]
            if len({len(row) for row in rows}) != 1 or any(_is_mixed(column) for column in zip(*rows, strict=True)):
                yield node


def _is_mixed(nodes: Iterable[Any]) -> bool:
    kinds = {_kind(node) for node in nodes if node is not None}
    return len(kinds - {""}) > 1


def _kind(node: Any) -> str:
    """The kind of a literal; literals of one kind keep their value when cast to a common type."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Add | exp.Sub) and _adds_interval(node)):
        node = node.this
    value = literal_value(node)
    if value is None:
        return ""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return "instant"
    if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        return "exact"
    if isinstance(value, dt.date):
        return "time"
    return type(value).__name__


def _adds_interval(node: Any) -> bool:
    return isinstance(node.expression, exp.Interval)


_KNOWN_PARTS = frozenset({"this", "db", "catalog", "alias", "joins"})
_MOST_PARTS = 3

# Every condition is evaluated for every table joined before it.
_MOST_JOINS = 60

_STAR = "*"

_TABLE_WORDS = {"FROM": 0, "JOIN": 0, "TABLE": 0, "DESCRIBE": 0, "DESC": 0, "USING": 0, "(": 1, ",": 1}


@dataclass(frozen=True)
class FullName:
    """A fully qualified table name in lower case."""

    catalog: str
    schema: str
    table: str


@dataclass(frozen=True)
class Qualifier:
    """A table's name before one of its columns.

    Attributes:
        start: position in the text.
        end: the position after it.
        column: the column's name in lower case, `*` for all.
    """

    start: int
    end: int
    column: str


class QualifierError(Exception):
    """A qualified name whose meaning could change."""


class Qualifiers:
    """Columns that a query names with their table's schema or catalog: `hive.shop.orders.price`.

    The table is replaced by a sub-query that is called `orders`, so such a column has to become `orders.price`. Where
    the name might mean another column then, the table is left alone.

    Args:
        tree: its syntax tree.
        lexemes: of its text.
    """

    def __init__(self, tree: Any, lexemes: Sequence[Lexeme]) -> None:
        self._chains = [
            (chain[0].start, tuple(part.name or part.text for part in chain))
            for chain in dotted_names(lexemes)
            if len(chain) > 2
        ]
        columns = tree.find_all(exp.Column) if self._chains else []
        self._columns: Mapping[int, Any] = {
            column.parts[0].meta["start"]: column for column in columns if "start" in column.parts[0].meta
        }

    def of(self, table: Any, name: tuple[str, ...], own: str) -> tuple[Qualifier, ...]:
        """The columns that are named with a table's schema, or schema and catalog.

        Args:
            table: in the syntax tree, without an alias.
            name: its full name in lower case: catalog, schema, table.
            own: its last part in lower case, which remains.

        Raises:
            QualifierError: such a name may mean something else once the table is replaced.
        """
        qualifiers = []
        for start, chain in self._chains:
            size = next((n for n in (3, 2) if len(chain) > n and chain[:n] == name[-n:]), None)
            if size is not None:
                qualifiers.append(self._qualifier(table, start, name[-size:]))
        if qualifiers and sum(other == own for other in _names_beside(table)) > 1:
            raise QualifierError(f"columns are called by {'.'.join(name)}, and another table is called {own}")
        return tuple(qualifiers)

    def _qualifier(self, table: Any, start: int, name: tuple[str, ...]) -> Qualifier:
        column = self._columns.get(start)
        size = len(name)
        parts = [] if column is None else column.parts
        places = [part.meta for part in parts[:size]]
        if (
            column is None
            or len(parts) <= size
            or tuple(part.name.lower() for part in parts[:size]) != name
            or not all("end" in place for place in places)
            # in an inner query its column may be one of a table there
            or column.find_ancestor(exp.Select) is not table.find_ancestor(exp.Select)
        ):
            raise QualifierError(f"columns are called by {'.'.join(name)}")
        last = parts[size]
        return Qualifier(start, places[-1]["end"] + 1, _STAR if isinstance(last, exp.Star) else last.name.lower())


def _names_beside(table: Any) -> list[str]:
    """What the items of the FROM around a table are called, in lower case."""
    select = table.find_ancestor(exp.Select)
    if select is None:
        return []
    beside = select.find_all(exp.Table, exp.Subquery, exp.Unnest, exp.Lateral, exp.Values)
    return [node.alias_or_name.lower() for node in beside if node.find_ancestor(exp.Select) is select]


@dataclass(frozen=True, eq=False)
class Reference:
    """One place where a query reads a table.

    Attributes:
        node: in the syntax tree.
        name: of the table.
        start: position of the name in the text.
        end: the position after it.
        own_name: last part of the name as written, by which the query refers to it; None if it has an alias.
        problem: why the name cannot be replaced; empty if it can.
        qualifiers: where columns are called by more than its last part.
    """

    node: Any
    name: FullName
    start: int
    end: int
    own_name: str | None
    problem: str
    qualifiers: tuple[Qualifier, ...] = ()

    def replaced_by(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The changes of the text that put another one in the place of the name."""
        yield self.start, self.end, text
        for qualifier in self.qualifiers:
            yield qualifier.start, qualifier.end, self.own_name or ""


def full_name(parts: Sequence[str], session: SessionNames) -> FullName | None:
    """The table that a name refers to in a session; None if the session does not determine it."""
    if not 1 <= len(parts) <= _MOST_PARTS:
        return None
    missing = [session.catalog, session.schema][: _MOST_PARTS - len(parts)]
    names = [*missing, *parts]
    if not all(names) or not "".join(map(str, names)).isprintable():
        return None
    return FullName(*(str(part).lower() for part in names))


def likely_tables(lexemes: Sequence[Lexeme], session: SessionNames) -> list[FullName]:
    """Names that are probably tables, judged by the preceding words, likeliest first; for statements not understood."""
    ranked: dict[FullName, int] = {}
    before = {after.start: lexeme.word for lexeme, after in itertools.pairwise(lexemes)}
    for chain in dotted_names(lexemes):
        rank = _TABLE_WORDS.get(before.get(chain[0].start, ""))
        name = full_name([part.name or "" for part in chain], session)
        if rank is not None and name is not None:
            ranked[name] = min(rank, ranked.get(name, rank))
    return sorted(ranked, key=lambda name: ranked[name])


def references_of(query: Query, sql: str, session: SessionNames) -> list[Reference]:
    """All table references of a query.

    Args:
        query: as parsed.
        sql: the statement.
        session: see `SessionNames`.

    Raises:
        NotRewrittenError: the query uses hidden columns, or reads tables in an unsupported way.
    """
    _check_forms(query.lexemes)
    if any(len(select.args.get("joins") or ()) > _MOST_JOINS for select in query.tree.find_all(exp.Select)):
        raise NotRewrittenError(Reason.NOT_ATTRIBUTED, f"more than {_MOST_JOINS} joins")
    return list(_references(query, sql, session))


def _check_forms(lexemes: Sequence[Lexeme]) -> None:
    for lexeme in lexemes:
        name = lexeme.name
        if name is not None and name.startswith("$"):
            raise NotRewrittenError(Reason.HIDDEN_COLUMN, name)
        if lexeme.word in {"TABLE", "MATCH_RECOGNIZE", "TABLESAMPLE"}:
            raise NotRewrittenError(Reason.NOT_ATTRIBUTED, lexeme.word)


def _references(query: Query, sql: str, session: SessionNames) -> Iterator[Reference]:
    qualifiers = Qualifiers(query.tree, query.lexemes)
    for node in query.tree.find_all(exp.Table):
        parts = table_parts(node)
        name = None if parts is None else full_name(parts, session)
        if parts is None or name is None:
            continue
        places = [part.meta for part in node.parts]
        if not all("start" in place and "end" in place for place in places):
            raise NotRewrittenError(Reason.NOT_ATTRIBUTED, f"the position of {'.'.join(parts)} is unknown")
        start, end = places[0]["start"], places[-1]["end"] + 1
        alias = node.args.get("alias")
        named = isinstance(alias, exp.TableAlias) and bool(alias.name)
        own = sql[places[-1]["start"] : end]
        problem = _problem(node, parts, named=named)
        qualified: tuple[Qualifier, ...] = ()
        full = (name.catalog, name.schema, name.table)
        if not named:
            node.meta[FULL_NAME] = full
            try:
                qualified = qualifiers.of(node, full, name.table)
            except QualifierError as error:
                problem = problem or str(error)
        yield Reference(node, name, start, end, None if named else own, problem, qualified)


def _problem(node: Any, parts: Sequence[str], *, named: bool) -> str:
    """Why a table's name cannot be replaced; empty if it can."""
    unsupported = [
        key for key, value in node.args.items() if value not in (None, [], False) and key not in _KNOWN_PARTS
    ]
    if unsupported:
        return f"{parts[-1]} is read with {unsupported[0]}"
    if node.args.get("alias") is not None and not named:
        return f"{parts[-1]} has an odd alias"
    if not isinstance(node.parent, exp.From | exp.Join | exp.Subquery | exp.Paren):
        return f"{parts[-1]} is read by {type(node.parent).__name__}"
    return ""


@dataclass(frozen=True)
class TableFilter:
    """What the rows of a table have to meet at one place of a query.

    Attributes:
        expression: TRUE if all rows are needed.
        unknown: conditions on the table's columns that are not understood.
    """

    expression: HudiExpression
    unknown: tuple[str, ...] = ()


def filters_of(query: Query, session: SessionNames, schemas: Mapping[FullName, pa.Schema]) -> dict[int, TableFilter]:
    """For each table reference, the filter that rows must meet to be needed.

    Args:
        query: as parsed; ambiguous conditions are masked in its tree.
        session: see `SessionNames`.
        schemas: columns of the tables as the query sees them.

    Returns:
        Filters by the `id` of a reference's node.

    Raises:
        NotRewrittenError: the query is nested too deeply.
    """
    fold_constants(query.tree, DIALECT)
    replace_current_times(query.tree, dt.datetime.now(dt.UTC))
    mask_ambiguous(query.tree, schemas.values())

    def find(parts: tuple[str, ...]) -> tuple[str, pa.Schema] | None:
        name = full_name(parts, session)
        return None if name is None or name not in schemas else (name.table, schemas[name])

    try:
        scans = table_scans(query.tree, DIALECT, find, query.lists)
    except FilterSyntaxError as error:
        raise NotRewrittenError(Reason.NOT_PARSED, str(error)) from None
    filters: dict[int, TableFilter] = {}
    for scan in scans:
        # visited twice: either filter may apply
        key = id(scan.node)
        filters[key] = TableFilter(Constant(value=True) if key in filters else scan.filter, scan.unknown)
    return filters
