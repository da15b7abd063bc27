"""Planning of scans and index look-ups: from a TupleDomain and keys to a filter, a plan, and splits.

For an index look-up, Trino takes the returned rows as all rows with the requested keys, and does not ask for a row
twice: a split serves only rows with one of the requested keys, and the splits together all of them.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.concurrency.caches import LruCache
from catalog.planner import make_plan
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.base.names import NamedTable, TableName, TableNames
from hudi_catalog.trino.base.scans import bound_filter
from hudi_catalog.trino.batches import PlannedScan, SplitBatch, SplitBatches
from hudi_catalog.trino.domains import bound_domain, domain_text
from hudi_catalog.trino.index_keys import key_bytes, key_filter, keys_of_page
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.split_id import TrinoSplit
from hudi_catalog.trino.types import ServedColumn, columns_of
from hudi_catalog.trino.wire import domain_bytes
from pushdown.expression import Constant, all_of
from pushdown.simplify import simplify
from table_format.errors import SchemaError


class _Planner:
    """Plans the scans that Trino asks for, and returns their splits in batches.

    Args:
        tables: of the warehouse.
        names: finds tables by their names in Trino.
        options: of the service.
        batches: divides plans into batches of splits.
        log: of planned scans.
    """

    def __init__(
        self, tables: WarehouseTables, names: TableNames, options: TrinoOptions, batches: SplitBatches, log: QueryLog
    ) -> None:
        self._tables = tables
        self._names = names
        self._options = options
        self._batches = batches
        self._log = log

    def _first(self, request: _Request, snapshot: Callable[[], Snapshot], **logged: Any) -> tuple[str, SplitBatch]:
        """Plan a scan and log it; returns the scan's id and its first batch.

        Args:
            request: for the first batch.
            snapshot: returns the snapshot to be planned.
            logged: further fields of the log line.
        """
        begin = time.perf_counter()
        scan = request.plan(snapshot())
        self._log.planned(
            "trino",
            str(request.named.requested),
            scan.plan,
            received=domain_text(request.constraint),
            seconds=time.perf_counter() - begin,
            scan=scan.template.scan,
            **logged,
        )
        return scan.template.scan, self._batches.first(scan, request.limit)

    def _next(self, request: _Request, token: bytes) -> SplitBatch:
        """The batch that a token continues; a scan whose plan is gone is planned again at its snapshot."""
        name = request.named.name
        return self._batches.next(token, name, lambda pin: request.plan(self._tables.at(name, pin)), request.limit)


@dataclass(frozen=True)
class _Request:
    """A request for a batch of splits.

    Attributes:
        named: the table.
        plan: plans the scan at a snapshot.
        constraint: TupleDomain of the filter.
        limit: greatest number of splits.
    """

    named: NamedTable
    plan: Callable[[Snapshot], PlannedScan]
    constraint: Any
    limit: int


class SplitPlanner(_Planner):
    """Plans scans at the newest snapshot."""

    def splits(
        self,
        requested: TableName,
        *,
        desired: Sequence[str] | None,
        constraint: Any,
        limit: int,
        token: bytes | None,
    ) -> SplitBatch:
        """A batch of splits of a scan.

        Args:
            requested: name of the table.
            desired: columns to be read; None for all.
            constraint: TupleDomain of the filter.
            limit: greatest number of splits.
            token: of the previous batch; None for the first one.

        Raises:
            SplitError: the token is forged or expired.
            TableNotFoundError: there is no such table.
            OptionError: the scan's snapshot no longer exists.
        """
        named = self._names.require(requested)
        request = _Request(named, lambda snapshot: self._scan(named, snapshot, desired, constraint), constraint, limit)
        if token is not None:
            return self._next(request, token)
        columns = None if desired is None else sorted(desired)
        _, batch = self._first(request, lambda: self._names.snapshot(named), columns=columns)
        return batch

    def _scan(
        self, named: NamedTable, snapshot: Snapshot, desired: Sequence[str] | None, constraint: Any
    ) -> PlannedScan:
        expression = bound_domain(snapshot, columns_of(snapshot.schema, self._options.types), constraint)
        template = template_of(named.name, snapshot, constraint)
        counted = expression is None and desired is not None and not desired
        return PlannedScan.of(make_plan(snapshot, expression, self._options.scan), template, counted=counted)


def template_of(table: str, snapshot: Snapshot, constraint: Any) -> TrinoSplit:
    """A split of a scan without its files."""
    domains = constraint.domains
    content = b"" if domains is not None and not domains else domain_bytes(constraint)
    return TrinoSplit(table, WarehouseTables.pin(snapshot), constraint=content)


_TRACKED_LOOKUPS = 10_000  # look-ups in progress that are tracked


class IndexPlanner(_Planner):
    """Plans index look-ups; those of one query share a snapshot. Each planner's `splits` names what its call sends."""

    def __init__(
        self, tables: WarehouseTables, names: TableNames, options: TrinoOptions, batches: SplitBatches, log: QueryLog
    ) -> None:
        super().__init__(tables, names, options, batches, log)
        self._leases = SnapshotLeases(options.lease_idle, options.lease_most)
        self._lease_of: LruCache[str, Hashable] = LruCache(_TRACKED_LOOKUPS)

    def splits(
        self,
        requested: TableName,
        *,
        index_columns: Sequence[str],
        output_columns: Sequence[str],
        keys: Any,
        constraint: Any,
        limit: int,
        token: bytes | None,
    ) -> SplitBatch:
        """A batch of splits of a look-up.

        Args:
            requested: name of the table.
            index_columns: columns of the keys.
            output_columns: columns to be read.
            keys: a page of keys.
            constraint: TupleDomain of a further filter.
            limit: greatest number of splits.
            token: of the previous batch; None for the first one.

        Raises:
            SplitError: the token is forged or expired.
            SchemaError: there is no such column.
            ServiceError: the keys do not match the types of the columns.
            TableNotFoundError: there is no such table.
        """
        named = self._names.require(requested)
        lease = _lease_key(named, index_columns, output_columns, constraint)
        request = _Request(
            named,
            lambda snapshot: self._scan(named, snapshot, index_columns, keys, constraint),
            constraint,
            limit,
        )
        if token is not None:
            batch = self._next(request, token)
        else:
            scan, batch = self._first(
                request,
                lambda: self._leases.take(lease, lambda: self._names.snapshot(named)),
                columns=sorted(output_columns),
                index=list(index_columns),
                keys=keys.rowCount,
            )
            self._lease_of.put(scan, lease)
        self._leases.renew(lease)
        return batch

    def reading(self, scan: str) -> None:
        """Note that rows of a look-up are read: the query's next look-up has to use the same snapshot.

        Args:
            scan: id of the look-up; ignored when unknown.
        """
        lease = self._lease_of.get(scan)
        if lease is not None:
            self._leases.renew(lease)

    def _scan(
        self, named: NamedTable, snapshot: Snapshot, index_columns: Sequence[str], keys: Any, constraint: Any
    ) -> PlannedScan:
        columns = columns_of(snapshot.schema, self._options.types)
        indexed = _chosen(columns, index_columns, named.requested)
        table = keys_of_page(keys, indexed)
        template = template_of(named.name, snapshot, constraint)
        if not table.num_rows:
            return PlannedScan.of(make_plan(snapshot, Constant(value=False), self._options.scan), template)
        wanted = bound_filter(snapshot, key_filter(table, indexed))
        limits = [one for one in (wanted, bound_domain(snapshot, columns, constraint)) if one is not None]
        template = replace(template, key_columns=tuple(index_columns), keys=key_bytes(table))
        return PlannedScan.of(
            make_plan(snapshot, simplify(all_of(*limits)) if limits else None, self._options.scan), template
        )


