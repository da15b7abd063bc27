"""Prometheus metrics of services: queries, pruning by stage, rows, requests, and what is open now."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from catalog.planner import Plan
from catalog.snapshots.snapshot import Snapshot
from catalog.table_stats import SMALL_FILE
from table_format.instant import instant_epoch_ms, is_calendar_time

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of `Metrics.text`."""

_PREFIX = "hudi_catalog"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MAX_LABELS = 64
_OTHER = "other"
_TABLE_GAUGES = {
    "file_groups": "File groups of an open table, as of its newest query.",
    "small_file_groups": f"Those below {SMALL_FILE} bytes.",
    "bytes": "Bytes of their base and log files.",
    "partitions": "Partitions.",
    "active_instants": "Instants on the active timeline.",
    "pending_instants": "Requested and inflight instants.",
    "oldest_pending_seconds": "Age of the oldest of them; 0 without one.",
    "last_write_seconds": "Age of the last completed write.",
}


class Metrics:
    """The metrics of one process, in a registry of their own. Thread-safe.

    Label values from outside, such as method names, are bounded: from the 65th on they are counted as `other`.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._labels: dict[str, set[str]] = {}
        self._lock = threading.Lock()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"{_PREFIX}_{name}", text, labels, registry=registry, buckets=_SECONDS)

        self._planned = counter("planned_scans", "Scans that were planned.", "service")
        self._planning = histogram("planning_seconds", "From the request for a scan to its plan.", "service")
        self._files = counter(
            "scan_files", "Files of the scanned tables, and those that the plans kept.", "service", "way"
        )
        self._bytes = counter("scan_bytes", "Bytes of the scanned tables' files, and of those kept.", "service", "way")
        self._stages = counter("stage_files", "Files into and out of each planning stage.", "service", "stage", "way")
        self._unknown = counter("unknown_filters", "Plans with a part of the filter not understood.", "service")
        self._queries = counter(
            "queries", "Queries that passed, by what became of them.", "service", "outcome", "reason"
        )
        self._requests = counter("requests", "Requests answered.", "service", "method", "outcome")
        self._answering = histogram("request_seconds", "From a request to its answer.", "service", "method")
        self._rows = counter("served_rows", "Rows sent to engines.", "service")
        self._sent = counter("served_bytes", "Bytes of rows sent to engines.", "service")
        self._connections = counter("connections", "Connections, by how they ended.", "service", "outcome")
        self._open = Gauge(f"{_PREFIX}_open", "What is open now.", ("service", "what"), registry=registry)
        self._totals = _Totals()
        registry.register(self._totals)
        self._tables = _Tables()
        registry.register(self._tables)

    def planned(self, service: str, plan: Plan, seconds: float) -> None:
        """Count a planned scan: its files by stage, and the planning time."""
        self._planned.labels(service).inc()
        self._planning.labels(service).observe(seconds)
        self._files.labels(service, "in").inc(plan.files_total)
        self._files.labels(service, "out").inc(len(plan))
        self._bytes.labels(service, "in").inc(plan.bytes_total)
        self._bytes.labels(service, "out").inc(plan.bytes_kept)
        for stage in plan.stages:
            self._stages.labels(service, stage.name, "in").inc(stage.files_in)
            self._stages.labels(service, stage.name, "out").inc(stage.files_out)
        if plan.unknowns:
            self._unknown.labels(service).inc()

    def query(self, service: str, outcome: str, reason: str) -> None:
        """Count a query that went through a gateway, by outcome and a short reason."""
        self._queries.labels(service, self._bounded("outcome", outcome), self._bounded("reason", reason)).inc()

    def request(self, service: str, method: str, seconds: float, outcome: str = "ok") -> None:
        """Count an answered request.

        Args:
            service: name of the service.
            method: the requested method; at most 64 are distinguished.
            seconds: from the request to its reply.
            outcome: `ok`, or a short word for the failure.
        """
        name = self._bounded("method", method)
        self._requests.labels(service, name, self._bounded("request outcome", outcome)).inc()
        self._answering.labels(service, name).observe(seconds)

    def served(self, service: str, rows: int, size: int) -> None:
        """Count rows sent to an engine, and their encoded bytes."""
        self._rows.labels(service).inc(rows)
        self._sent.labels(service).inc(size)

    def connection(self, service: str, outcome: str) -> None:
        """Count a connection when it ends: `closed`, or a short word such as `refused`, `oversized`, `timeout`."""
        self._connections.labels(service, self._bounded("connection", outcome)).inc()

    def watch(self, service: str, what: str, count: Callable[[], float]) -> None:
        """Report a gauge that is read at each scrape: `connections`, `scans`, `tables`, `requests`, `queries`."""
        self._open.labels(service, what).set_function(lambda: _read(count))

    def watch_total(self, service: str, what: str, count: Callable[[], float]) -> None:
        """Report a counter that is kept elsewhere and read at each scrape, such as `accepted` connections."""
        self._totals.watched[service, what] = count

    def watch_tables(self, service: str, held: Callable[[], Mapping[str, Snapshot]]) -> None:
        """Report statistics of open tables at each scrape, from the snapshots that are in memory: nothing is read.

        Args:
            service: name of the service.
            held: the newest loaded snapshots, by table.
        """
        self._tables.watched[service] = held

    def text(self) -> bytes:
        """All metrics in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)

    def _bounded(self, label: str, value: str) -> str:
        with self._lock:
            known = self._labels.setdefault(label, set())
            if value in known:
                return value
            if len(known) >= _MAX_LABELS:
                return _OTHER
            known.add(value)
            return value


class _Totals(Collector):
    """Counters kept elsewhere, read at each scrape."""

    def __init__(self) -> None:
        self.watched: dict[tuple[str, str], Callable[[], float]] = {}

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(f"{_PREFIX}_network", "Of the listening port.", labels=("service", "what"))
        for (service, what), count in list(self.watched.items()):
            family.add_metric((service, what), _read(count))
        yield family


class _Tables(Collector):
    """Statistics of open tables, as of the newest query."""

    def __init__(self) -> None:
        self.watched: dict[str, Callable[[], Mapping[str, Snapshot]]] = {}

    def collect(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"{_PREFIX}_table_{name}", text, labels=("service", "table"))
            for name, text in _TABLE_GAUGES.items()
        }
        for service, held in list(self.watched.items()):
            for table, snapshot in sorted(held().items()):
                for name, value in _table_values(snapshot).items():
                    families[name].add_metric((service, table), value)
        yield from families.values()


def _table_values(snapshot: Snapshot) -> dict[str, float]:
    sizes, timeline = snapshot.sizes[snapshot.live_rows], snapshot.timeline
    zone, now_ms = snapshot.config.timeline_timezone, time.time() * 1000

    def age(instant: str | None) -> float:
        if instant is None or not is_calendar_time(instant):
            return math.nan
        return max(0.0, (now_ms - instant_epoch_ms(instant[:17], zone)) / 1000)

    return {
        "file_groups": len(sizes),
        "small_file_groups": int((sizes < SMALL_FILE).sum()),
        "bytes": snapshot.live_bytes,
        "partitions": len(snapshot.partitions),
        "active_instants": len(timeline.instants),
        "pending_instants": len(timeline.pending),
        "oldest_pending_seconds": age(timeline.pending[0].time) if timeline.pending else 0.0,
        "last_write_seconds": age(snapshot.instant),
    }


def _read(count: Callable[[], float]) -> float:
    try:
        return float(count())
    except Exception:  # noqa: BLE001  # one failing metric must not fail the scrape
        return math.nan
