"""Statements for Trino, with each Hudi table replaced by the files of one snapshot that the query may need.

A synced table is read by Trino's Hive connector through a list of files. It is replaced by an entry that lists exactly
the files of the newest snapshot and never changes, with a condition on `"$path"` for the files that the planner kept.
Whatever might not return the same rows is left unchanged.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from catalog.planner import Plan
from catalog.scan import Scan
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.gateway.attribution import (
    FullName,
    Reference,
    TableFilter,
    filters_of,
    likely_tables,
    references_of,
)
from hudi_catalog.gateway.entry_guard import changes_of, refusal_of, shown_schemas, without_snapshots
from hudi_catalog.gateway.lexing import Lexeme, lexemes_of
from hudi_catalog.gateway.options import GatewayOptions
from hudi_catalog.gateway.parsing import StatementText, parse_query
from hudi_catalog.gateway.redaction import redacted
from hudi_catalog.gateway.statement import Form, NotRewrittenError, Reason, SessionNames, Statement, read_statement
from hudi_catalog.gateway.trino_filter import as_trino_filters, trino_schema
from hudi_catalog.metastore.entries import keeps_meta_fields
from hudi_catalog.metastore.metastore import TrinoView
from hudi_catalog.metastore.trino_tables import SyncedTable, TrinoTables
from hudi_catalog.server.query_log import QueryLog
from pushdown.expression import Constant
from table_format.errors import HudiError, TableNotFoundError
from table_format.meta_columns import META_COLUMNS


def quoted_name(*parts: str) -> str:
    """A quoted identifier path."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def quoted_text(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def table_of_files(name: str, paths: Sequence[str] | None, own_name: str | None) -> str:
    """The SQL that replaces a table.

    Args:
        name: quoted name of the table that lists a snapshot's files.
        paths: the files to read, as in `$path`; None for all.
        own_name: by which the query refers to the table; None if an alias follows.
    """
    called = "" if own_name is None else f" AS {own_name}"
    if paths is None:
        return name + called
    condition = f'"$path" IN ({", ".join(map(quoted_text, paths))})' if paths else "false"
    return f"(SELECT * FROM {name} WHERE {condition}){called}"  # noqa: S608  # all parts are quoted


