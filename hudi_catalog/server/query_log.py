"""The log of queries: one JSON line for each planned scan and each query that passed a gateway.

A line tells what the engine said, what was understood of it, and what each planning stage dropped, so that "why did
that query read everything" has an answer. Lines are bounded, whatever an engine sends, and a log that cannot be
written never fails a query.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Protocol

from catalog.planner import Plan
from pushdown.expression import HudiExpression
from table_format.errors import OptionError

_LINE = 32_000
_TEXT = 4_000
_NUMBER_BITS = 256
_ITEMS = 20
_DEPTH = 8
_RECENT = 100
_STREAM = "-"


class QueryCounter(Protocol):
    """What is told of each record; `hudi_catalog.server.metrics.Metrics` counts them."""

    def planned(self, service: str, plan: Plan, seconds: float) -> None:
        """A scan was planned."""

    def query(self, service: str, outcome: str, reason: str) -> None:
        """A query passed."""


class QueryLog:
    """Writes the lines, keeps the newest ones, and counts them. Threads may share it.

    Args:
        target: path of a file that is appended to, `-` for standard output, an open text stream, or None to keep the
            newest records only.
        metrics: counts what is logged; None for nobody.
        recent: so many of the newest records are kept in memory.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(
        self, target: str | IO[str] | None = None, metrics: QueryCounter | None = None, *, recent: int = _RECENT
    ) -> None:
        self.metrics = metrics
        self.lost = 0  # lines that could not be written
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
            service: that planned it, such as `trino` or `gateway`.
            table: its name, as the engine says it.
            plan: what was planned.
            received: the filter as the engine sent it: anything of strings, numbers, lists and mappings.
            expression: what it became; by default the plan's bound filter.
            seconds: from the request to the plan, with translation and refresh; by default the plan's own time.
            more: further fields of the line.
        """
        spent = plan.seconds if seconds is None else seconds
        try:
            told = plan_record(table, plan, received=received, expression=expression, seconds=spent)
            self._write(_head("planned", service) | told | _shortened_fields(more))
            if self.metrics is not None:
                self.metrics.planned(service, plan, spent)
        except Exception as error:  # noqa: BLE001  # a log never fails a query
            self._complain(error)

    def query(self, service: str, *, outcome: str, reason: str, **more: Any) -> None:
        """Log a query that passed through.

        Args:
            service: that it passed.
            outcome: what became of it, such as `rewritten`, `unchanged`, `failed`.
            reason: why, of a small set of words, since each is counted for itself.
            more: further fields of the line, such as `sql`, `query_id`, `ms`.
        """
        try:
            self._write(_head("query", service) | {"outcome": outcome, "reason": reason} | _shortened_fields(more))
            if self.metrics is not None:
                self.metrics.query(service, outcome, reason)
        except Exception as error:  # noqa: BLE001  # a log never fails a query
            self._complain(error)

    def event(self, service: str, event: str, **more: Any) -> None:
        """Log something else that happened, such as a refused connection."""
        try:
            self._write(_head(event, service) | _shortened_fields(more))
        except Exception as error:  # noqa: BLE001  # a log never fails a query
            self._complain(error)

    def recent(self) -> list[dict[str, Any]]:
        """The newest records, newest first."""
        with self._lock:
            return list(reversed(self._recent))

    def reopen(self) -> None:
        """Open the file anew, after something else has renamed it. Without a file nothing happens."""
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
        """Close the file; later records are kept in memory only. Streams of others stay open."""
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
        # The first time only: a full disk would fill the error stream as well.
        self.lost += 1
        if self.lost == 1:
            print(f"hudi-catalog: the query log cannot be written: {error}", file=sys.stderr)  # noqa: T201


def open_log(target: str | None, metrics: QueryCounter | None) -> QueryLog:
    """The log as a flag names it.

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
    """What a line tells of a planned scan; the arguments are those of `QueryLog.planned`."""
    filtered = plan.expression if expression is None else expression
    return {
        "table": table,
        "instant": plan.snapshot.instant,
        "received": shortened(received),
        # repr shows the first values of a long list only
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
    """The value as JSON can hold it, with long texts cut and of long lists the first items.

    Args:
        value: strings, bytes, numbers, mappings, iterables; anything else becomes its text.
        depth: so many levels of nesting are kept.
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
        shown, unit = f"0x{bytes(value[: _TEXT // 2]).hex()}", "bytes"
        more = len(value) - _TEXT // 2
    else:
        text = str(value)
        shown, unit = text[:_TEXT], "characters"
        more = len(text) - _TEXT
    return shown if more <= 0 else f"{shown}… {more:,} more {unit}"


def _shortened_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    kept = {shortened(str(key)): shortened(item, depth - 1) for key, item in _first(value.items())}
    if len(value) > _ITEMS:
        kept["…"] = f"{len(value) - _ITEMS:,} more"
    return kept


def _shortened_list(value: Iterable[Any], depth: int) -> list[Any]:
    items = value if isinstance(value, list | tuple) else list(value)
    kept = [shortened(item, depth - 1) for item in items[:_ITEMS]]
    return [*kept, f"… {len(items) - _ITEMS:,} more"] if len(items) > _ITEMS else kept


def _first(items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for position, item in enumerate(items):
        if position == _ITEMS:
            return
        yield item


def _shortened_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shortened(value) for name, value in fields.items()}


def _bounded_line(record: dict[str, Any]) -> str:
    """One line of ASCII; fields that make it too long are replaced in place by the beginning of their text."""
    line = json.dumps(record, allow_nan=False)
    while len(line) > _LINE:
        texts = {name: json.dumps(value) for name, value in record.items()}
        longest = max(texts, key=lambda name: len(texts[name]))
        record[longest] = f"{texts[longest][: _TEXT // 2]}… cut from {len(texts[longest]):,} characters"
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
    # Appended lines of one write each stay whole beside those of another process.
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    return open(descriptor, "w", encoding="utf-8")
