"""The filters that a whole query puts on the tables it reads.

A table's filter is implied by the query: a row of the table for which it is not true can be left out of the scan
without changing the query's result. Parts that may be about another table are `Unknown`.

- WHERE holds for the tables of its FROM. Behind an outer join the rows of a table may be missing and its columns null;
  then only conditions count that reject such a row of nulls.
- ON holds for both sides of an inner or semi join, and only for the side that may be missing of an outer one, or that
  is looked into by an anti join.
- HAVING, QUALIFY, conditions with sub-queries and filters on a sub-query's result hold for no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from pushdown.errors import ExpressionError, FilterSyntaxError
from pushdown.expression import And, Constant, HudiExpression, Not, Op, Or, Predicate, Unknown, all_of, any_of
from pushdown.sql.condition import NOT_UNDERSTOOD, translate_condition
from pushdown.sql.nesting import parses_too_often
from pushdown.sql.parser import BACKSLASH_DIALECTS, DIALECTS, decode_strings
from pushdown.sql.refusals import query_error
from pushdown.sql.scopes import Source, Sources, TableFinder, argument, finder_of, read_source
from pushdown.walk import fold, leaves

# Parts of a SELECT after which a condition of its WHERE still holds for the rows of its tables.
_OUTPUT_PARTS = ["with", "with_", "kind", "expressions", "hint", "distinct", "into", "operation_modifiers", "order"]
_GROUP_PARTS = ["group", "having", "windows", "qualify", "sort", "cluster", "distribute", "limit", "offset"]
_KNOWN_PARTS = frozenset([*_OUTPUT_PARTS, *_GROUP_PARTS, "from", "from_", "joins", "laterals", "where"])
_KNOWN_JOINS = frozenset(["this", "side", "kind", "on", "using", "hint", "global", "global_"])
_SEMI = frozenset({"SEMI", "ANTI"})
_COMMON_TYPES = frozenset({"trino", "presto"})
# Whether a part may be true, and whether it may be false.
_Truths = tuple[bool, bool]


def predicates_of_query(sql: str, dialect: str, tables: Mapping[str, pa.Schema]) -> dict[str, HudiExpression]:
    """The filter of each table that a query reads.

    Args:
        sql: one SELECT, with or without CTEs and set operations.
        dialect: spark, hive, trino or presto.
        tables: the schemas of the tables, by the names that the query may call them by; a name without its schema or
            catalog is found too if it is the only one. Tables that are not among them are passed over.

    Returns:
        A filter by the table's alias, or its name (the key of `tables`) where it has none. One that is read several
        times under one name has the OR of its filters; one without a filter TRUE.

    Raises:
        FilterSyntaxError: the text is not a query.
    """
    filters_by_table: dict[str, list[HudiExpression]] = {}
    for scan in table_scans(_parsed(sql, dialect), dialect, finder_of(tables)):
        filters_by_table.setdefault(scan.key, []).append(scan.filter)
    return {name: any_of(*dict.fromkeys(filters)) for name, filters in filters_by_table.items()}


@dataclass(frozen=True, eq=False)
class TableScan:
    """One table read of a query.

    Attributes:
        key: the table's alias there, or what the finder calls it.
        node: the table in the syntax tree.
        filter: what its rows must meet there; TRUE for all.
        unknown: conditions on its columns alone that are not understood.
    """

    key: str
    node: Any
    filter: HudiExpression
    unknown: tuple[str, ...] = ()


def table_scans(
    tree: Any, dialect: str, find: TableFinder, lists: Mapping[str, tuple[Any, ...]] | None = None
) -> list[TableScan]:
    """The table reads of a parsed query, each with its own filter.

    Args:
        tree: the query as sqlglot parsed it.
        dialect: spark, hive, trino or presto.
        find: finds the tables to report.
        lists: literals of IN lists that were removed from the text, by their placeholders.

    Raises:
        FilterSyntaxError: the query is nested too deeply.
    """
    scans: list[TableScan] = []
    reading = Reading(dialect, lists or {})
    try:
        for select in tree.find_all(exp.Select):
            reader = _Select(select, reading, find)
            for source, parts in reader.read():
                filters = parts or [Constant(value=True)]
                whole = filters[0] if len(filters) == 1 else And(filters)
                unknown = tuple(dict.fromkeys(reader.unknown.get(id(source), ())))
                scans.append(TableScan(source.key, source.node, whole, unknown))
    except RecursionError:
        raise FilterSyntaxError("the query is nested too deeply") from None
    return scans


def _parsed(sql: str, dialect: str) -> Any:
    if dialect not in DIALECTS:
        raise ExpressionError(f"there is no SQL dialect {dialect!r}; use one of {', '.join(DIALECTS)}")
    reader = Dialect.get_or_raise(dialect)
    try:
        tokens = reader.tokenize(sql)
        if dialect in BACKSLASH_DIALECTS:
            tokens = decode_strings(tokens, sql)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens = tokens[:-1]
        parser = reader.parser()
        if parses_too_often(tokens, parser):
            raise FilterSyntaxError("the query is nested too deeply")
        trees = parser.parse(tokens, sql)
    except SqlglotError as error:
        raise FilterSyntaxError(query_error(error, sql, dialect)) from None
    except RecursionError:
        raise FilterSyntaxError("the query is nested too deeply") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise FilterSyntaxError("one query is expected: SELECT …")
    return trees[0]


@dataclass
class _Side:
    """The sources of one operand of a join.

    Attributes:
        sources: all of them.
        nullable: those whose columns may be null because their row is missing.
        filters: conditions of each that hold for its scan.
    """

    sources: list[Source] = field(default_factory=list)
    nullable: set[int] = field(default_factory=set)
    filters: dict[int, list[HudiExpression]] = field(default_factory=dict)


class _Select:
    """The tables of one SELECT, without those of its sub-queries."""

    def __init__(self, select: Any, reading: Reading, find: TableFinder) -> None:
        self.select = select
        self.reading = reading
        self.find = find
        # Tables whose columns nothing outside their join sees.
        self.hidden: list[Source] = []
        # By the source's identity: what is not understood of it.
        self.unknown: dict[int, list[str]] = {}

    def read(self) -> list[tuple[Source, list[HudiExpression]]]:
        known = all(value in (None, [], False) or name in _KNOWN_PARTS for name, value in self.select.args.items())
        start = argument(self.select, "from")
        if start is None:
            return []
        side = self._operand(start.this)
        for join in self.select.args.get("joins") or []:
            side = self._join(side, join)
        for lateral in self.select.args.get("laterals") or []:
            side.sources.append(read_source(lateral, self.find))
        where = self.select.args.get("where")
        if where is not None:
            self._apply(where.this, side, side.sources)
        return [
            (source, side.filters.get(id(source), []) if known and source.filterable else [])
            for source in side.sources + self.hidden
            if source.is_table
        ]

    def _operand(self, node: Any) -> _Side:
        if isinstance(node, exp.Paren) or (isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)):
            inner = node.this
            side = self._operand(inner)
            for join in node.args.get("joins") or []:
                side = self._join(side, join)
            if node.args.get("alias") is not None:
                for source in side.sources:
                    source.filterable = False
            return side
        side = _Side([read_source(node, self.find)])
        for join in node.args.get("joins") or []:
            side = self._join(side, join)
        return side

    def _join(self, left: _Side, join: Any) -> _Side:
        right = self._operand(join.this)
        how, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        known = all(value in (None, [], False, "") or name in _KNOWN_JOINS for name, value in join.args.items())
        joined = _Side(left.sources + right.sources, left.nullable | right.nullable, left.filters | right.filters)
        if (
            not known
            or kind not in {"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"}
            or (kind in _SEMI and how == "RIGHT")
        ):
            for source in joined.sources:
                source.filterable = False
        on = join.args.get("on")
        inner = not how and kind in {"", "INNER", "CROSS"}
        if on is not None and how != "FULL":
            holds_for = list(right.sources) if how != "RIGHT" else []
            if inner or how == "RIGHT" or kind == "SEMI":
                holds_for += left.sources
            self._apply(on, joined, holds_for)
        self._merge_using(join, left, right, how)
        if kind in _SEMI:
            self.hidden += right.sources
            return _Side(left.sources, left.nullable, joined.filters)
        if how in {"LEFT", "FULL"}:
            joined.nullable |= {id(source) for source in right.sources}
        if how in {"RIGHT", "FULL"}:
            joined.nullable |= {id(source) for source in left.sources}
        return joined

    def _merge_using(self, join: Any, left: _Side, right: _Side, how: str) -> None:
        """A column of USING is the left side's; in a right join the right's, in a full join neither's.

        In Trino it has the type that both sides' columns have in common, so it is neither's where they differ.
        """
        for identifier in join.args.get("using") or []:
            name = identifier.name.lower()
            cast = self.reading.dialect in _COMMON_TYPES and not _of_one_type(name, left, right)
            sources = (right.sources if cast or how != "RIGHT" else []) + (
                left.sources if cast or how in {"RIGHT", "FULL"} else []
            )
            for source in sources:
                source.merged.add(name)

    def _apply(self, condition: Any, visible: _Side, holds_for: list[Source]) -> None:
        sources = Sources(visible.sources)
        parts = conjuncts(condition)
        comparisons: dict[int, _Comparison] = {}
        for source in holds_for:
            if not source.is_table:
                continue
            for part in parts:
                of_source = _weakened(part, source, sources, self.reading, comparisons)
                parts_of_source = list(leaves(of_source))
                reasons = [leaf.reason for leaf in parts_of_source if isinstance(leaf, Unknown)]
                unread = [reason for reason in reasons if reason.endswith(NOT_UNDERSTOOD)]
                self.unknown.setdefault(id(source), []).extend(unread)
                if len(reasons) == len(parts_of_source):
                    continue
                if id(source) in visible.nullable and not rejects_nulls(of_source):
                    continue
                visible.filters.setdefault(id(source), []).append(of_source)


def _of_one_type(name: str, left: _Side, right: _Side) -> bool:
    """Whether a column of USING is known to have one type on both sides."""
    types = []
    for side in (left, right):
        holders = [one for one in side.sources if one.columns is None or name in one.columns - one.merged]
        types.append(holders[0].types.get(name) if len(holders) == 1 else None)
    return types[0] is not None and types[0] == types[1]


def conjuncts(condition: Any) -> list[Any]:
    """The operands of a condition's top-level ANDs."""
    out: list[Any] = []
    pending = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.And):
            pending += [node.right, node.left]
        else:
            out.append(node)
    return out


