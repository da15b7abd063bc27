"""Splits and pages as the connectors ask for them, decoded by thriftpy2's own reader."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.slices.file_slice import FileSlice
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino.serve import TrinoService
from hudi_catalog.trino.split_id import SplitCodec, TrinoSplit
from hudi_catalog.trino.wire import presto_service, trino_service
from table_format.errors import StorageError
from tests.support.trino_calls import T, between, block, call, decoded_reply, domain, points, ranges
from tests.support.trino_client import NAMES, ROWS, SECRET, FailedError, nullable, rows, served


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [500, 4_000, 1 << 20])
def test_rows_by_pages(warehouse: Path, name: str, most: int) -> None:
    service = served(warehouse)
    batch = service.splits(name=name)
    assert (batch.nextToken, all(split.hosts == [] for split in batch.splits)) == (None, True)
    values = service.rows(batch, ["k", "price", "grou00dfe"], most)
    assert values == [(key, key + 0.25, key / 4) for key in range(ROWS)]


def test_splits_by_batches(warehouse: Path) -> None:
    service = served(warehouse)
    first = service.splits(most=5)
    assert len(first.splits) == 5
    rest = served(warehouse).splits(token=first.nextToken.id)  # another instance with the same secret
    values = served(warehouse).rows(first, ["k"]) + service.rows(rest, ["k"])
    assert sorted(values) == [(key,) for key in range(ROWS)]


def test_the_constraint_is_applied_to_rows(warehouse: Path) -> None:
    service = served(warehouse)
    batch = service.splits(domain(k=points("bigint", 7, 599), day=points("varchar", "2026-01-02", "2026-01-03")))
    assert service.rows(batch, ["day", "k"]) == [(b"2026-01-02", 7), (b"2026-01-03", 599)]


def test_only_counting(warehouse: Path) -> None:
    service = served(warehouse)
    batch = service.splits(columns=[])
    pages = [service.page(split.splitId.id, []) for split in batch.splits]
    assert sum(page.rowCount for page in pages) == ROWS
    assert all(page.columnBlocks == [] and page.nextToken is None for page in pages)


def test_forged_and_foreign_ids(warehouse: Path) -> None:
    service = served(warehouse)
    split = service.splits().splits[0].splitId.id
    foreign = served(warehouse, None).splits().splits[0].splitId.id
    for forged in (b"", b"x" * 100, split[:-1], split[:50] + b"\0" + split[51:], foreign):
        with pytest.raises(FailedError, match="split id") as caught:
            service.page(forged, ["k"])
        assert not caught.value.struct.retryable


def test_page_tokens_belong_to_a_split_and_its_columns(warehouse: Path) -> None:
    service = served(warehouse)
    one, other = (split.splitId.id for split in service.splits().splits[:2])
    token = service.page(one, ["k", "day"], 300).nextToken.id
    assert service.page(one, ["k", "day"], 300, token).rowCount > 0
    for split, columns in ((other, ["k", "day"]), (one, ["day", "k"]), (one, ["kday"]), (one, [])):
        with pytest.raises(FailedError, match="another split"):
            service.page(split, columns, 300, token)
    for forged in (b"", token[:-1], one):
        with pytest.raises(FailedError, match="token"):
            service.page(one, ["k", "day"], 300, forged)


@pytest.mark.parametrize("path", ["../../secret.parquet", "/etc/passwd", "2026-01-01/../../../secret.parquet"])
def test_no_file_outside_the_table_is_opened(warehouse: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for an id that is signed."""
    service = served(warehouse)
    good = SplitCodec(SECRET).unpack(service.splits().splits[0].splitId.id)
    pa.parquet.write_table(rows(range(5)), warehouse / "secret.parquet")
    bad = TrinoSplit(good.table, good.pin, (FileSlice("", "f", path, "1"),))
    opened = []
    monkeypatch.setattr(os, "open", lambda *arguments, **more: opened.append(arguments) or 1 / 0)
    with pytest.raises(FailedError, match="not inside the table"):
        service.page(SplitCodec(SECRET).pack(bad), ["k"])
    assert opened == []


def test_unknown_columns(warehouse: Path) -> None:
    service = served(warehouse)
    with pytest.raises(FailedError, match="no column gone"):
        service.page(service.splits().splits[0].splitId.id, ["gone"])


