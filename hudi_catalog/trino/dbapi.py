"""`hudi_catalog.trino.connect`: Trino's own Python client, with queries over Hudi tables rewritten first.

Everything but the text of queries is the client's: connections, cursors, transactions, parameters, errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trino.dbapi
from trino.exceptions import NotSupportedError

from hudi_catalog.gateway.options import REWRITE_KEYS, SCAN_KEYS, GatewayOptions
from hudi_catalog.gateway.rewrite import Rewriter, Rewritten
from hudi_catalog.gateway.statement import SessionNames
from hudi_catalog.metastore.metastore_options import parted
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_tables import TrinoTables
from hudi_catalog.server.query_log import QueryLog

# A statement with parameters may travel in a header.
_PREPARED_LENGTH = 20_000


def connect(
    *arguments: Any,
    metastore: str | TrinoTables,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    log: QueryLog | None = None,
    **named: Any,
) -> Connection:
    """Connect to Trino, in place of `trino.dbapi.connect`.

    A query over tables that `hudi-catalog sync --target trino` registered is sent with the files of their newest
    snapshots that it can need. What cannot be rewritten for sure is sent as it is.

    Args:
        arguments: those of `trino.dbapi.connect`.
        metastore: that Trino's Hive connector uses, such as `file:///data/metastore` or `thrift://host:9083`; or tables
            that other connections share.
        options: `hoodie.catalog.gateway.*`, `hoodie.catalog.sync.*` and `hoodie.catalog.metastore.*`, see
            `GatewayOptions`, `SyncOptions` and `MetastoreOptions`.
        storage_options: keyword arguments for the `pyarrow.fs` file systems of the tables.
        log: gets a line for each statement; None for none.
        named: those of `trino.dbapi.connect`.

    Raises:
        OptionError: an option is unknown, or its value does not fit it.
    """
    of_store, given = parted(options or {})
    of_gateway = {key: given.pop(key) for key in tuple(given) if key in {*REWRITE_KEYS, *SCAN_KEYS}}
    of_sync = SyncOptions.parse(given)
    if isinstance(metastore, str):
        metastore = TrinoTables(open_metastore(metastore, storage_options, of_store), of_sync, storage_options)
    return Connection(*arguments, rewriter=Rewriter(metastore, GatewayOptions.parse(of_gateway), log), **named)


class Connection(trino.dbapi.Connection):
    """A connection of Trino's client whose cursors rewrite.

    Args:
        arguments: those of `trino.dbapi.Connection`.
        rewriter: of the queries.
        named: those of `trino.dbapi.Connection`.
    """

    def __init__(self, *arguments: Any, rewriter: Rewriter, **named: Any) -> None:
        self.rewriter = rewriter
        super().__init__(*arguments, **named)

    def cursor(self, *arguments: Any, **named: Any) -> Any:
        """As `trino.dbapi.Connection.cursor`."""
        made = super().cursor(*arguments, **named)
        # The client's connection names the classes of its cursors itself.
        made.__class__ = SegmentCursor if isinstance(made, trino.dbapi.SegmentCursor) else Cursor
        return made

    def rewrite(self, operation: str, parameters: list[str] | None = None) -> Rewritten:
        """What is sent in place of a statement.

        Args:
            operation: the statement.
            parameters: SQL texts of its parameters' values.
        """
        session = self._client_session
        properties = {str(key).lower(): str(value) for key, value in (session.properties or {}).items()}
        names = SessionNames(session.catalog, session.schema, properties)
        limit = None if parameters is None else min(_PREPARED_LENGTH, self.rewriter.options.query_length)
        return self.rewriter.rewrite(operation, names, parameters=parameters, length_limit=limit)


class Cursor(trino.dbapi.Cursor):
    """A cursor of Trino's client that rewrites what it executes."""

    def execute(self, operation: str, params: Any = None) -> Any:
        """As `trino.dbapi.Cursor.execute`."""
        sql = _rewritten(self, operation, params)
        return super().execute(sql, params)  # type: ignore[no-untyped-call]


class SegmentCursor(trino.dbapi.SegmentCursor):
    """A cursor of spooled segments that rewrites what it executes."""

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
            return operation  # the client refuses them itself
    return str(cursor.connection.rewrite(operation, parameters).sql)
