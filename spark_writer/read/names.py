"""Tables by name in a session's SQL, each query of the newest state.

Spark calls a table function while it analyses a query, and a function may be any `scala.Function1`, which py4j's
callback server can serve. So a view, or the session's cache of resolved tables, holds a call of ours in place of a
DataFrame, and each query gets the state that is the newest when it is analysed. A DataFrame stays at one state.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from catalog.snapshots.snapshot import Snapshot
from catalog.table import READ_OPTIMIZED, SNAPSHOT, Table, TableOptions
from spark_writer.read.dataframe import scan_frame
from spark_writer.read.jvm import Jvm, elements
from spark_writer.read.refused_changes import refuse_changes
from spark_writer.session import SPARK_CATALOG, entry_place, is_hudi_entry, table_entry
from table_format.errors import ArgumentError, HudiError, OptionWarning, TableNotFoundError

_LOG: Final = logging.getLogger(__name__)
_FUNCTION: Final = "hudi_catalog_table"
_DATABASE: Final = "default"
_CALL: Final = re.compile(rf"SELECT \* FROM (?:\w+\.)*{_FUNCTION}\('(\w+)'\)", re.ASCII)  # noqa: S608
_CATALYST: Final = "org.apache.spark.sql.catalyst"


@dataclass(frozen=True)
class _State:
    """A plan of a table's rows, and what it was made of."""

    snapshot: Snapshot
    time_zone: str | None
    plan: Any


class _NamedTable:
    """A table that queries name, and its plans.

    Args:
        jvm: the session's.
        table: refreshed for each query.
        query_type: `snapshot` or `read_optimized`.
    """

    def __init__(self, jvm: Jvm, table: Table, query_type: str) -> None:
        self._jvm = jvm
        self.table = table
        self.query_type = query_type
        self._state: _State | None = None
        self._queries = threading.local()

    def plan(self, query: tuple[int, Any]) -> Any:
        """The analysed plan of all rows; the same for every mention in a query.

        Args:
            query: identity of the query that is analysed in this thread, and the object that has it, which must live
                as long as it is compared.
        """
        held: tuple[tuple[int, Any], Any] | None = getattr(self._queries, "last", None)
        if held is not None and held[0][0] == query[0]:
            return held[1]
        plan = self._newest()
        self._queries.last = (query, plan)
        return plan

    def _newest(self) -> Any:
        snapshot = self.table.refresh().snapshot()
        zone = self._jvm.session.conf.get("spark.sql.session.timeZone")
        state = self._state
        if state is None or state.snapshot is not snapshot or state.time_zone != zone:
            state = self._state = _State(snapshot, zone, self._made())
        return state.plan

    def _made(self) -> Any:
        """The plan by the session's own settings; this thread may have those of a view that is analysed.

        It is made in this thread all the same: Spark's session catalog is locked while it calls a function.
        """

        def make() -> Any:
            frame: Any = scan_frame(self._jvm.session, self.table.scan(query_type=self.query_type))
            return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way

        return self._jvm.with_settings(make)


