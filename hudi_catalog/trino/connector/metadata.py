"""What Trino's connector learns of tables: names, columns, the snapshot that a query reads, statistics, histories."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from catalog.concurrency.workers import each
from catalog.metadata_tables import files_table, history_table, partitions_table
from catalog.planner import Plan
from catalog.row_summary import summarize
from catalog.snapshots.snapshot import Snapshot
from catalog.table import Table
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.base.names import NamedTable, TableName, TableNames
from hudi_catalog.trino.base.scans import newest_schema, table_comment
from hudi_catalog.trino.connector.domains import connector_filter
from hudi_catalog.trino.connector.exact import answers
from hudi_catalog.trino.connector.requests import Body
from hudi_catalog.trino.connector.scans import ConnectorScans
from hudi_catalog.trino.connector.types import ConnectorColumn, connector_columns, plain_type, trino_type
from table_format.config.table_config import PROPERTIES_PATH
from table_format.errors import HudiError, LateTableError, ServiceError
from table_format.instant import WRITE_ACTIONS

types = pa.types
_LISTING_THREADS = 8
_MOST_COLUMNS = 200  # with statistics
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class ConnectorMetadata:
    """Answers questions about tables. Thread-safe.

    Args:
        tables: of the warehouse.
        names: finds tables by their names in Trino.
        scans: plans scans.
    """

    def __init__(self, tables: WarehouseTables, names: TableNames, scans: ConnectorScans) -> None:
        self._tables = tables
        self._names = names
        self._scans = scans

    def tables(self, body: Body) -> dict[str, Any]:
        """The readable tables of the schema that the request names, or of all: `tables`, each `[schema, table]`."""
        schema = body.text_or_none("schema")
        return {"tables": [list(name) for name in self._names.readable(None if schema is None else schema.lower())]}

    def columns(self, body: Body) -> dict[str, Any]:
        """Columns of many tables: `tables`, each with `schema`, `table`, `columns` and `comment`.

        Members of the request: `schema`; `names`, each `[schema, table]`. Tables that cannot be read are left out, as
        from a listing.
        """
        schema = body.text_or_none("schema")
        if body.items("names"):
            names = [TableName(str(one[0]), str(one[1])) for one in body.items("names")]
        else:
            names = self._names.readable(None if schema is None else schema.lower())
        described = list(each(names, self._described_now, _LISTING_THREADS, "hudi-columns"))
        unexpected = [one for one in described if isinstance(one, Exception) and not isinstance(one, LateTableError)]
        if unexpected:
            raise unexpected[0]
        return {"tables": [one for one in described if isinstance(one, dict)]}

    def _described_now(self, name: TableName) -> dict[str, Any] | None:
        try:
            named = self._names.find(name)
            if named is None:
                return None
            with self._tables.watched(named.name):
                table = self._tables.table(named.name)
                return _description(name, newest_schema(table), table_comment(table, None))
        except LateTableError:
            raise
        except HudiError:
            return None

    def table(self, body: Body) -> dict[str, Any] | None:
        """A table at the snapshot that a query reads from now on; None when there is no such table.

        Members of the request besides the table's: `version`, an instant or a time as text; or `micros`, a time in
        microseconds since 1970 UTC.

        Returns:
            `schema`, `table`, `columns`, `comment`; `pin` of the snapshot, its `instant`; `partitioned_by`, columns by
            their names in Trino.

        Raises:
            SplitError: the table has no such state any more.
            HudiError: the table cannot be read.
        """
        named = self._names.find(body.table)
        if named is None:
            return None
        table = self._tables.table(named.name)
        if not table.client.storage.exists(PROPERTIES_PATH):  # dropped, but still open here
            return None
        when = _when(body, table) or named.when
        if when is None:
            table, snapshot = self._tables.newest(named.name, body.query_type)
        else:
            snapshot = self._tables.at(named.name, when, body.query_type)
        return _description(body.table, snapshot.schema, table_comment(table, when)) | {
            "pin": WarehouseTables.pin(snapshot),
            "instant": snapshot.instant,
            "partitioned_by": [name.lower() for name in snapshot.config.partition_fields],
        }

    def enforced(self, body: Body) -> dict[str, Any]:
        """Partition columns whose part of the filter needs no second look: it is true for every row of the kept files.

        Members of the request besides those of a table: `domains`, one at most.

        Returns:
            `columns`: their names in Trino.

        Raises:
            HudiError: the table cannot be read, or the filter is malformed.
        """
        snapshot = self._scans.snapshot(body)
        columns = connector_columns(snapshot.schema, str(body.table))
        partitioned = {name.lower() for name in snapshot.config.partition_fields}
        named = [
            name
            for domain in body.items("domains")
            if isinstance(domain, dict) and isinstance(domain.get("columns"), dict)
            for name in domain["columns"]
            if name in partitioned
        ]
        enforced = []
        for name in named:
            alone = [{"columns": {name: domain["columns"][name]}} for domain in body.items("domains")]
            expression = connector_filter(snapshot, columns, alone)
            plan = self._scans.planned(snapshot, expression)
            if bool(plan.fully_matching.all()):
                enforced.append(name)
        return {"columns": enforced}

    def aggregates(self, body: Body) -> dict[str, Any]:
        """Aggregates over all rows that the filter lets pass, from statistics alone.

        Members of the request besides those of a table: `domains`, `conditions`, `aggregates`; see `exact.answers`.

        Returns:
            `values`; null if statistics do not give all of them for certain.

        Raises:
            HudiError: the table cannot be read, or the request is malformed.
        """
        snapshot, plan = self._scans.plan(body)
        columns = connector_columns(snapshot.schema, str(body.table))
        return {"values": answers(snapshot, plan, columns, body.items("aggregates"))}

    def statistics(self, body: Body) -> dict[str, Any]:
        """Statistics of the files that the filter keeps, see `scan_statistics`.

        Raises:
            HudiError: the table cannot be read, or the filter is malformed.
        """
        snapshot, plan = self._scans.plan(body)
        return scan_statistics(snapshot, plan, connector_columns(snapshot.schema, str(body.table)))

    def system_table(self, body: Body) -> pa.Table | None:
        """A table about a table; None when there is no such table.

        Members of the request besides the table's: `kind`, one of those in `SYSTEM_TABLES`.

        Raises:
            HudiError: the table cannot be read.
        """
        named = self._names.find(body.table)
        build = SYSTEM_TABLES.get(body.text("kind"))
        if named is None or build is None:
            return None
        return build(*self._newest(named))

    def _newest(self, named: NamedTable) -> tuple[Table, Snapshot]:
        table, snapshot = self._tables.newest(named.name)
        return table, snapshot if named.when is None else self._names.snapshot(named)


def scan_statistics(snapshot: Snapshot, plan: Plan, columns: Sequence[ConnectorColumn]) -> dict[str, Any]:
    """Statistics of the files of a plan, see `summarize`.

    Args:
        snapshot: of the table.
        plan: of the scan.
        columns: of the table in Trino.

    Returns:
        `rows`, exact, null where not known; `estimated_rows`, null only where no file could be opened; `columns` by
        name in Trino, with `nulls` (a fraction), `low` and `high` (numbers as Trino's statistics have them), `distinct`
        and `bytes` (of texts), each where known.
    """
    shown = [column for column in columns[:_MOST_COLUMNS] if not column.hidden]
    wanted = {column.name: (column.source, column.kind, plain_type(column.kind)) for column in shown}
    summary = summarize(snapshot, plan.rows, wanted)
    instants = {column.name for column in shown if types.is_timestamp(column.kind) and column.kind.tz is not None}
    columns_known = {
        name: {key: value for key, value in known.items() if key != "spread"} for name, known in summary.columns.items()
    }
    for name in instants & columns_known.keys():
        known = columns_known[name]
        # Trino's statistics have times with a zone in milliseconds, those without in microseconds
        if "low" in known:
            known.update({"low": float(known["low"] // 1000), "high": -float(-known["high"] // 1000)})
    return {"rows": summary.rows, "estimated_rows": summary.estimated_rows, "columns": columns_known}


def _description(name: TableName, schema: pa.Schema, comment: str) -> dict[str, Any]:
    columns = [
        {"name": one.name, "type": one.trino_type, "comment": one.comment, "hidden": one.hidden}
        for one in connector_columns(schema, str(name))
    ]
    return {"schema": name.schema, "table": name.table, "columns": columns, "comment": comment}


def _when(body: Body, table: Table) -> str | None:
    version = body.text_or_none("version")
    if version is not None:
        return version
    micros = body.text_or_none("micros")
    if micros is None:
        return None
    try:
        moment = _EPOCH + dt.timedelta(microseconds=int(micros))
    except (ValueError, OverflowError) as error:
        raise ServiceError(f"{table.name}: a time that Python does not have: {micros}") from error
    # to the millisecond, as instants are: what was committed later in it has begun by then
    return moment.isoformat(timespec="milliseconds")


def _properties(table: Table, snapshot: Snapshot) -> pa.Table:  # noqa: ARG001
    raw = sorted(table.config.raw.items())
    return pa.table(
        {
            "key": pa.array([key for key, _ in raw], pa.string()),
            "value": pa.array([text for _, text in raw], pa.string()),
        }
    )


def _timeline(table: Table, snapshot: Snapshot) -> pa.Table:  # noqa: ARG001
    return history_table(table.history(), table.config.timeline_timezone)


def _snapshots(table: Table, snapshot: Snapshot) -> pa.Table:  # noqa: ARG001
    """The completed writes: each is a state that ``FOR VERSION AS OF`` takes, as long as its files are not cleaned."""
    writes = [entry for entry in table.history() if entry.action in _WRITES and entry.state.upper() == "COMPLETED"]
    return history_table(writes, table.config.timeline_timezone)


_WRITES = frozenset(str(getattr(action, "value", action)) for action in WRITE_ACTIONS)

SYSTEM_TABLES: Mapping[str, Callable[[Table, Snapshot], pa.Table]] = {
    "files": lambda _, snapshot: files_table(snapshot),
    "partitions": lambda _, snapshot: partitions_table(snapshot),
    "properties": _properties,
    "snapshots": _snapshots,
    "timeline": _timeline,
}


def system_columns(table: pa.Table) -> list[dict[str, Any]]:
    """The columns of a table about a table, as those of others are described."""
    return [
        {"name": field.name, "type": trino_type(field.type), "comment": None, "hidden": False} for field in table.schema
    ]
