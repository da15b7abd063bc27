"""Plans scans for Hive: resolves the table and the snapshot, binds the filter, and makes splits of the plan."""

from __future__ import annotations

import bisect
import datetime as dt
import functools
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from catalog.concurrency.caches import LruCache, memoize
from catalog.planner import Plan, make_plan
from catalog.row_summary import SnapshotSummary, summarize_snapshot
from catalog.slices.file_slice import FileSlice
from catalog.snapshots.snapshot import Snapshot
from catalog.splits.splitter import SplitRules, Splitter
from hudi_catalog.hive.columns import check_columns, normalized_type, type_matches
from hudi_catalog.hive.join_values import join_values
from hudi_catalog.hive.materialization import HiveFiles, HiveSlices
from hudi_catalog.hive.options import HiveOptions, ScanSettings
from hudi_catalog.metastore.locations import Locations, normal_uri
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.tables import TableCache, check_base_files
from pushdown.binding.bind import bind
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, Predicate, Unknown
from pushdown.simplify import simplify
from pushdown.temporal import zone_of
from pushdown.translators.hive_tree import from_hive_tree
from pushdown.walk import fold, rebuilt
from table_format.errors import ServiceError, TableNotFoundError

# Java's names of zones with a fixed offset.
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-]\d{2}:\d{2})\Z")
_FIXED: Final = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "ETC/GMT", "UCT", "ZULU"})
_RULES = re.compile(r"(-?\d{1,6})((?:;-?\d{1,12}:-?\d{1,6}){0,5000})\Z", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_FIRST, _LAST = dt.datetime(1800, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)

_DAY = 86_400


@functools.lru_cache(maxsize=64)
def agreed_zone(name: str | None, rules: str | None) -> str | None:
    """A time zone of Hive's JVM by the name under which Python knows it; None if its rules differ or are unknown.

    Args:
        name: Java's name of the zone.
        rules: offset from UTC in 1800 in seconds, then `;instant:seconds` for each change until the year 2100, instants
            in seconds since 1970; None if Hive sends none, which suffices for UTC and fixed offsets.
    """
    if name is None:
        return None
    if name.upper() in _FIXED:
        return "UTC"
    fixed = _OFFSET.match(name)
    if fixed is not None:
        return fixed[1]
    if rules is None or not _same_rules(name, rules):
        return None
    return name


def _same_rules(name: str, rules: str) -> bool:
    try:
        zone = zone_of(name)
    except ExpressionError:
        return False
    match = _RULES.match(rules)
    if match is None:
        return False
    changes = [(int(at), int(offset)) for at, _, offset in (part.partition(":") for part in match[2].split(";")[1:])]
    instants = [at for at, _ in changes]
    offsets = [int(match[1]), *(offset for _, offset in changes)]
    first, last = _seconds(_FIRST), _seconds(_LAST)
    if instants != sorted(instants) or any(not first <= at < last for at in instants):
        return False
    # No zone changes its offset twice within a day. Rules that differ mostly do so at a change: those come first.
    compared = chain(instants, (at - 1 for at in instants), range(first, last, _DAY))
    return all(offsets[bisect.bisect_right(instants, at)] == _offset(zone, at) for at in compared)


def _seconds(moment: dt.datetime) -> int:
    return int((moment - _EPOCH).total_seconds())


def _offset(zone: dt.tzinfo, instant: int) -> int:
    """A zone's offset from UTC at an instant, in seconds."""
    ahead = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(zone).utcoffset()
    return 0 if ahead is None else int(ahead.total_seconds())


def bound_filter(snapshot: Snapshot, text: str | None, zone: str | None) -> HudiExpression | None:
    """The filter of a scan.

    Args:
        snapshot: of the table.
        text: Hive's expression tree as JSON; None for all rows.
        zone: the time zone of Hive's JVM, see `agreed_zone`; None if unknown: clock times are not compared then.

    Returns:
        None if all rows pass. Conditions that do not fit the table, or that Hive may evaluate differently, are unknown.

    Raises:
        ServiceError: the text is not JSON.
    """
    if text is None:
        return None
    try:
        node = json.loads(text)
    except RecursionError:
        return Unknown("the filter is nested too deeply for JSON")
    except ValueError as error:
        raise ServiceError(f"the filter is not JSON: {error}") from error
    known = zone or "UTC"
    try:
        translated = from_hive_tree(node, time_zone=known)
        incomparable = _mistyped(node, snapshot) | ({} if zone else _instants(snapshot))
        bound = simplify(bind(_without(translated, incomparable), snapshot.schema, time_zone=known))
    except ExpressionError as error:
        return Unknown(f"the filter does not fit the table: {error}")
    return None if bound == Constant(value=True) else bound


def _without(expression: HudiExpression, columns: Mapping[str, str]) -> HudiExpression:
    """The filter with comparisons of some columns replaced by unknowns."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if isinstance(node, Predicate) and (name := node.column.partition(".")[0].lower()) in columns:
            return Unknown(columns[name])
        return node

    return fold(expression, visit) if columns else expression


def _mistyped(node: Any, snapshot: Snapshot) -> dict[str, str]:
    """Columns whose type in Hive differs from the table's, each with the reason not to compare it.

    Hive then compares values of its own type: strings sort differently from numbers, and numbers that do not
    fit are null.
    """
    reasons: dict[str, str] = {}
    fields = {field.name.lower(): field for field in snapshot.schema}
    for name, kind in {(name.lower(), kind) for name, kind in _columns(node)}:
        if name in fields and not type_matches(kind, fields[name]):
            reasons[name] = f"{name} is {kind} in Hive and {fields[name].type} in the table"
    return reasons


def _instants(snapshot: Snapshot) -> dict[str, str]:
    """Columns that hold instants, which Hive converts to clock times, each with the reason not to compare it."""
    why = "holds instants, and the clocks of Hive are not known here"
    return {field.name.lower(): f"{field.name} {why}" for field in snapshot.schema if ", tz=" in str(field.type)}


def _columns(node: Any) -> Iterator[tuple[str, str]]:
    """Names and types of the columns in an expression tree; types are lower-case without spaces."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, dict):
            if isinstance(one.get("c"), str):
                yield one["c"], normalized_type(str(one.get("t")))
            pending.extend(value for value in one.values() if isinstance(value, list | dict))


class TableFolders(TableCache):
    """Open tables of a warehouse by path; "" is a warehouse that is a table itself."""

    @property
    def uri(self) -> str:
        """URI of the warehouse as engines write it."""
        return self.warehouse.storage.full_uri("")

    def _folder(self, name: str) -> str:
        return self.warehouse.storage.full_path(name)

    def _location(self, name: str) -> str:
        uri = self.warehouse.storage.uri
        return f"{uri.rstrip('/')}/{name}" if name else uri


# Hadoop's schemes for S3, all the same store.
_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)
_DOTS = frozenset({".", ".."})


