"""`hudi_catalog.trino.connect`: Trino's Python client, with queries over Hudi tables rewritten before they are sent.

Only the SQL text changes; connections, cursors, transactions, parameters and errors are the client's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trino.dbapi
from trino.exceptions import NotSupportedError, ProgrammingError

from hudi_catalog.gateway.options import REWRITE_KEYS, SCAN_KEYS, GatewayOptions
from hudi_catalog.gateway.rewrite import Rewriter, Rewritten
from hudi_catalog.gateway.statement import SessionNames
from hudi_catalog.metastore.metastore_options import split_options
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_tables import TrinoTables
from hudi_catalog.server.query_log import QueryLog

# A statement with parameters may be sent in an HTTP header.
_PREPARED_LENGTH = 20_000


def connect(
    *arguments: Any,
    metastore: str | TrinoTables,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    log: QueryLog | None = None,
    **named: Any,
) -> Connection:
    """Connect to Trino in place of `trino.dbapi.connect`.

    A query over tables registered by `hudi-catalog sync --target trino` is restricted to the files of their newest
    snapshots that it may need. A query that cannot be rewritten safely is sent unchanged.

    Args:
        arguments: positional arguments of `trino.dbapi.connect`.
        metastore: the metastore of Trino's Hive connector, such as `file:///data/metastore` or `thrift://host:9083`;
            or a `TrinoTables` shared with other connections.
        options: `hoodie.catalog.gateway.*`, `hoodie.catalog.sync.*` and `hoodie.catalog.metastore.*`, see
            `GatewayOptions`, `SyncOptions` and `MetastoreOptions`.
        storage_options: keyword arguments for the `pyarrow.fs` file systems of the tables.
        log: receives a line for each statement; may be None.
        named: keyword arguments of `trino.dbapi.connect`.

    Raises:
        OptionError: an option is unknown or its value is invalid.
    """
    metastore_options, others = split_options(options or {})
    gateway_options = {key: others.pop(key) for key in tuple(others) if key in {*REWRITE_KEYS, *SCAN_KEYS}}
    sync_options = SyncOptions.parse(others)
    parsed = GatewayOptions.parse(gateway_options)
    if not isinstance(metastore, str):
        return Connection(*arguments, rewriter=Rewriter(metastore, parsed, log), **named)
    store = open_metastore(metastore, storage_options, metastore_options)
    tables = TrinoTables(store, sync_options, storage_options)
    return Connection(*arguments, rewriter=Rewriter(tables, parsed, log), owns_tables=True, **named)


class Connection(trino.dbapi.Connection):
    """A connection of Trino's client whose cursors rewrite queries.

    Args:
        arguments: positional arguments of `trino.dbapi.Connection`.
        rewriter: rewrites the queries.
        owns_tables: whether the rewriter's tables are closed with the connection.
        named: keyword arguments of `trino.dbapi.Connection`.
    """

    def __init__(self, *arguments: Any, rewriter: Rewriter, owns_tables: bool = False, **named: Any) -> None:
        self.rewriter = rewriter
        self._owns_tables = owns_tables
        super().__init__(*arguments, **named)

    def close(self) -> None:
        """As `trino.dbapi.Connection.close`; closes the connections to the metastore, too."""
        try:
            super().close()  # type: ignore[no-untyped-call]
        finally:
            if self._owns_tables:
                self.rewriter.tables.close()

    def cursor(self, *arguments: Any, **named: Any) -> Any:
        """As `trino.dbapi.Connection.cursor`."""
        cursor = super().cursor(*arguments, **named)
        # The client's connection hard-codes its cursor classes.
        cursor.__class__ = SegmentCursor if isinstance(cursor, trino.dbapi.SegmentCursor) else Cursor
        return cursor

    def rewrite(self, operation: str, parameters: list[str] | None = None) -> Rewritten:
        """The statement to send in place of another.

        Args:
            operation: the statement.
            parameters: its parameters' values as SQL literals.
        """
        session = self._client_session
        properties = {str(key).lower(): str(value) for key, value in (session.properties or {}).items()}
        names = SessionNames(session.catalog, session.schema, properties)
        limit = None if parameters is None else min(_PREPARED_LENGTH, self.rewriter.options.query_length)
        return self.rewriter.rewrite(operation, names, parameters=parameters, length_limit=limit)


class Cursor(trino.dbapi.Cursor):
    """A cursor of Trino's client that rewrites statements."""

    def execute(self, operation: str, params: Any = None) -> Any:
        """As `trino.dbapi.Cursor.execute`."""
        sql = _rewritten(self, operation, params)
        return super().execute(sql, params)  # type: ignore[no-untyped-call]


class SegmentCursor(trino.dbapi.SegmentCursor):
    """A cursor of spooled segments that rewrites statements."""

    def execute(self, operation: str, params: Any = None) -> Any:
        """As `trino.dbapi.SegmentCursor.execute`."""
        sql = _rewritten(self, operation, params)
        return super().execute(sql, params)  # type: ignore[no-untyped-call]


def _rewritten(cursor: Any, operation: str, params: Any) -> str:
    parameters = None
    if params:
        try:
            parameters = [str(cursor._format_prepared_param(value)) for value in params]  # noqa: SLF001
        except NotSupportedError:
            return operation  # the client raises this error itself
    rewritten: Rewritten = cursor.connection.rewrite(operation, parameters)
    if rewritten.refusal:
        raise ProgrammingError(rewritten.refusal)
    return rewritten.sql