@dataclass(frozen=True)
class Reading:
    """Dialect and options of parsing.

    Attributes:
        dialect: of the text.
        lists: literals of IN lists that were removed from the text, by their placeholders.
    """

    dialect: str
    lists: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


class _Comparison:
    """A part of a condition, without AND, OR and NOT around it.

    Attributes:
        node: in the syntax tree; kept, since its `id` is a key.
        text: of it.
        columns: the source of each of its columns and how many parts of the name qualify it, None where not certain;
            None for all if it has a sub-query.
    """

    def __init__(self, node: Any, sources: Sources, dialect: str) -> None:
        self.node = node
        self.text: str = node.sql(dialect=dialect)
        has_query = isinstance(node, exp.Query) or node.find(exp.Query) is not None
        self.columns = None if has_query else [sources.resolve(_names(column)) for column in node.find_all(exp.Column)]


def _names(column: Any) -> list[str]:
    return [part.name for part in column.parts]


def _weakened(
    node: Any, source: Source, sources: Sources, reading: Reading, comparisons: dict[int, _Comparison]
) -> HudiExpression:
    """A condition as far as it is about one source; the comparisons in it are shared by all sources."""
    if isinstance(node, exp.Paren):
        return _weakened(node.this, source, sources, reading, comparisons)
    if isinstance(node, exp.And | exp.Or):
        parts = [_weakened(part, source, sources, reading, comparisons) for part in node.flatten()]
        return all_of(*parts) if isinstance(node, exp.And) else any_of(*parts)
    if isinstance(node, exp.Not):
        return Not(_weakened(node.this, source, sources, reading, comparisons))
    known = comparisons.get(id(node))
    if known is None:
        known = comparisons[id(node)] = _Comparison(node, sources, reading.dialect)
    if known.columns is None:
        return Unknown(f"{known.text[:120]} has a sub-query")
    counts = [found[1] for found in known.columns if found is not None and found[0] is source]
    if len(counts) < len(known.columns):
        return Unknown(f"{known.text[:120]} is not only about {source.key}")
    own = node.copy()
    for column, count in zip(list(own.find_all(exp.Column)), counts, strict=True):
        replaced = _without_qualifier(column, count)
        if column is own:
            own = replaced
        else:
            column.replace(replaced)
    return translate_condition(own, known.text, reading.dialect, reading.lists)


