"""The query log: one JSON line for each planned scan and each query that went through a gateway.

A line has the filter as the engine sent it, its translation, and the files dropped by each planning stage, which
answers "why did that query read everything". Lines are bounded in length, and a log that cannot be written never fails
a query.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import IO, Any, Protocol

from catalog.planner import Plan
from pushdown.expression import HudiExpression
from table_format.errors import OptionError

_LINE_LIMIT = 32_000
_TEXT_LIMIT = 4_000
_NUMBER_BITS = 256
_ITEM_LIMIT = 20
_DEPTH = 8
_RECENT = 100
_STREAM = "-"


class QueryCounter(Protocol):
    """Counts records; implemented by `hudi_catalog.server.metrics.Metrics`."""

    def planned(self, service: str, plan: Plan, seconds: float) -> None:
        """Count a planned scan."""

    def query(self, service: str, outcome: str, reason: str) -> None:
        """Count a query."""


class QueryLog:
    """Writes records, keeps the newest in memory, and counts them. Thread-safe.

    Args:
        target: path of a file to append to, `-` for standard output, an open text stream, or None to keep the newest
            records in memory only.
        metrics: counts the records; may be None.
        recent: number of newest records kept in memory.

    Attributes:
        metrics: see Args.
        lost: number of lines that could not be written.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(
        self, target: str | IO[str] | None = None, metrics: QueryCounter | None = None, *, recent: int = _RECENT
    ) -> None:
        self.metrics = metrics
        self.lost = 0
        self._lock = threading.Lock()
        self._recent: deque[dict[str, Any]] = deque(maxlen=recent)
        self._path = target if isinstance(target, str) and target != _STREAM else None
        self._stream = _opened(target)

    def planned(
        self,
        service: str,
        table: str,
        plan: Plan,
        *,
        received: Any = None,
        expression: HudiExpression | None = None,
        seconds: float | None = None,
        **more: Any,
    ) -> None:
        """Log a planned scan.

        Args:
            service: name of the service, such as `trino` or `gateway`.
            table: the table's name in the engine.
            plan: of the scan.
            received: the filter as the engine sent it, of strings, numbers, lists and mappings.
            expression: the translated filter; by default the plan's bound filter.
            seconds: from the request to the plan, with translation and refresh; by default the planning time alone.
            more: further fields of the line.
        """
        elapsed = plan.seconds if seconds is None else seconds
        try:
            record = plan_record(table, plan, received=received, expression=expression, seconds=elapsed)
            self._write(_head("planned", service) | record | _shortened_fields(more))
            if self.metrics is not None:
                self.metrics.planned(service, plan, elapsed)
        except Exception as error:  # noqa: BLE001  # a log never fails a query
            self._complain(error)

    def query(self, service: str, *, outcome: str, reason: str, **more: Any) -> None:
        """Log a query that went through a gateway.

        Args:
            service: name of the service.
            outcome: such as `rewritten`, `unchanged`, `failed`.
            reason: one of a small set of words, because metrics are kept for each.
            more: further fields of the line, such as `sql`, `query_id`, `ms`.
        """
        try:
            self._write(_head("query", service) | {"outcome": outcome, "reason": reason} | _shortened_fields(more))
            if self.metrics is not None:
                self.metrics.query(service, outcome, reason)
        except Exception as error:  # noqa: BLE001  # a log never fails a query
            self._complain(error)

    def event(self, service: str, event: str, **more: Any) -> None:
        """Log another kind of event, such as a refused connection."""
        try:
            self._write(_head(event, service) | _shortened_fields(more))
        except Exception as error:  # noqa: BLE001  # a log never fails a query
            self._complain(error)

    def recent(self) -> list[dict[str, Any]]:
        """The newest records, newest first."""
        with self._lock:
            return list(reversed(self._recent))

    def reopen(self) -> None:
        """Reopen the file, after log rotation has renamed it. No effect without a file."""
        if self._path is None:
            return
        try:
            fresh = _opened(self._path)
        except OSError as error:
            self._complain(error)
            return
        with self._lock:
            old, self._stream = self._stream, fresh
        if old is not None:
            old.close()

    def close(self) -> None:
        """Close the file; later records are kept in memory only. A stream passed in stays open."""
        with self._lock:
            old, self._stream = self._stream, None
        if old is not None and self._path is not None:
            old.close()

    def _write(self, record: dict[str, Any]) -> None:
        line = _bounded_line(record)
        with self._lock:
            self._recent.append(record)
            if self._stream is None:
                return
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError) as error:  # ValueError: the stream was closed
                self._complain(error)

    def _complain(self, error: Exception) -> None:
        # Only once, or a full disk would flood the error stream.
        self.lost += 1
        if self.lost == 1:
            print(f"hudi-catalog: the query log cannot be written: {error}", file=sys.stderr)  # noqa: T201


