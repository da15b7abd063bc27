"""Scans for Trino's connector: the splits of a plan, and the rows of those that Trino cannot read itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog.planner import Plan, make_plan
from catalog.rows.slice_rows import needed_columns, slice_batches
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.splits.splitter import SplitRules, Splitter
from hudi_catalog.metastore.stored_columns import differing_names
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.tables import WarehouseTables, check_base_files
from hudi_catalog.trino.base.cursors import Cursors
from hudi_catalog.trino.base.names import TableNames
from hudi_catalog.trino.base.scans import row_condition
from hudi_catalog.trino.connector.buckets import announced_buckets
from hudi_catalog.trino.connector.conditions import conditions_filter
from hudi_catalog.trino.connector.domains import connector_filter
from hudi_catalog.trino.connector.exact import left_out
from hudi_catalog.trino.connector.pages import encoded_page, parts_within, row_filtered
from hudi_catalog.trino.connector.requests import Body, slice_of, split_members
from hudi_catalog.trino.connector.types import ConnectorColumn, connector_columns
from pushdown.evaluation.rows import matches
from pushdown.expression import HudiExpression, Op, Predicate, Unknown, all_of
from pushdown.kinds import Kind, kind_of
from pushdown.walk import fold, rebuilt
from table_format.errors import MissingFileError, ServiceError, SplitError, UnsupportedTableError

_FILE = "file://"
_UNREADABLE = frozenset("?#\\")
"""Characters of paths that Trino's locations do not take as they are."""


def table_root(snapshot: Snapshot, stores: Sequence[Any]) -> tuple[str, bool]:
    """The table's folder as Trino's file systems spell it, and whether Trino can open files there itself.

    Args:
        snapshot: of the table.
        stores: schemes of the object stores that the connector reads.
    """
    uri = snapshot.client.storage.full_uri("").rstrip("/")
    scheme, _, place = uri.partition("://")
    if scheme in stores:
        return uri, not _UNREADABLE & set(place)
    path = uri.removeprefix("file://").removeprefix("file:")
    if "://" in path or not path.startswith("/"):
        return uri, False
    return _FILE + path, not _UNREADABLE & set(path)


@dataclass(frozen=True, kw_only=True)
class ConnectorOptions:
    """Options of scans; `hudi_catalog.trino.options.TrinoOptions` has them for both kinds of connectors.

    Attributes:
        split_size: bytes beyond which a base file is split by row groups.
        page_size: bytes of a page of rows.
        batch_rows: rows decoded at a time.
        cursor_memory: bytes that partly read slices may hold between pages.
        cursor_idle: seconds after which an unused one is closed.
        plain_keys: text keys hold neither commas nor colons.
        scan: options of scan planning.
    """

    split_size: int
    page_size: int
    batch_rows: int
    cursor_memory: int
    cursor_idle: float
    plain_keys: bool
    scan: ScanOptions


