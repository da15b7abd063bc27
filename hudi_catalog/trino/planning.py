"""Scans: a TupleDomain becomes an expression, the expression a plan, and the plan the splits that Trino reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from catalog.planner import make_plan
from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.server.open_tables import OpenTables
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.trino.batches import PlannedScan, SplitBatch, SplitBatches
from hudi_catalog.trino.domain_text import domain_text
from hudi_catalog.trino.filters import bound_domain
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.split_id import TrinoSplit
from hudi_catalog.trino.table_names import NamedTable, TableName, TableNames
from hudi_catalog.trino.types import columns_of
from hudi_catalog.trino.wire import domain_bytes


class SplitPlanner:
    """Answers requests for the splits of scans: planned at the newest snapshot, handed out in batches.

    Args:
        tables: of the warehouse.
        names: finds them.
        options: of the service.
        batches: hands out splits.
        log: of planned scans.
    """

    def __init__(
        self, tables: OpenTables, names: TableNames, options: TrinoOptions, batches: SplitBatches, log: QueryLog
    ) -> None:
        self._tables = tables
        self._names = names
        self._options = options
        self._batches = batches
        self._log = log

    def splits(
        self,
        said: TableName,
        *,
        desired: Sequence[str] | None,
        constraint: Any,
        most: int,
        token: bytes | None,
    ) -> SplitBatch:
        """Some splits of a scan.

        Args:
            said: name of the table.
            desired: columns that will be read; None for all of them.
            constraint: a TupleDomain that rows have to meet.
            most: splits at most.
            token: of the batch before; None for the first ones.

        Raises:
            SplitError: the token is forged or too old.
            TableNotFoundError: there is no such table.
            OptionError: the snapshot of the scan is gone.
        """
        named = self._names.require(said)

        def replanned(pin: str) -> PlannedScan:
            return self._scan(named, self._tables.at(named.name, pin), desired, constraint)

        if token is not None:
            return self._batches.next(token, named.name, replanned, most)
        begin = time.perf_counter()
        scan = self._scan(named, self._names.snapshot(named), desired, constraint)
        self._log.planned(
            "trino",
            str(said),
            scan.plan,
            received=domain_text(constraint),
            seconds=time.perf_counter() - begin,
            scan=scan.template.scan,
            columns=None if desired is None else sorted(desired),
        )
        return self._batches.first(scan, most)

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
    return TrinoSplit(table, OpenTables.pin(snapshot), constraint=content)
