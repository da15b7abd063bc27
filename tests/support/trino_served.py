"""What Trino should receive of a table, computed value by value, and what it receives, page by page."""

import base64
import datetime as dt
import decimal
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from catalog import Table
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.trino.rows import RowServer
from hudi_catalog.trino.split_id import TrinoSplit
from hudi_catalog.trino.types import Form, ServedColumn
from tests.support.trino_wire import block_values, decoded

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)


class Pinned:
    """One snapshot, under any name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def at(self, name: str, when: str) -> Snapshot:
        return self.snapshot


def splits_of(
    table: Table,
    snapshot: Snapshot,
    rows: Sequence[int] | None = None,
    row_groups: tuple[int, ...] | None = None,
    **more: Any,
) -> Iterator[TrinoSplit]:
    """A split for each file slice, or for some of them."""
    for row in snapshot.live_rows.tolist() if rows is None else rows:
        piece = replace(snapshot.file_slice(row), row_groups=row_groups)
        yield TrinoSplit(table.name, snapshot.instant or "", (piece,), **more)


def pages(
    server: RowServer, split: TrinoSplit, columns: Sequence[str], max_bytes: int = 1 << 20
) -> Iterator[tuple[int, list[list[Any]]]]:
    """Row count and column values of each page."""
    position: int | None = 0
    while position is not None:
        answer = server.page(split, columns, max_bytes, position, lambda after: after.to_bytes(8, "big"))
        parts = answer.parts
        page = decoded(parts, "TrinoThriftPageResult")
        assert (page.rowCount, page.nextToken is None) == (answer.rows, answer.is_last)
        assert page.rowCount <= 1 or sum(map(len, parts)) <= max_bytes
        values = [block_values(block) for block in page.columnBlocks]
        assert all(len(column) == page.rowCount for column in values)
        yield page.rowCount, values
        position = int.from_bytes(page.nextToken.id, "big") if page.nextToken else None


def rows_of(server: RowServer, split: TrinoSplit, columns: Sequence[str], max_bytes: int = 1 << 20) -> list[Any]:
    """The rows of a split, as tuples."""
    result: list[Any] = []
    for count, values in pages(server, split, columns, max_bytes):
        result += zip(*values, strict=True) if columns else [()] * count
    return result


def expected_value(value: Any, column: ServedColumn) -> Any:
    """A value of the table, as thriftpy2 decodes what is served for it."""
    if value is None:
        return None
    form, kind = column.form, column.kind
    if form in {Form.MILLIS, Form.MILLIS_CUT, Form.MICROS, Form.TIME_TEXT}:
        micros = (value.replace(tzinfo=dt.UTC) - EPOCH) // MICROSECOND
        if form is Form.MICROS:
            return micros
        if form is Form.TIME_TEXT:
            return (
                f"{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}{' UTC' if value.tzinfo else ''}".encode()
            )
        return micros // 1000
    if form is Form.DECIMAL_TEXT:
        return format(value, "f").encode()
    if form is Form.DECIMAL_DOUBLE:
        return float(value)
    if form is Form.DECIMAL_UNSCALED:
        return int(value.scaleb(kind.scale))  # type: ignore[attr-defined]
    if form is Form.CLOCK_TEXT:
        return value.isoformat("microseconds").encode()
    if form is Form.HEX:
        return value.hex().upper().encode()
    if form is Form.BASE64:
        return base64.b64encode(value)
    if form is Form.JSON:
        return json.dumps(plain_json(value, kind), separators=(",", ":"), ensure_ascii=False).encode()
    if isinstance(value, dt.date):
        return value.toordinal() - dt.date(1970, 1, 1).toordinal()
    return value.encode() if isinstance(value, str) else value


def plain_json(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {name: plain_json(value[name], kind.field(name).type) for name in sorted(value)}
    if pa.types.is_map(kind):
        pairs = sorted([[plain_json(k, kind.key_type), plain_json(v, kind.item_type)] for k, v in value])
        return dict(pairs) if kind.key_type == pa.string() else pairs
    if pa.types.is_list(kind):
        return [plain_json(one, kind.value_type) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat("T", "microseconds")
        return text + "Z" if value.tzinfo else text
    return value.isoformat() if isinstance(value, dt.date) else value


def expected_rows(table: pa.Table, columns: Sequence[ServedColumn]) -> list[Any]:
    """The rows of a table, as tuples of what is served."""
    values = [[expected_value(one, column) for one in table.column(column.source).to_pylist()] for column in columns]
    return list(zip(*values, strict=True)) if columns else [()] * table.num_rows