class LocationResolver:
    """Resolves Hive's locations to folders of a warehouse.

    Args:
        warehouse: its URI.
        locations: how Hive writes URIs.
    """

    def __init__(self, warehouse: str, locations: Locations) -> None:
        self._warehouse = warehouse
        self._root = _plain(warehouse)
        self._locations = locations

    def path(self, location: str) -> str:
        """The path of a table's folder in the warehouse, "" for the warehouse itself.

        Args:
            location: Hive's URI; its path is literal, without escapes.

        Raises:
            TableNotFoundError: it is outside the warehouse, or cannot be a table's.
        """
        if any(part in _DOTS for part in location.split("/")):
            raise TableNotFoundError(f"{location}: write the location without . and ..")
        place = _plain(self._locations.from_engine(location))
        if place != self._root and not place.startswith(self._root.rstrip("/") + "/"):
            raise TableNotFoundError(
                f"{location} is not in the warehouse {self._warehouse}; serve the warehouse that holds it, or set "
                "hoodie.catalog.hive.locations if Hive only writes it differently"
            )
        path = place[len(self._root) :].strip("/")
        if any(part.startswith(".") for part in path.split("/")):
            raise TableNotFoundError(f"{location}: a folder inside a hidden folder is not a table")
        return path


def _plain(uri: str) -> str:
    """One form for all spellings of a folder's URI."""
    place = _S3.sub("s3://", normal_uri(uri))
    scheme, slashes, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{slashes}{host}{slash}{'/'.join(part for part in path.split('/') if part)}"


# Smaller splits would make millions of a large file.
_LEAST_SPLIT = 1 << 20
_MOST_LEASES = 10_000


@dataclass(frozen=True)
class PlannedScan:
    """Result of planning a scan.

    Attributes:
        pin: of the planned snapshot.
        splits: file slices to read, or parts of their files.
        files_total: number of files in the snapshot.
        files_kept: number of files to read.
    """

    pin: str
    splits: Sequence[FileSlice]
    files_total: int
    files_kept: int


