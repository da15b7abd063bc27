"""The query log: one JSON line for each planned scan and each query that went through a gateway.

A line has the filter as the engine sent it, its translation, and the files dropped by each planning stage, which
answers "why did that query read everything". Lines are bounded in length, and a log that cannot be written never fails
a query, nor holds one up.
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
from collections.abc import Callable, Iterable, Mapping
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
# Characters that wait to be written.
_ROOM = 8_000_000
_PATIENCE_SECONDS = 0.25
_CLOSE_SECONDS = 2.0
_IDLE_SECONDS = 1.0


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
        lost: number of lines that could not be written, or for which there was no room while nobody read them.

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
        self._lines = _Lines(_opened(target), self._complain)

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
            fresh = _Descriptor.of(self._path)
        except OSError as error:
            self._complain(error)
            return
        if not self._lines.add(fresh):
            fresh.close()

    def close(self) -> None:
        """Close the file; later records are kept in memory only. A stream passed in stays open."""
        self._lines.close()

    def _write(self, record: dict[str, Any]) -> None:
        line = _bounded_line(record)
        with self._lock:
            self._recent.append(record)
        self._lines.add(line)

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


class _Stream(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...


class _Descriptor:
    """A file or pipe without a buffer, whose lock a blocked thread would hold when the process ends."""

    def __init__(self, number: int) -> None:
        self._file = open(number, "wb", buffering=0)  # noqa: SIM115  # closed by `close`

    @classmethod
    def of(cls, path: str) -> _Descriptor:
        # O_APPEND and one write per line keep lines of several processes apart.
        return cls(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640))

    def write(self, text: str) -> None:
        left = text.encode()
        while left:
            left = left[self._file.write(left) :]

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._file.close()


def _opened(target: str | IO[str] | None) -> _Stream | None:
    if not isinstance(target, str):
        return target
    if target == _STREAM:
        try:
            return _Descriptor(os.dup(sys.stdout.fileno()))
        except (AttributeError, OSError, ValueError):  # it is no file here, or there is none
            return sys.stdout
    return _Descriptor.of(target)


class _Lines:
    """Writes lines in a thread of its own. Who adds one waits for it, but only a moment if the writing is stuck.

    Args:
        stream: to write to; None to write nothing.
        complain: receives errors.
    """

    def __init__(self, stream: _Stream | None, complain: Callable[[Exception], None]) -> None:
        self._stream = stream
        self._complain = complain
        self._changed = threading.Condition()
        # Lines, and streams that take the place of the one before.
        self._waiting: deque[str | _Stream] = deque()
        self._room = _ROOM
        self._added = self._written = 0
        self._open = stream is not None
        self._running = self._behind = False

    def add(self, item: str | _Stream) -> bool:
        """Write a line, or begin to write to another stream; returns whether that is being done."""
        size = len(item) if isinstance(item, str) else 0
        with self._changed:
            if not self._open:
                return False
            full = size > self._room
            if not full:
                self._room -= size
                self._put(item)
                if not self._behind:
                    self._wait(_PATIENCE_SECONDS)
        if full:
            self._complain(OSError("nobody reads it"))
        return not full

    def close(self) -> None:
        """Close what this class has opened, once all is written; after a moment it is given up."""
        with self._changed:
            if self._open:
                self._open = False
                self._put(_Nowhere())
                self._wait(_CLOSE_SECONDS)

    def _put(self, item: str | _Stream) -> None:
        if not self._running:
            threading.Thread(target=self._run, name="query log", daemon=True).start()
            self._running = True
        self._waiting.append(item)
        self._added += 1
        self._changed.notify_all()

    def _wait(self, seconds: float) -> None:
        added = self._added
        self._behind = not self._changed.wait_for(lambda: self._written >= added, seconds)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            try:
                if isinstance(item, str):
                    self._write(item)
                elif isinstance(self._stream, _Descriptor):
                    self._stream.close()
            except Exception as error:  # noqa: BLE001  # this thread writes the next lines, too
                self._complain(error)
            with self._changed:
                if isinstance(item, str):
                    self._room += len(item)
                else:
                    self._stream = item
                self._written += 1
                self._behind = self._behind and bool(self._waiting)
                self._changed.notify_all()

    def _next(self) -> str | _Stream | None:
        """The oldest item; None if there is none for a while, and the thread is to end."""
        with self._changed:
            if self._changed.wait_for(lambda: bool(self._waiting), _IDLE_SECONDS):
                return self._waiting.popleft()
            self._running = False
            return None

    def _write(self, line: str) -> None:
        if self._stream is not None:
            self._stream.write(line)
            self._stream.flush()


class _Nowhere:
    """Takes lines and keeps none."""

    def write(self, text: str, /) -> None:
        pass

    def flush(self) -> None:
        pass