def test_storage_that_fails_may_be_asked_again(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = served(warehouse)

    def fail(*_: Any) -> Any:
        raise StorageError("the storage is away")

    monkeypatch.setattr(WarehouseTables, "newest", fail)
    with pytest.raises(FailedError, match="the storage is away") as caught:
        service.splits()
    assert caught.value.struct.retryable


@pytest.mark.parametrize("name", NAMES)
def test_what_nobody_thought_of_is_logged_and_not_told(
    warehouse: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = served(warehouse)
    monkeypatch.setattr(WarehouseTables, "newest", lambda *_: 1 / 0)
    with caplog.at_level(logging.ERROR), pytest.raises(FailedError) as caught:
        service.splits(name=name)
    assert caught.value.struct.message == "the service failed; its log says why"
    assert not caught.value.struct.retryable
    assert "ZeroDivisionError" in caplog.text


def test_frames_that_are_no_calls(warehouse: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = served(warehouse).service
    assert service.dispatch(b"GET / HTTP/1.1\r\n\r\n") is None
    assert service.dispatch(b"") is None
    assert len(caplog.records) == 2
    assert service.dispatch(b"\x0f\xff\x00\x00\x00\x00\x00\x01") is None
    assert "transport to FRAMED" in caplog.records[-1].getMessage()
    good = call(trino_service(), "trinoListSchemaNames", 7)
    _, _, failure = decoded_reply(trino_service(), b"".join(service.dispatch(good.replace(b"Schema", b"Schemo"))))
    assert "no method trinoListSchemoNames" in failure.message
    _, _, failure = decoded_reply(trino_service(), b"".join(service.dispatch(good[:-1])))
    assert "trinoListSchemaNames" in failure.message
    assert service.refuse(good[:40], "too large") is not None
    assert service.refuse(b"GET", "too large") is None


def test_requests_are_counted(warehouse: Path) -> None:
    metrics = Metrics()
    service = served(warehouse, metrics=metrics)
    service.rows(service.splits(name="presto"), ["k"], 300)
    with pytest.raises(FailedError):
        service.page(b"x", ["k"])
    counts = metrics.text().decode()
    assert 'requests_total{method="GetSplits",outcome="ok",service="trino"} 1.0' in counts
    assert f'served_rows_total{{service="trino"}} {ROWS}.0' in counts
    assert 'requests_total{method="GetRows",outcome="refused",service="trino"} 1.0' in counts


def test_a_service_is_busy_until_splits_are_read(warehouse: Path) -> None:
    service = served(warehouse)
    assert not service.service.busy()
    batch = service.splits()
    assert service.service.busy()
    service.rows(batch, ["k"], 300)
    assert not service.service.busy()
    assert service.service.open_scans == 0


@pytest.fixture(scope="module")
def frames(warehouse: Path) -> tuple[TrinoService, list[bytes]]:
    service = served(warehouse).service
    name = T.TrinoThriftSchemaTableName("db", "trips_1")
    limit = domain(
        k=points("bigint", 7, 599, null=True),
        day=ranges(between("varchar", "2026-01-02", None, open_ends=True)),
        price=T.TrinoThriftDomain(
            T.TrinoThriftValueSet(
                equatableValueSet=T.TrinoThriftEquatableValueSet(False, [block("varchar", ["7.25"])])
            ),
            False,
        ),
    )
    columns = T.TrinoThriftNullableColumnSet(["k"])
    page = T.TrinoThriftPageResult([block("bigint", [3, 7, None]), block("varchar", ["2026-01-01", None, ""])], 3, None)
    made = [
        ("GetTableMetadata", name),
        ("ListTables", T.TrinoThriftNullableSchemaName("db")),
        ("GetSplits", name, columns, limit, 10, nullable(None)),
        ("GetIndexSplits", name, ["k", "day"], ["k"], page, limit, 10, nullable(None)),
    ]
    calls = [call(trino_service(), f"trino{one[0]}", 5, *one[1:]) for one in made]
    batch = decoded_reply(trino_service(), b"".join(service.dispatch(calls[2]) or ()))[2].success
    rows_asked = (batch.splits[0].splitId, ["k", "day"], 1000, nullable(None))
    return service, [*calls, call(trino_service(), "trinoGetRows", 5, *rows_asked)]


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damaged_frames_are_answered(frames: tuple[TrinoService, list[bytes]], data: st.DataObject) -> None:
    """Whatever a byte becomes: an answer, a refusal, or the end of the connection; never a fault of the service."""
    service, whole = frames
    frame = bytearray(data.draw(st.sampled_from(whole)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(4, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        frame = frame[: data.draw(st.integers(0, len(frame)))]
    reply = b"".join(service.dispatch(bytes(frame)) or ())
    assert b"the service failed" not in reply
    if reply:
        decoded_reply(presto_service() if b"presto" in reply[:20] else trino_service(), reply)