class SessionNames:
    """The names of one session; served to Spark as the table function that they all call.

    Args:
        session: a classic one with pinned threads.

    Raises:
        UnsupportedTableError: the session is not such a one.
    """

    class Java:
        """Tells py4j what to serve."""

        implements = ("scala.Function1",)

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._jvm = Jvm(session)
        self._tables: dict[str, _NamedTable] = {}
        self._state: Any = self._jvm.java_session.sessionState()
        self._catalyst: Any = self._jvm.root.org.apache.spark.sql.catalyst
        refuse_changes(self._jvm)
        function = self._jvm.raising(self)
        information = self._catalyst.expressions.ExpressionInfo("hudi_catalog", _FUNCTION)
        # with a database it counts as persistent, so that persistent views may be over the names
        qualified = self._catalyst.FunctionIdentifier(_FUNCTION, self._jvm.root.scala.Some(_DATABASE))
        registry = self._state.tableFunctionRegistry()
        registry.registerFunction(self._state.catalog().qualifyIdentifier(qualified), information, function)
        self._called = f"{SPARK_CATALOG}.{_DATABASE}.{_FUNCTION}"
        if self._parsed(self._called, "") is None:  # Spark 3.5 and 4.0 parse no database before a table function
            self._called = _FUNCTION
            registry.registerFunction(self._catalyst.FunctionIdentifier(_FUNCTION), information, function)

    def call(self, table: Table) -> str:
        """A call in SQL that gives the newest rows of a table."""
        return f"{self._called}('{self._add(table, SNAPSHOT, 'call')}')"

    def add_view(self, name: str, table: Table, query_type: str = SNAPSHOT) -> None:
        """Create or replace a temporary view of a table.

        Its columns are those that the table has now; its rows are the newest at each query.

        Args:
            name: of the view.
            table: kept, and refreshed for each query.
            query_type: `snapshot` or `read_optimized`.
        """
        key = self._add(table, query_type, f"view {name}")
        self._session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {quoted_name(name)} AS {_query(self._called, key)}")

    def add_entry(self, entry: Any, table: Table, query_type: str = SNAPSHOT) -> None:
        """Let an entry of the session's catalog answer for a table, until the session forgets it (REFRESH TABLE).

        Args:
            entry: Spark's CatalogTable.
            table: kept, and refreshed for each query.
            query_type: `snapshot` or `read_optimized`.
        """
        key = self._add(table, query_type, f"entry {entry.identifier().unquotedString()}")
        call = self._parsed(self._called, key)
        if call is None or self._called == _FUNCTION:
            parts = self._jvm.seq([SPARK_CATALOG, _DATABASE, _FUNCTION])
            argument = self._state.sqlParser().parseExpression(f"'{key}'")
            arguments = [parts, self._jvm.seq([argument])]
            call = self._jvm.construct(f"{_CATALYST}.analysis.UnresolvedTableValuedFunction", arguments, further=False)
        # As a view INSERT is refused by name; Spark writes files past Hudi into other relations.
        view = self._jvm.construct(f"{_CATALYST}.plans.logical.View", [entry, False, call])
        self._state.catalog().cacheTable(self._cached_name(entry), view)

    def _cached_name(self, entry: Any) -> Any:
        """The name by which Spark's cache of resolved tables knows an entry."""
        catalog = self._state.catalog()
        names = [SPARK_CATALOG, entry.identifier().database().get(), entry.identifier().table()]
        method = next(one for one in catalog.getClass().getMethods() if one.getName() == "cacheTable")
        return self._jvm.construct(method.getParameterTypes()[0].getName(), names)

    def table_of_view(self, name: str) -> Table | None:
        """The table that a temporary view shows, of those that `add_view` made.

        Raises:
            TableNotFoundError: it is another temporary view.
        """
        view = self._state.catalog().getTempView(name)
        if not view.isDefined():
            return None
        text = view.get().desc().viewText()
        call = _CALL.fullmatch(str(text.get())) if text.isDefined() else None
        table = self._tables.get(call.group(1)) if call is not None else None
        if table is None or table.query_type != SNAPSHOT:
            raise TableNotFoundError(
                f"{name} is a temporary view of a query, and not of a Hudi table by Catalog.register"
            )
        return table.table

    def is_view(self, name: str) -> bool:
        """Whether a temporary view has the name."""
        return bool(self._state.catalog().getTempView(name).isDefined())

    def answers(self, entry: Any) -> bool:
        """Whether an entry of the session's catalog answers; none does after REFRESH TABLE."""
        return self._state.catalog().getCachedTable(self._cached_name(entry)) is not None

    def apply(self, arguments: Any) -> Any:
        """The plan of the table that the function's argument names; an exception of the JVM to be thrown if none."""
        try:
            key = str(arguments.apply(0).value().toString())
            # All mentions in a query, those in its views included, share this map.
            query = self._catalyst.analysis.AnalysisContext.get().relationCache()
            return self._tables[key].plan((self._jvm.root.java.lang.System.identityHashCode(query), query))
        except Exception as error:  # noqa: BLE001 - py4j would show two stacks
            first = next(iter(str(error).splitlines()), "")
            _LOG.debug("a name cannot be answered", exc_info=True)
            message = f"hudi-catalog cannot answer for this name: {type(error).__name__}: {first}"
            return self._jvm.root.java.lang.IllegalArgumentException(message)

    def toString(self) -> str:  # noqa: N802
        """Names the function."""
        return _FUNCTION

    def hashCode(self) -> int:  # noqa: N802
        """Fits an int."""
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether it is this object."""
        return other is not None and other.hashCode() == self.hashCode()

    def _add(self, table: Table, query_type: str, user: str) -> str:
        """The key of a table for one user of it: each has its own options, and credentials."""
        text = f"{table.client.storage.uri}\n{query_type}\n{user}"
        key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        self._tables[key] = _NamedTable(self._jvm, table, query_type)
        return key

    def _parsed(self, function: str, key: str) -> Any:
        try:
            return self._state.sqlParser().parsePlan(_query(function, key))
        except PySparkException:
            return None


_SESSIONS: Final[dict[str, SessionNames]] = {}
_LOCK: Final = threading.Lock()


def session_names(session: SparkSession) -> SessionNames:
    """The names of a session, by whichever of PySpark's objects for it.

    Raises:
        UnsupportedTableError: it is not a classic session with pinned threads.
    """
    key = str(Jvm(session).java_session.sessionUUID())
    with _LOCK:  # a second one would take over the function, and not know the first one's tables
        names = _SESSIONS.get(key)
        if names is None:
            names = _SESSIONS[key] = SessionNames(session)
    return names


def register(
    session: SparkSession,
    names: Sequence[str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Let SQL of a Spark session name the Hudi tables of its catalog, Hive's or the one in memory, with no jar.

    These are entries of provider `hudi`, as `hudi-catalog sync` writes them. Each query reads the state that is the
    newest when it begins, one state for all mentions, and is planned by the table's index; persistent views over such
    names work. `INSERT INTO` a name is refused. Other sessions, and this one after `REFRESH TABLE` or `ANALYZE TABLE`
    of a name, have to register it. On Spark 4 the session also gets `spark.read.format("hudi_catalog")`.

    Args:
        session: a classic one with pinned threads, which is the default.
        names: such as `shop.orders`; None for all entries of provider `hudi`. Of these, one that Spark or this project
            cannot read is left out with an `OptionWarning`.
        options: for reading, as for `open_table`.
        storage_options: arguments for the `pyarrow.fs` file system.

    Returns:
        The names that answer.

    Raises:
        OptionError: an option is unknown, or Spark cannot load an entry that was named.
        TableNotFoundError: there is no such entry, it is not a Hudi table's, or its folder has none.
        UnsupportedTableError: the session is of Spark Connect, or its threads are not pinned.
    """
    if isinstance(names, str):
        raise ArgumentError(f"register takes a list of names: [{names!r}]")
    views = session_names(session)
    TableOptions.parse(options)
    if hasattr(session, "dataSource"):  # since Spark 4
        from spark_writer.read.data_source import HudiSource

        session.dataSource.register(HudiSource)
    made = []
    for name in _hudi_names(session) if names is None else names:
        try:
            entry = table_entry(session, name)
            table = Table.open(entry_place(entry), storage_options, options=options)
            views.add_entry(entry, table, query_type_of(entry))
        except HudiError as error:
            if names is not None:
                raise
            warnings.warn(f"{name} is not registered: {error}", OptionWarning, stacklevel=2)
        else:
            made.append(name)
    return made


def _hudi_names(session: SparkSession) -> list[str]:
    """Names of the Hudi tables in the session's catalog, and of entries that Spark cannot load."""
    catalog: Any = Jvm(session).java_session.sessionState().catalog()
    outside = catalog.externalCatalog()  # without the session's temporary views
    names = []
    for database in elements(catalog.listDatabases()):
        for table in elements(outside.listTables(database)):
            try:
                wanted = is_hudi_entry(outside.getTable(database, table))
            except (PySparkException, Py4JJavaError):
                wanted = True
            names += [".".join(map(quoted_name, (str(database), str(table))))] if wanted else []
    return names


def _query(function: str, key: str) -> str:
    return f"SELECT * FROM {function}('{key}')"  # noqa: S608 - of our own making, a key is hexadecimal


def quoted_name(name: str) -> str:
    """A name as SQL."""
    return name if re.fullmatch(r"[a-z_]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"


def query_type_of(entry: Any) -> str:
    """How an entry of Spark's catalog reads a merge-on-read table."""
    value = entry.storage().properties().get("hoodie.query.as.ro.table")
    return READ_OPTIMIZED if value.isDefined() and str(value.get()).lower() == "true" else SNAPSHOT