def _without_qualifier(column: Any, count: int) -> Any:
    parts = [part.copy() for part in column.parts[count:]]
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(parts), strict=False)))


def rejects_nulls(expression: HudiExpression) -> bool:
    """Whether an unbound filter is false or null for a row of nulls, whatever its unknown parts are."""
    return not fold(expression, _visit)[0]


def _visit(node: HudiExpression, children: list[_Truths]) -> _Truths:
    if isinstance(node, Not):
        return children[0][1], children[0][0]
    if isinstance(node, And):
        return all(true for true, _ in children), any(false for _, false in children)
    if isinstance(node, Or):
        return any(true for true, _ in children), all(false for _, false in children)
    if isinstance(node, Constant):
        return node.value is True, node.value is False
    return _leaf(node) if isinstance(node, Predicate) else (True, True)


def _leaf(predicate: Predicate) -> _Truths:
    op = predicate.op
    if op in {Op.IS_NULL, Op.NOT_NULL}:
        return op is Op.IS_NULL, op is Op.NOT_NULL
    if op in {Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE}:
        equal = predicate.values[0] is None
        return equal is (op is Op.NULL_SAFE_EQ), equal is not (op is Op.NULL_SAFE_EQ)
    if op in {Op.IN, Op.NOT_IN} and not len(predicate.values):
        return op is Op.NOT_IN, op is Op.IN
    return False, False