def open_log(target: str | None, metrics: QueryCounter | None) -> QueryLog:
    """The query log at the value of `--query-log`.

    Raises:
        OptionError: its file cannot be opened.
    """
    try:
        return QueryLog(target, metrics)
    except OSError as error:
        raise OptionError(f"--query-log {target}: {error.strerror or error}") from error


def plan_record(
    table: str, plan: Plan, *, received: Any, expression: HudiExpression | None, seconds: float
) -> dict[str, Any]:
    """The fields of a planned scan's line; for the arguments see `QueryLog.planned`."""
    filtered = plan.expression if expression is None else expression
    return {
        "table": table,
        "instant": plan.snapshot.instant,
        "received": shortened(received),
        # repr abbreviates long lists
        "expression": None if filtered is None else shortened(repr(filtered)),
        "unknown": shortened(plan.unknowns),
        "stages": [
            {
                "name": stage.name,
                "in": stage.files_in,
                "out": stage.files_out,
                "pruned": stage.pruned,
                "reason": shortened(stage.reason),
                "ms": _milliseconds(stage.seconds),
            }
            for stage in plan.stages
        ],
        "files_in": plan.files_total,
        "files_out": len(plan),
        "bytes_in": plan.bytes_total,
        "bytes_out": plan.bytes_kept,
        "ms": _milliseconds(seconds),
    }


def shortened(value: Any, depth: int = _DEPTH) -> Any:
    """A JSON-serializable form of a value, with long texts, lists and mappings cut off.

    Args:
        value: strings, bytes, numbers, mappings, iterables; anything else is converted to a string.
        depth: levels of nesting that are kept.
    """
    if isinstance(value, Mapping | Iterable) and not isinstance(value, str | bytes | bytearray | memoryview):
        if depth == 0:
            return "…"
        return _shortened_mapping(value, depth) if isinstance(value, Mapping) else _shortened_list(value, depth)
    return _shortened_leaf(value)


def _shortened_leaf(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _NUMBER_BITS else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        shown, unit = f"0x{bytes(value[: _TEXT_LIMIT // 2]).hex()}", "bytes"
        more = len(value) - _TEXT_LIMIT // 2
    else:
        text = str(value)
        shown, unit = text[:_TEXT_LIMIT], "characters"
        more = len(text) - _TEXT_LIMIT
    return shown if more <= 0 else f"{shown}… {more:,} more {unit}"


def _shortened_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    first = itertools.islice(value.items(), _ITEM_LIMIT)
    fields = {shortened(str(key)): shortened(item, depth - 1) for key, item in first}
    if len(value) > _ITEM_LIMIT:
        fields["…"] = f"{len(value) - _ITEM_LIMIT:,} more"
    return fields


def _shortened_list(value: Iterable[Any], depth: int) -> list[Any]:
    items = value if isinstance(value, list | tuple) else list(value)
    first = [shortened(item, depth - 1) for item in items[:_ITEM_LIMIT]]
    return [*first, f"… {len(items) - _ITEM_LIMIT:,} more"] if len(items) > _ITEM_LIMIT else first


def _shortened_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shortened(value) for name, value in fields.items()}


def _bounded_line(record: dict[str, Any]) -> str:
    """One line of ASCII; fields that make it too long are replaced, in the record too, by the start of their text."""
    line = json.dumps(record, allow_nan=False)
    while len(line) > _LINE_LIMIT:
        texts = {name: json.dumps(value) for name, value in record.items()}
        longest = max(texts, key=lambda name: len(texts[name]))
        record[longest] = f"{texts[longest][: _TEXT_LIMIT // 2]}… cut from {len(texts[longest]):,} characters"
        line = json.dumps(record, allow_nan=False)
    return line + "\n"


def _head(event: str, service: str) -> dict[str, Any]:
    now = dt.datetime.now(dt.UTC)
    return {"time": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z", "event": event, "service": service}


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _opened(target: str | IO[str] | None) -> IO[str] | None:
    if not isinstance(target, str):
        return target
    if target == _STREAM:
        return sys.stdout
    # O_APPEND and one write per line keep lines of several processes apart.
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    return open(descriptor, "w", encoding="utf-8")