def _chosen(columns: Sequence[ServedColumn], names: Sequence[str], table: TableName) -> list[ServedColumn]:
    by_name = {column.name: column for column in columns}
    stray = [name for name in names if name not in by_name]
    if stray:
        raise SchemaError(f"{table}: there is no column {stray[0]}; the columns are {', '.join(by_name)}")
    return [by_name[name] for name in names]


def _lease_key(named: NamedTable, index: Sequence[str], output: Sequence[str], constraint: Any) -> Hashable:
    digest = hashlib.sha256(domain_bytes(constraint)).digest()
    return named, tuple(index), tuple(output), digest


_MAX_LEASES = 1_000


@dataclass
class _Lease:
    snapshot: Snapshot
    begun: float
    used: float


class SnapshotLeases:
    """Snapshots shared by the index look-ups of one query. Thread-safe.

    Trino sends many look-ups for one query, each with some of the keys, and nothing in a request identifies the query.
    Look-ups of the same columns of the same table under the same constraint share a snapshot as long as they follow
    each other closely.

    Args:
        idle_seconds: after this time without a request, the next one gets the newest snapshot.
        max_seconds: longest time for which a snapshot is shared.
        clock: monotonic seconds.
    """

    def __init__(self, idle_seconds: float, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle = idle_seconds
        self._max_age = max_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: dict[Hashable, _Lease] = {}

    def take(self, key: Hashable, newest: Callable[[], Snapshot]) -> Snapshot:
        """The snapshot leased under a key; the newest one, leased from now on, if there is none.

        Args:
            key: what the requests of one query have in common.
            newest: returns the newest snapshot.
        """
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None and self._is_valid(lease):
                lease.used = self._clock()
                return lease.snapshot
        snapshot = newest()
        now = self._clock()
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None and self._is_valid(lease):  # another thread was faster
                return lease.snapshot
            self._leases = {name: one for name, one in self._leases.items() if self._is_valid(one)}
            if len(self._leases) < _MAX_LEASES:
                self._leases[key] = _Lease(snapshot, now, now)
        return snapshot

    def renew(self, key: Hashable) -> None:
        """Note the end of a request, so that its duration does not count as idle time."""
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None:
                lease.used = self._clock()

    def _is_valid(self, lease: _Lease) -> bool:
        now = self._clock()
        return now - lease.used <= self._idle and now - lease.begun <= self._max_age
