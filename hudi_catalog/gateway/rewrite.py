"""Statements for Trino, with each Hudi table replaced by the files of one snapshot that the query can need.

A table that the sync registered is read by Trino's Hive connector through a list of files. In place of such a table the
query gets an entry that lists exactly the files of the newest snapshot, which never changes, and a condition on
`"$path"` with those that the planner kept. What is not sure to give the same rows is left as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from catalog.planner import Plan
from catalog.scan import Scan
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.gateway.attribution import FullName, Reference, filters_of, likely_tables, references_of
from hudi_catalog.gateway.lexing import Lexeme
from hudi_catalog.gateway.options import GatewayOptions
from hudi_catalog.gateway.parsing import StatementText, parse_query
from hudi_catalog.gateway.redaction import logged_text
from hudi_catalog.gateway.statement import Form, LeftAloneError, Reason, SessionNames, Statement, read_statement
from hudi_catalog.gateway.trino_filter import as_trino_filters, seen_schema
from hudi_catalog.metastore.entries import keeps_meta_fields
from hudi_catalog.metastore.trino_tables import SyncedTable, TrinoTables
from hudi_catalog.server.query_log import QueryLog
from pushdown.expression import Constant, HudiExpression
from table_format.errors import HudiError
from table_format.meta_columns import META_COLUMNS


def quoted_name(*parts: str) -> str:
    """A name as Trino reads it, whatever its characters."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def quoted_text(text: str) -> str:
    """A literal of Trino's SQL."""
    return "'" + text.replace("'", "''") + "'"


def table_of_files(name: str, paths: Sequence[str] | None, own_name: str | None) -> str:
    """What is read in place of a table.

    Args:
        name: of the table that lists a snapshot's files, quoted.
        paths: those of its files that are wanted, as `$path` spells them; None for all.
        own_name: by which the query calls the table; None where an alias stands behind it.
    """
    called = "" if own_name is None else f" AS {own_name}"
    if paths is None:
        return name + called
    condition = f'"$path" IN ({", ".join(map(quoted_text, paths))})' if paths else "false"
    return f"(SELECT * FROM {name} WHERE {condition}){called}"  # noqa: S608  # all parts are quoted