class ConnectorScans:
    """Plans scans. Thread-safe.

    Args:
        tables: of the warehouse.
        names: finds tables by their names in Trino.
        options: of the service.
        log: of planned scans.
    """

    def __init__(self, tables: WarehouseTables, names: TableNames, options: ConnectorOptions, log: QueryLog) -> None:
        self._tables = tables
        self._names = names
        self._options = options
        self._log = log
        self._splitter = Splitter(SplitRules.of_server(options.scan.footer_limit))

    def snapshot(self, body: Body) -> Snapshot:
        """The pinned snapshot that a request names.

        Raises:
            SplitError: it no longer exists.
            HudiError: the table cannot be read.
        """
        return self._tables.at(self._names.require(body.table).name, body.text("pin"), body.query_type)

    def buckets(self, body: Body) -> dict[str, Any]:
        """The buckets that Trino may join and group by: `count` and `columns`, or the `reason` why there are none.

        Raises:
            HudiError: as for `snapshot`.
        """
        snapshot, options = self.snapshot(body), self._options
        columns = connector_columns(snapshot.schema, str(body.table))
        return announced_buckets(snapshot, columns, options.scan, plain_texts=options.plain_keys)

    def plan(self, body: Body) -> tuple[Snapshot, Plan]:
        """The plan of a request's filter; not logged.

        Raises:
            HudiError: as for `snapshot`; or the filter is malformed.
        """
        snapshot = self.snapshot(body)
        return snapshot, self.planned(snapshot, body_filter(snapshot, body))

    def planned(self, snapshot: Snapshot, expression: HudiExpression | None) -> Plan:
        """The plan of a bound filter, None for all rows; not logged."""
        return make_plan(snapshot, expression, self._options.scan)

    def splits(self, body: Body) -> dict[str, Any]:
        """The splits of a scan.

        Members of the request besides those of a table: `domains` and `conditions`, whose conjunction is the filter;
        `query`, Trino's id of it; `limit` and `order`, see `exact.left_out`; `stores`, schemes of the object stores
        whose files the connector opens itself.

        Returns:
            `root` (URI of the table's folder); `splits` as `split_members` gives them; `renamed`: by instant, columns
            that are others under their names in the files of this instant; `files_total`, `files_kept`; and `stages`:
            by name the files that a stage left out, and why; `unknown`: what of the filter was not understood.

        Raises:
            HudiError: as for `plan`; or a file lies outside the warehouse.
        """
        begin = time.perf_counter()
        snapshot, plan = self.plan(body)
        columns = connector_columns(snapshot.schema, str(body.table))
        needless = left_out(snapshot, plan, columns, body)
        rows = plan.rows if needless is None else plan.rows[~needless[1]]
        check_base_files(snapshot, rows)
        slices = snapshot.file_slices(rows)
        expression = plan.expression if snapshot.footers_apply else None
        divided = self._splitter.divide(
            snapshot.client.storage, slices, [expression] * len(slices), self._options.split_size
        )
        parts = [part for of_slice in divided for part in of_slice]
        root, readable = table_root(snapshot, body.items("stores"))
        renamed = _renamed(snapshot, parts)
        readable = readable and not snapshot.config.drop_partition_columns
        splits = [split_members(part, served=not readable or _is_served(part, renamed)) for part in parts]
        self._log.planned(
            "trino",
            str(body.table),
            plan,
            received=[*body.items("domains"), *body.items("conditions")],
            seconds=time.perf_counter() - begin,
            query=body.text_or_none("query"),
            query_type=body.query_type,
            splits=len(splits),
            served=sum(1 for split in splits if split[5]),
            taken=len(rows),
        )
        stages = {
            stage.name: [stage.files_in - stage.files_out, stage.reason]
            for stage in plan.stages
            if stage.files_in != stage.files_out
        }
        if needless is not None and len(rows) < len(plan.rows):
            stages[needless[0]] = [len(plan.rows) - len(rows), "other files have as many rows as the query takes"]
        return {
            "root": root,
            "splits": splits,
            "renamed": {instant: names for instant, names in renamed.items() if names},
            "files_total": plan.files_total,
            "files_kept": len({(part.partition, part.file_id) for part in parts}),
            "stages": stages,
            "unknown": list(plan.unknowns),
        }


def body_filter(snapshot: Snapshot, body: Body) -> HudiExpression | None:
    """The filter of a request, bound: its members `domains` and `conditions`; None when all rows pass.

    Raises:
        ServiceError: a domain is malformed.
        SchemaError: the table has a column that Trino has no type for.
    """
    columns = connector_columns(snapshot.schema, str(body.table))
    conditions = conditions_filter(columns, body.items("conditions"))
    return connector_filter(snapshot, columns, body.items("domains"), conditions)


def _renamed(snapshot: Snapshot, parts: Sequence[FileSlice]) -> dict[str, list[str] | None]:
    """By instant the columns that its files have otherwise under their names; None where that is not known."""
    renamed: dict[str, list[str] | None] = {}
    if snapshot.schema_history is not None:
        for instant in {part.instant for part in parts}:
            try:
                renamed[instant] = [name.lower() for name in differing_names(snapshot, instant)]
            except UnsupportedTableError:
                renamed[instant] = None  # reading reports it
    return renamed


def _is_served(one: FileSlice, renamed: Mapping[str, list[str] | None]) -> bool:
    """Whether Trino cannot read a slice itself, as far as the table's metadata shows; types it looks at itself."""
    if one.logs or one.base is None or _UNREADABLE & set(one.base):
        return True
    return one.instant in renamed and renamed[one.instant] is None


class _Cursor:
    """A partly read slice."""

    def __init__(self, tables: Generator[pa.Table]) -> None:
        self._tables = tables
        self.next: pa.Table | None = next(tables, None)

    def take(self) -> pa.Table | None:
        """The rows of the next page; None after the last one."""
        taken = self.next
        self.next = next(self._tables, None)
        return taken

    @property
    def memory(self) -> int:
        """Bytes in memory, about."""
        return (4 << 20) + (0 if self.next is None else int(self.next.get_total_buffer_size()))

    def close(self) -> None:
        """Close the file."""
        self._tables.close()