class HivePlanner:
    """Answers requests of Hive's storage handler; thread-safe.

    Args:
        tables: of the warehouse.
        options: of the service.
        log: of planned scans.
    """

    def __init__(self, tables: TableFolders, options: HiveOptions, log: QueryLog) -> None:
        self._tables = tables
        self._places = LocationResolver(tables.uri, options.locations)
        self._options = options
        self._log = log
        # pins by query and table, for queries that do not send the pin from their compilation
        self._leases: LruCache[bytes, str] = LruCache(_MOST_LEASES, idle_seconds=options.lease_idle)
        self._files = HiveFiles(options, tables.late)
        self._splitter = Splitter(SplitRules.of_server(options.scan.footer_limit))

    def close(self, seconds: float | None = None) -> bool:
        """Materialize nothing more; see `Materializer.close`."""
        return self._files.close(seconds)

    def pin(self, request: Any) -> str:
        """The snapshot that a query reads of a table: the newest, or that of the requested time.

        Args:
            request: a `ScanRequest`; its columns, if any, are those that the query's text names.

        Raises:
            HudiError: the table is not in the warehouse or cannot be read, or Hive would misread one of the columns.
        """
        path = self._places.path(request.location)
        settings = ScanSettings.parse(request.settings)
        with self._tables.watched(path):
            pin = self._pinned(request, path, settings)
            if request.columns:
                snapshot = self._tables.at(path, pin, settings.query_type)
                check_columns(snapshot, settings, request.columns, request.table)
            return pin

    def splits(self, request: Any) -> PlannedScan:
        """The splits of a scan.

        Args:
            request: a `ScanRequest`.

        Raises:
            SplitError: the query's snapshot no longer exists.
            HudiError: the table is not in the warehouse, or Hive cannot read it.
        """
        path = self._places.path(request.location)
        with self._tables.watched(path):
            return self._scan(request, path, ScanSettings.parse(request.settings))

    def statistics(self, request: Any) -> SnapshotSummary:
        """Statistics of the snapshot that a query reads of a table.

        Args:
            request: a `ScanRequest`.

        Raises:
            SplitError: the query's snapshot no longer exists.
            HudiError: the table is not in the warehouse or cannot be read.
        """
        path = self._places.path(request.location)
        settings = ScanSettings.parse(request.settings)
        with self._tables.watched(path):
            snapshot = self._read(request, path, settings)[1]
            return memoize(snapshot, "statistics for Hive", lambda: summarize_snapshot(snapshot))

    def values(self, request: Any) -> list[str] | None:
        """Values of a column in the rows that pass a filter; see `join_values`.

        Args:
            request: a `ScanRequest` with one column.

        Raises:
            SplitError: the query's snapshot no longer exists.
            HudiError: the table is not in the warehouse, or Hive cannot read it.
        """
        if len(request.columns or ()) != 1:
            raise ServiceError(f"{request.table}: values are those of one column, not of {request.columns}")
        path = self._places.path(request.location)
        settings = ScanSettings.parse(request.settings)
        with self._tables.watched(path):
            snapshot = self._read(request, path, settings)[1]
            check_columns(snapshot, settings, request.columns, request.table)
            return join_values(snapshot, _filter_of(request, snapshot), request.columns[0], self._options.scan)

    def _scan(self, request: Any, path: str, settings: ScanSettings) -> PlannedScan:
        begin = time.perf_counter()
        pin, snapshot = self._read(request, path, settings)
        check_columns(snapshot, settings, request.columns, request.table)
        expression = _filter_of(request, snapshot)
        plan = make_plan(snapshot, expression, self._options.scan)
        check_base_files(snapshot, plan.rows)
        files = self._files.files(snapshot, plan.rows, columns=request.columns, materialize=settings.materialize)
        splits = self._splits(plan, files, request.splitBytes)
        self._log.planned(
            "hive",
            request.table,
            plan,
            received=request.filter,
            seconds=time.perf_counter() - begin,
            query=request.queryId,
            columns=request.columns,
            query_type=settings.query_type,
            splits=len(splits),
            materialized=int(files.materialized.sum()),
        )
        return PlannedScan(pin, splits, plan.files_total, len({split.base for split in splits}))

    def _read(self, request: Any, path: str, settings: ScanSettings) -> tuple[str, Snapshot]:
        """The snapshot that a query reads, and its pin."""
        pin = request.pin or self._pinned(request, path, settings)
        return pin, self._tables.at(path, pin, settings.query_type)

    def _pinned(self, request: Any, path: str, settings: ScanSettings) -> str:
        if not request.queryId:
            raise ServiceError(f"{request.table}: the request names no query; Hive has its id in hive.query.id")

        # hashed, so that its size is bounded whatever a caller sends
        key = hashlib.sha256(repr((request.queryId, path, settings.as_of)).encode()).digest()
        return self._leases.get(key) or self._leases.setdefault(key, self._tables.pin(self._newest(path, settings)))

    def _newest(self, path: str, settings: ScanSettings) -> Snapshot:
        if settings.as_of is None:
            return self._tables.newest(path, settings.query_type)[1]
        return self._tables.at(path, settings.as_of, settings.query_type)

    def _splits(self, plan: Plan, files: HiveSlices, asked_bytes: int | None) -> list[FileSlice]:
        snapshot, own = plan.snapshot, self._options.split_size
        most = own if asked_bytes is None else max(min(own, asked_bytes), min(own, _LEAST_SPLIT))
        pruned = files.materialized | snapshot.footers_apply
        filters = [plan.expression if one else None for one in pruned]
        divided = self._splitter.divide(snapshot.client.storage, files.slices, filters, most)
        return [part for parts in divided for part in parts]


def _filter_of(request: Any, snapshot: Snapshot) -> HudiExpression | None:
    return bound_filter(snapshot, request.filter, agreed_zone(request.timeZone, request.zoneOffsets))