def spliced(sql: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """A text with some non-overlapping ranges replaced.

    >>> spliced("select * from t, u", [(17, 18, "w"), (14, 15, "v AS t")])
    'select * from v AS t, w'
    """
    parts: list[str] = []
    position = 0
    for start, end, text in sorted(replacements):
        parts += [sql[position:start], text]
        position = end
    return "".join([*parts, sql[position:]])


_EVERY_ROW = TableFilter(Constant(value=True))

# Most conditions said not to be understood.
_MOST_UNKNOWN = 20

# Most names looked up for a statement that is not understood.
_MOST_NAMES = 20

# Inside a string the quotes around paths are doubled.
_ROOM_FOR_QUOTES = 0.9

# Like the end of a pinned snapshot's name.
_SAMPLE = "0123456789abcdef"


@dataclass(frozen=True)
class RewrittenTable:
    """A table reference that was replaced.

    Attributes:
        name: `schema.table`.
        instant: of the snapshot.
        files: number of files read.
        files_total: number of files in the snapshot.
    """

    name: str
    instant: str | None
    files: int
    files_total: int


@dataclass(frozen=True)
class Rewritten:
    """Result of rewriting a statement.

    Attributes:
        sql: what to send to Trino.
        changed: whether it differs from the original.
        reason: outcome, for metrics.
        detail: details for people.
        tables: the references that were replaced.
        not_understood: conditions on Hudi tables by which no file was left out.
        refusal: why the statement is not for Trino; empty if it is.
        seconds: time taken.
    """

    sql: str
    changed: bool
    reason: Reason
    detail: str = ""
    tables: tuple[RewrittenTable, ...] = ()
    not_understood: tuple[str, ...] = ()
    refusal: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class _Request:
    """Arguments of `Rewriter.rewrite`."""

    sql: str
    session: SessionNames
    parameters: Sequence[str] | None
    limit: int


@dataclass(frozen=True, eq=False)
class _QueryTable:
    """A synced table in a query, at the snapshot that the whole query reads."""

    synced: SyncedTable
    snapshot: Snapshot
    name: FullName

    @property
    def schema(self) -> pa.Schema:
        """The columns visible to the query."""
        whole = trino_schema(self.snapshot.schema)
        if keeps_meta_fields(self.synced.entry):
            return whole
        return pa.schema([field for field in whole if field.name not in META_COLUMNS])


@dataclass(frozen=True, eq=False)
class _PlannedReference:
    """A reference to a synced table, and the plan of the files needed there."""

    reference: Reference
    known: _QueryTable
    plan: Plan
    not_understood: tuple[str, ...]

    @property
    def rewritten(self) -> RewrittenTable:
        """Log entry for this table."""
        name = f"{self.known.name.schema}.{self.known.name.table}"
        return RewrittenTable(name, self.known.snapshot.instant, len(self.plan), self.plan.files_total)


class Rewriter:
    """Rewrites statements; thread-safe.

    Args:
        tables: the synced tables.
        options: see `GatewayOptions`.
        log: query log; None for no log.
    """

    def __init__(self, tables: TrinoTables, options: GatewayOptions | None = None, log: QueryLog | None = None) -> None:
        self.tables = tables
        self.options = options or GatewayOptions()
        self.log = log

    def rewrite(
        self,
        sql: str,
        session: SessionNames,
        *,
        parameters: Sequence[str] | None = None,
        length_limit: int | None = None,
    ) -> Rewritten:
        """Rewrite a statement.

        Args:
            sql: one statement of Trino's SQL.
            session: resolves its names.
            parameters: SQL texts of a prepared statement's parameter values; None if unknown.
            length_limit: most characters of the result; None for the option's limit.

        Returns:
            The statement to send. Never raises: on any failure it is the original one, but for a synced table that is
            not there, where the client gets an error.
        """
        begin = time.perf_counter()
        limit = self.options.query_length if length_limit is None else length_limit
        try:
            result = self._rewritten(_Request(sql, session, parameters, limit))
        except NotRewrittenError as left:
            result = Rewritten(sql, changed=False, reason=left.reason, detail=left.detail)
        except TableNotFoundError as error:
            refusal = f"{error}: mount or restore the table, or drop its entry; Trino would take the entry for empty"
            result = Rewritten(sql, changed=False, reason=Reason.REFUSED, detail=refusal, refusal=refusal)
        except Exception as error:  # noqa: BLE001  # a query must never fail because of rewriting
            result = Rewritten(sql, changed=False, reason=Reason.FAILED, detail=f"{type(error).__name__}: {error}")
        result = replace(result, seconds=time.perf_counter() - begin)
        if self.log is not None:
            self.log.query(
                "gateway",
                outcome="refused" if result.refusal else "rewritten" if result.changed else "unchanged",
                reason=str(result.reason),
                detail=result.detail,
                sql=redacted(sql),
                ms=round(result.seconds * 1000, 3),
                tables=[asdict(table) for table in result.tables],
                unknown=list(result.not_understood),
                catalog=session.catalog,
                schema=session.schema,
            )
        return result

    def _rewritten(self, request: _Request) -> Rewritten:
        text = StatementText.of(request.sql)
        statement = read_statement(request.sql, text.lexemes)
        if statement.form is Form.IMMEDIATE:
            return self._immediate(request, statement)
        refusal = refusal_of(changes_of(text.lexemes, request.session), self.options.catalogs, self.tables.entries_of)
        if refusal is not None:
            return Rewritten(request.sql, changed=False, reason=Reason.REFUSED, detail=refusal, refusal=refusal)
        if statement.form is not Form.QUERY:
            return self._other(request, text)
        try:
            return self._query(request, text, statement)
        except Exception:
            self._bring_up_to_date(text.lexemes, request.session)
            raise

    def _other(self, request: _Request, text: StatementText) -> Rewritten:
        """A statement without a query: SHOW SCHEMAS becomes one, of others the tables are brought up to date."""
        sql, options = request.sql, self.options
        if not options.snapshots_listed:
            shown = shown_schemas(sql, text.lexemes, request.session, options.catalogs)
            if shown is not None:
                return Rewritten(shown, changed=True, reason=Reason.LISTING)
        with contextlib.suppress(TableNotFoundError):  # it does not read the table
            self._bring_up_to_date(text.lexemes, request.session)
        raise NotRewrittenError(Reason.NOT_A_QUERY)

    def _immediate(self, request: _Request, statement: Statement) -> Rewritten:
        """Rewrite the statement inside the string of EXECUTE IMMEDIATE."""
        sql, inner = request.sql, statement.text
        limit = int((request.limit - len(sql) + len(inner)) * _ROOM_FOR_QUOTES)
        result = self._rewritten(replace(request, sql=inner, parameters=statement.parameters, limit=limit))
        text = spliced(sql, [(statement.start, statement.end, quoted_text(result.sql))]) if result.changed else sql
        return replace(result, sql=text)

    def _query(self, request: _Request, text: StatementText, statement: Statement) -> Rewritten:
        begin = time.perf_counter()
        sql, session = request.sql, request.session
        query = parse_query(text, statement, request.parameters)
        references = references_of(query, sql, session)
        listings = self._listings(references, sql)
        known = self._known(references)
        self._bring_views_up_to_date([one.name for one in references if one.name not in known])
        if not known and listings:
            changes = [part for one, new in listings for part in one.replaced_by(new)]
            return Rewritten(spliced(sql, changes), changed=True, reason=Reason.LISTING)
        if not known:
            return Rewritten(sql, changed=False, reason=Reason.NO_TABLE)
        _check_reads_by_name({name.catalog for name in known}, session)
        filters = filters_of(query, session, {name: table.schema for name, table in known.items()})
        places = [
            self._planned(reference, known[reference.name], filters.get(id(reference.node), _EVERY_ROW), begin)
            for reference in references
            if reference.name in known
        ]
        chosen = self._chosen(places)
        for table in known.values():
            if not any(place.known.synced is table.synced for place in chosen):
                self.tables.point_at(table.synced, table.snapshot)
        if not chosen:
            problem = next((place.reference.problem for place in places if place.reference.problem), "")
            reason = Reason.NOT_ATTRIBUTED if problem else Reason.KEEPS_MOST
            ruled = next((place.known for place in places if not self._has_rules_of_snapshots(place)), None)
            if not problem and ruled is not None:
                reason, problem = Reason.ACCESS_RULES, f"{ruled.synced.entry.schema}.{ruled.synced.entry.name}"
            return Rewritten(sql, changed=False, reason=reason, detail=problem, not_understood=_unread(places))
        return replace(self._spliced(request, chosen), not_understood=_unread(places))

    def _listings(self, references: Sequence[Reference], sql: str) -> list[tuple[Reference, str]]:
        """The listings of schemas and tables in a query, and what replaces them."""
        if self.options.snapshots_listed:
            return []
        replaced = [(one, without_snapshots(one, sql, self.options.catalogs)) for one in references]
        return [(one, text) for one, text in replaced if text is not None]

    def _known(self, references: Sequence[Reference]) -> dict[FullName, _QueryTable]:
        known: dict[FullName, _QueryTable] = {}
        seen: dict[tuple[str, str], _QueryTable | None] = {}
        for name in dict.fromkeys(reference.name for reference in references):
            if name.catalog not in self.options.catalogs:
                continue
            key = (name.schema, name.table)
            if key not in seen:
                synced = self.tables.find(*key)
                seen[key] = None if synced is None else _QueryTable(synced, self.tables.newest(synced), name)
            table = seen[key]
            if table is not None:
                known[name] = table
        return known

    def _planned(
        self, reference: Reference, known: _QueryTable, row_filter: TableFilter, begin: float
    ) -> _PlannedReference:
        snapshot = known.snapshot
        wanted = row_filter.expression
        expression = as_trino_filters(wanted, snapshot.schema)
        columns = {name.lower() for name in known.schema.names}
        unknown_columns = {qualifier.column for qualifier in reference.qualifiers} - columns - {"*"}
        if unknown_columns and not reference.problem:
            # perhaps a field of a struct that is called like the schema
            reference = replace(reference, problem=f"{min(unknown_columns)} is not a column of {reference.name.table}")
        with self.tables.watched(known.synced):
            plan = Scan(snapshot, expression, None, self.options.scan).plan()
        if self.log is not None:
            self.log.planned(
                "gateway",
                f"{known.name.schema}.{known.name.table}",
                plan,
                received=repr(wanted),
                seconds=time.perf_counter() - begin,
            )
        unread = tuple(dict.fromkeys((*row_filter.unknown, *plan.unknowns)))
        return _PlannedReference(reference, known, plan, unread)

    def _chosen(self, places: Sequence[_PlannedReference]) -> list[_PlannedReference]:
        """The references to replace: of tables where pruning pays somewhere and every reference can be replaced.

        All references to one table must read one snapshot: all are replaced, or none.
        """
        fixed = {
            id(place.known.synced)
            for place in places
            if place.reference.problem or not self._has_rules_of_snapshots(place)
        }
        worth = {id(place.known.synced) for place in places if self._is_worth_it(place.plan)}
        return [place for place in places if id(place.known.synced) in worth - fixed]

    def _has_rules_of_snapshots(self, place: _PlannedReference) -> bool:
        """Whether Trino's known access rules for a table also apply to its pinned snapshots."""
        instant = place.known.snapshot.instant or ""
        return self._has_rules_of(place, *place.known.synced.pin_name(f"{instant}__{_SAMPLE}"))

    def _has_rules_of(self, place: _PlannedReference, schema: str, table: str) -> bool:
        rules, name = self.options.rules, place.reference.name
        return rules is None or rules.same(
            (name.catalog, name.schema, name.table), (name.catalog, schema.lower(), table.lower())
        )

    def _is_worth_it(self, plan: Plan) -> bool:
        if len(plan) == plan.files_total:
            return False
        return plan.bytes_kept <= self.options.kept_at_most * plan.bytes_total

    def _spliced(self, request: _Request, places: Sequence[_PlannedReference]) -> Rewritten:
        sql = request.sql
        texts = [self._text(place, self._paths(place, request.session)) for place in places]
        if len(sql) + sum(map(len, texts)) > request.limit:
            texts = [self._text(place, None) for place in places]
        references = [place.reference for place in places]
        text = spliced(sql, [part for one, new in zip(references, texts, strict=True) for part in one.replaced_by(new)])
        if len(text) > request.limit:
            raise NotRewrittenError(Reason.TOO_LONG, f"{len(text):,} characters")
        tables = tuple(place.rewritten for place in places)
        return Rewritten(text, changed=True, reason=Reason.REWRITTEN, tables=tables)

    def _paths(self, place: _PlannedReference, session: SessionNames) -> list[str] | None:
        """The paths to write into the query; None for all of the snapshot, or if there are too many."""
        plan = place.plan
        most = min(self.options.paths, _threshold(place.reference.name.catalog, session))
        if not self._is_worth_it(plan) or len(plan) > most:
            return None
        column: Any = self.tables.path_column(place.known.synced, place.known.snapshot, plan.rows)
        listed: list[str] = column.to_pylist()
        return listed if sum(map(len, listed)) <= self.options.paths_length else None

    def _text(self, place: _PlannedReference, paths: Sequence[str] | None) -> str:
        known, plan = place.known, place.plan
        rows = None if paths is not None or not self._is_worth_it(plan) else plan.rows
        schema, table = self.tables.pin(known.synced, known.snapshot, rows)
        if not self._has_rules_of(place, schema, table):
            raise NotRewrittenError(Reason.ACCESS_RULES, f"{known.name.schema}.{known.name.table}")
        name = quoted_name(place.reference.name.catalog, schema, table)
        return table_of_files(name, paths, place.reference.own_name)

    def _bring_up_to_date(self, lexemes: Sequence[Lexeme], session: SessionNames) -> None:
        """Let the tables that a statement names show their newest snapshot although it is not rewritten."""
        names = likely_tables(lexemes, session)[:_MOST_NAMES]
        for name in names:
            self._move_entry(name)
        self._bring_views_up_to_date(names)

    def _bring_views_up_to_date(self, names: Sequence[FullName]) -> None:
        """Let the tables below views show their newest snapshot, which Trino reads without a word to the gateway."""
        seen = set(names)
        pending = [name for name in names if name.catalog in self.options.catalogs]
        while pending and len(seen) <= _MOST_NAMES + len(names):
            name = pending.pop()
            view = self._view(name)
            lexemes = None if view is None else lexemes_of(view.sql)
            if view is None or lexemes is None:
                continue
            session = SessionNames(view.catalog or name.catalog, view.schema or name.schema)
            for below in likely_tables(lexemes, session)[:_MOST_NAMES]:
                if below not in seen:
                    seen.add(below)
                    pending.append(below)
                    self._move_entry(below)

    def _view(self, name: FullName) -> TrinoView | None:
        try:
            return self.tables.view(name.schema, name.table)
        except HudiError as error:
            self._not_moved(name, error)
            return None

    def _move_entry(self, name: FullName) -> None:
        if name.catalog not in self.options.catalogs:
            return
        try:
            synced = self.tables.find(name.schema, name.table)
            if synced is not None:
                self.tables.point_at(synced, self.tables.newest(synced))
        except TableNotFoundError:
            raise
        except HudiError as error:
            self._not_moved(name, error)

    def _not_moved(self, name: FullName, error: HudiError) -> None:
        if self.log is not None:
            self.log.event("gateway", "not brought up to date", table=f"{name.schema}.{name.table}", error=str(error))


def _unread(places: Sequence[_PlannedReference]) -> tuple[str, ...]:
    """The conditions that were not understood, each once."""
    texts = dict.fromkeys(text for place in places for text in place.not_understood)
    return tuple(texts)[:_MOST_UNKNOWN]


def _threshold(catalog: str, session: SessionNames) -> float:
    """How many paths the session lets the connector prune by, if it sets that."""
    text = session.properties.get(f"{catalog}.domain_compaction_threshold", "")
    return int(text) if text.isdecimal() else float("inf")


def _check_reads_by_name(catalogs: Iterable[str], session: SessionNames) -> None:
    for catalog in catalogs:
        if session.properties.get(f"{catalog}.parquet_use_column_names", "true").lower() != "true":
            raise NotRewrittenError(
                Reason.NOT_ATTRIBUTED, "the session reads columns by their place, not by their name"
            )