class ConnectorRows:
    """Serves rows of slices that Trino does not read itself: with log files, or of other types. Thread-safe.

    A page can be computed from its number alone; a cached cursor saves reading the rows before it.

    Args:
        scans: finds snapshots.
        options: of the service.
    """

    def __init__(self, scans: ConnectorScans, options: ConnectorOptions) -> None:
        self._scans = scans
        self._options = options
        self._cursors: Cursors[_Cursor] = Cursors(options.cursor_memory, options.cursor_idle)

    def page(self, body: Body) -> tuple[bytes, int]:
        """A page of the rows of a split that may meet the filter.

        Members of the request besides those of a table: `split`, as the service gave it; `row_groups`, ordinals that
        are read, all if null; `columns` in the order of the page; `domains`; `page`, its number from 0 on.

        Returns:
            A flag (u8) that is 1 for the last page, and the page, see `pages`; and its rows.

        Raises:
            SplitError: a file no longer exists.
            ServiceError: there is no such column, or the request is malformed.
            HudiError: the table or a file cannot be read.
        """
        number = body.number("page")
        key = body.key("page", "query")
        with contextlib.ExitStack() as unless_kept:
            kept = self._cursors.take((key, number))
            try:
                cursor = kept or _Cursor(self._tables_of(body))
                unless_kept.callback(cursor.close)
                for _ in range(0 if kept else number):
                    cursor.take()
                table = cursor.take()
            except MissingFileError as error:
                reason = "it was cleaned away while the query ran; run it again"
                raise SplitError(f"{body.table}: {error}: {reason}") from error
            if table is None:
                return b"\1" + encoded_page(pa.table({})), 0
            is_last = cursor.next is None
            page = encoded_page(table)
            if not is_last:
                unless_kept.pop_all()
                self._cursors.keep((key, number + 1), cursor)
        return (b"\1" if is_last else b"\0") + page, table.num_rows

    def close(self) -> None:
        """Close all cursors."""
        self._cursors.clear()

    def _tables_of(self, body: Body) -> Generator[pa.Table]:
        snapshot = self._scans.snapshot(body)
        columns = connector_columns(snapshot.schema, str(body.table))
        wanted = _chosen(columns, body.texts("columns"), str(body.table))
        piece = slice_of(body.items("split"), body.items("row_groups") or None)
        of_domains = connector_filter(snapshot, columns, body.items("domains"))
        of_conditions = connector_filter(snapshot, columns, (), conditions_filter(columns, body.items("conditions")))
        condition = row_condition(_all([of_domains, _without_floats(of_conditions)]))
        return self._read(snapshot, piece, wanted, _all([of_domains, of_conditions]), condition)

    def _read(
        self,
        snapshot: Snapshot,
        piece: FileSlice,
        wanted: Sequence[str],
        expression: HudiExpression | None,
        condition: HudiExpression | None,
    ) -> Generator[pa.Table]:
        names = needed_columns(snapshot.schema, wanted, condition)
        for table in self._batches(snapshot, piece, names, expression):
            passing = (
                table if condition is None else row_filtered(table, matches(condition, table, case_sensitive=True))
            )
            chosen = passing.select(list(wanted))
            if not wanted:  # rows are only counted
                chosen = passing.select([])
                yield chosen
            elif chosen.num_rows:
                yield from parts_within(chosen, self._options.page_size)

    def _batches(
        self, snapshot: Snapshot, piece: FileSlice, names: Sequence[str], expression: HudiExpression | None
    ) -> Iterator[pa.Table]:
        batches = slice_batches(
            snapshot,
            piece,
            names,
            expression=expression,
            batch_rows=self._options.batch_rows,
        )
        return (table for _, table in batches)


def _all(filters: Sequence[HudiExpression | None]) -> HudiExpression | None:
    parts = [one for one in filters if one is not None]
    return all_of(*parts) if parts else None


def _without_floats(expression: HudiExpression | None) -> HudiExpression | None:
    """A filter without comparisons of floats: rows are selected as Spark does, for which NaN is the greatest number."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, Predicate) and node.op not in {Op.IS_NULL, Op.NOT_NULL}:
            kind = node.column_type
            return node if kind is None or kind_of(kind) is not Kind.FLOAT else Unknown(f"{node.column} may be NaN")
        return rebuilt(node, children) if children else node

    return None if expression is None else fold(expression, visit)


def _chosen(columns: Sequence[ConnectorColumn], names: Sequence[str], table: str) -> list[str]:
    sources = {column.name: column.source for column in columns}
    unknown = [name for name in names if name not in sources]
    if unknown:
        raise ServiceError(f"{table}: there is no column {unknown[0]} in the table as the query sees it")
    return [sources[name] for name in names]