def spliced(sql: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """A text with some ranges replaced, which do not overlap.

    >>> spliced("select * from t, u", [(17, 18, "w"), (14, 15, "v AS t")])
    'select * from v AS t, w'
    """
    parts: list[str] = []
    position = 0
    for start, end, text in sorted(replacements):
        parts += [sql[position:start], text]
        position = end
    return "".join([*parts, sql[position:]])


# Names that are looked up where a statement is not understood.
_MOST_NAMES = 20

# Inside a string the quotes around paths are doubled.
_ROOM_FOR_QUOTES = 0.9

# As the name of a pinned snapshot ends.
_SAMPLE = "0123456789abcdef"


@dataclass(frozen=True)
class RewrittenTable:
    """A table's place in a query that was replaced.

    Attributes:
        name: `schema.table`.
        instant: of the snapshot.
        files: that are read there.
        files_total: of the snapshot.
    """

    name: str
    instant: str | None
    files: int
    files_total: int


@dataclass(frozen=True)
class Rewritten:
    """A statement, rewritten or not.

    Attributes:
        sql: what to send to Trino.
        changed: whether it differs from what came.
        reason: what became of it.
        detail: more of that, for people.
        tables: the places that were replaced.
        seconds: how long it took.
    """

    sql: str
    changed: bool
    reason: Reason
    detail: str = ""
    tables: tuple[RewrittenTable, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class _Request:
    """What `Rewriter.rewrite` was called with."""

    sql: str
    session: SessionNames
    parameters: Sequence[str] | None
    limit: int


@dataclass(frozen=True, eq=False)
class _Known:
    """A registered table of a query, at the snapshot that the whole query sees."""

    synced: SyncedTable
    snapshot: Snapshot
    name: FullName

    @property
    def schema(self) -> pa.Schema:
        """The columns that the query sees."""
        whole = seen_schema(self.snapshot.schema)
        if keeps_meta_fields(self.synced.entry):
            return whole
        return pa.schema([field for field in whole if field.name not in META_COLUMNS])


@dataclass(frozen=True, eq=False)
class _Place:
    """A reference to a registered table, and which files are needed there."""

    reference: Reference
    known: _Known
    plan: Plan

    @property
    def rewritten(self) -> RewrittenTable:
        """What is told of it."""
        name = f"{self.known.name.schema}.{self.known.name.table}"
        return RewrittenTable(name, self.known.snapshot.instant, len(self.plan), self.plan.files_total)


class Rewriter:
    """Rewrites statements. Threads may share it.

    Args:
        tables: those that the sync registered.
        options: see `GatewayOptions`.
        log: gets a line for each planned table; None for none.
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
            session: where its names are looked for.
            parameters: for a prepared statement, the SQL texts of its parameters' values; None where nobody knows them.
            length_limit: how many characters the result may have; None for the option's limit.

        Returns:
            The statement to send instead. Nothing is raised: on any failure it is the one that came.
        """
        begin = time.perf_counter()
        limit = self.options.query_length if length_limit is None else length_limit
        try:
            found = self._rewritten(_Request(sql, session, parameters, limit))
        except LeftAloneError as left:
            found = Rewritten(sql, changed=False, reason=left.reason, detail=left.detail)
        except Exception as error:  # noqa: BLE001  # a query never fails because of its rewriting
            found = Rewritten(sql, changed=False, reason=Reason.FAILED, detail=f"{type(error).__name__}: {error}")
        found = replace(found, seconds=time.perf_counter() - begin)
        if self.log is not None:
            self.log.query(
                "gateway",
                outcome="rewritten" if found.changed else "unchanged",
                reason=str(found.reason),
                detail=found.detail,
                sql=logged_text(sql),
                ms=round(found.seconds * 1000, 3),
                tables=[asdict(table) for table in found.tables],
                catalog=session.catalog,
                schema=session.schema,
            )
        return found

    def _rewritten(self, request: _Request) -> Rewritten:
        cut = StatementText.of(request.sql)
        statement = read_statement(request.sql, cut.lexemes)
        if statement.form is Form.IMMEDIATE:
            return self._immediate(request, statement)
        if statement.form is not Form.QUERY:
            self._bring_up_to_date(cut.lexemes, request.session)
            raise LeftAloneError(Reason.NOT_A_QUERY)
        try:
            return self._query(request, cut, statement)
        except Exception:
            self._bring_up_to_date(cut.lexemes, request.session)
            raise

    def _immediate(self, request: _Request, statement: Statement) -> Rewritten:
        """EXECUTE IMMEDIATE: the statement is inside a string."""
        sql = request.sql
        inner = sql[statement.start + 1 : statement.end - 1].replace("''", "'")
        limit = int((request.limit - len(sql) + len(inner)) * _ROOM_FOR_QUOTES)
        found = self._rewritten(replace(request, sql=inner, parameters=statement.parameters, limit=limit))
        text = spliced(sql, [(statement.start, statement.end, quoted_text(found.sql))]) if found.changed else sql
        return replace(found, sql=text)

    def _query(self, request: _Request, cut: StatementText, statement: Statement) -> Rewritten:
        begin = time.perf_counter()
        sql, session = request.sql, request.session
        query = parse_query(cut, statement, request.parameters)
        references = references_of(query, sql, session)
        known = self._known(references)
        if not known:
            return Rewritten(sql, changed=False, reason=Reason.NO_TABLE)
        _check_reads_by_name({name.catalog for name in known}, session)
        filters = filters_of(query, session, {name: table.schema for name, table in known.items()})
        places = [
            self._planned(reference, known[reference.name], filters.get(id(reference.node)), begin)
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
            return Rewritten(sql, changed=False, reason=reason, detail=problem)
        return self._spliced(request, chosen)

    def _known(self, references: Sequence[Reference]) -> dict[FullName, _Known]:
        known: dict[FullName, _Known] = {}
        seen: dict[tuple[str, str], _Known | None] = {}
        for name in dict.fromkeys(reference.name for reference in references):
            if name.catalog not in self.options.catalogs:
                continue
            key = (name.schema, name.table)
            if key not in seen:
                synced = self.tables.find(*key)
                seen[key] = None if synced is None else _Known(synced, self.tables.newest(synced), name)
            found = seen[key]
            if found is not None:
                known[name] = found
        return known

    def _planned(self, reference: Reference, known: _Known, told: HudiExpression | None, begin: float) -> _Place:
        snapshot = known.snapshot
        wanted = Constant(value=True) if told is None else told
        expression = as_trino_filters(wanted, snapshot.schema)
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
        return _Place(reference, known, plan)

    def _chosen(self, places: Sequence[_Place]) -> list[_Place]:
        """The places of those tables of which some place is worth it, and every one can be replaced.

        All places of one table see one snapshot: all are replaced, or none.
        """
        fixed = {
            id(place.known.synced)
            for place in places
            if place.reference.problem or not self._has_rules_of_snapshots(place)
        }
        worth = {id(place.known.synced) for place in places if self._is_worth_it(place.plan)}
        return [place for place in places if id(place.known.synced) in worth - fixed]

    def _has_rules_of_snapshots(self, place: _Place) -> bool:
        """Whether Trino's rules for a table hold for its pinned snapshots too, as far as rules are known."""
        instant = place.known.snapshot.instant or ""
        return self._has_rules_of(place, *place.known.synced.pin_name(f"{instant}__{_SAMPLE}"))

    def _has_rules_of(self, place: _Place, schema: str, table: str) -> bool:
        rules, name = self.options.rules, place.reference.name
        return rules is None or rules.same(
            (name.catalog, name.schema, name.table), (name.catalog, schema.lower(), table.lower())
        )

    def _is_worth_it(self, plan: Plan) -> bool:
        if len(plan) == plan.files_total:
            return False
        return plan.bytes_kept <= self.options.kept_at_most * plan.bytes_total

    def _spliced(self, request: _Request, places: Sequence[_Place]) -> Rewritten:
        sql = request.sql
        texts = [self._text(place, self._paths(place, request.session)) for place in places]
        if len(sql) + sum(map(len, texts)) > request.limit:
            texts = [self._text(place, None) for place in places]
        spans = [(place.reference.start, place.reference.end) for place in places]
        text = spliced(sql, [(start, end, new) for (start, end), new in zip(spans, texts, strict=True)])
        if len(text) > request.limit:
            raise LeftAloneError(Reason.TOO_LONG, f"{len(text):,} characters")
        tables = tuple(place.rewritten for place in places)
        return Rewritten(text, changed=True, reason=Reason.REWRITTEN, tables=tables)

    def _paths(self, place: _Place, session: SessionNames) -> list[str] | None:
        """The paths to write into the query; None for all of the snapshot, or where they are too many."""
        plan = place.plan
        most = min(self.options.paths, _threshold(place.reference.name.catalog, session))
        if not self._is_worth_it(plan) or len(plan) > most:
            return None
        column: Any = self.tables.path_column(place.known.synced, place.known.snapshot, plan.rows)
        listed: list[str] = column.to_pylist()
        return listed if sum(map(len, listed)) <= self.options.paths_length else None

    def _text(self, place: _Place, paths: Sequence[str] | None) -> str:
        known, plan = place.known, place.plan
        rows = None if paths is not None or not self._is_worth_it(plan) else plan.rows
        schema, table = self.tables.pin(known.synced, known.snapshot, rows)
        if not self._has_rules_of(place, schema, table):
            raise LeftAloneError(Reason.ACCESS_RULES, f"{known.name.schema}.{known.name.table}")
        name = quoted_name(place.reference.name.catalog, schema, table)
        return table_of_files(name, paths, place.reference.own_name)

    def _bring_up_to_date(self, lexemes: Sequence[Lexeme], session: SessionNames) -> None:
        """Let the tables that a statement names show their newest snapshot, though it is not rewritten."""
        for name in likely_tables(lexemes, session)[:_MOST_NAMES]:
            if name.catalog not in self.options.catalogs:
                continue
            try:
                synced = self.tables.find(name.schema, name.table)
                if synced is not None:
                    self.tables.point_at(synced, self.tables.newest(synced))
            except HudiError as error:
                if self.log is not None:
                    self.log.event(
                        "gateway", "not brought up to date", table=f"{name.schema}.{name.table}", error=str(error)
                    )


def _threshold(catalog: str, session: SessionNames) -> float:
    """How many paths a session lets the connector prune by, where it says so itself."""
    text = session.properties.get(f"{catalog}.domain_compaction_threshold", "")
    return int(text) if text.isdecimal() else float("inf")


def _check_reads_by_name(catalogs: Iterable[str], session: SessionNames) -> None:
    for catalog in catalogs:
        if session.properties.get(f"{catalog}.parquet_use_column_names", "true").lower() != "true":
            raise LeftAloneError(Reason.NOT_ATTRIBUTED, "the session reads columns by their place, not by their name")
