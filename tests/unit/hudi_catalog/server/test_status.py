"""Health, readiness, metrics and the page, over real HTTP."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog.planner import Plan
from hudi_catalog.server import status
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status import StatusServer, status_page
from table_format.errors import ServiceError
from tests.unit.conftest import GoldenTable

Answer = tuple[int, str]


@pytest.fixture(scope="module")
def plan(golden: Callable[[str], GoldenTable]) -> Plan:
    return golden("v6_0150__bkt_hive").open().scan("part = 'eu' AND coalesce(l, 1) > 3").plan()


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    values = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            labels = [value for name, value in sorted(sample.labels.items()) if name != "le"]
            values[sample.name.removeprefix("hudi_catalog_"), *labels] = sample.value
    return values


def with_server(server: StatusServer, use: Callable[[Callable[[str], Awaitable[Answer]]], Awaitable[None]]) -> None:
    async def run() -> None:
        port = await server.start()
        async with aiohttp.ClientSession() as client:

            async def get(path: str) -> Answer:
                async with client.get(f"http://127.0.0.1:{port}{path}") as response:
                    return response.status, await response.text()

            try:
                await use(get)
            finally:
                await server.stop()

    asyncio.run(run())


def test_planned_scans_are_counted_by_stage(plan: Plan) -> None:
    metrics = Metrics()
    log = QueryLog(None, metrics)
    log.planned("trino", "t", plan, seconds=0.02)
    log.planned("trino", "t", plan, seconds=0.03)
    values = samples(metrics)
    assert values["planned_scans_total", "trino"] == 2
    assert values["planning_seconds_sum", "trino"] == pytest.approx(0.05)
    assert values["scan_files_total", "trino", "in"] == 2 * plan.files_total
    assert values["scan_files_total", "trino", "out"] == 2 * len(plan)
    assert values["scan_bytes_total", "trino", "out"] == 2 * plan.bytes_kept
    assert values["stage_files_total", "trino", "partition", "in"] == 2 * plan.files_total
    assert values["stage_files_total", "trino", "partition", "out"] == 2 * plan.stages[0].files_out
    assert values["unknown_filters_total", "trino"] == 2


def test_requests_rows_and_queries_are_counted() -> None:
    metrics = Metrics()
    metrics.request("trino", "getSplits", 0.5)
    metrics.request("trino", "getSplits", 0.5, "refused")
    metrics.served("trino", 10, 1_000)
    metrics.connection("trino", "oversized")
    metrics.query("gateway", "rewritten", "pruned")
    metrics.watch("trino", "scans", lambda: 3)
    metrics.watch("trino", "tables", lambda: 1 / 0)
    metrics.watch_total("trino", "bytes in", lambda: 17)
    values = samples(metrics)
    assert values["requests_total", "getSplits", "ok", "trino"] == 1
    assert values["requests_total", "getSplits", "refused", "trino"] == 1
    assert values["request_seconds_count", "getSplits", "trino"] == 2
    assert values["served_rows_total", "trino"] == 10
    assert values["served_bytes_total", "trino"] == 1_000
    assert values["connections_total", "oversized", "trino"] == 1
    assert values["queries_total", "rewritten", "pruned", "gateway"] == 1
    assert values["open", "trino", "scans"] == 3
    assert values["network_total", "trino", "bytes in"] == 17
    assert values["open", "trino", "tables"] != values["open", "trino", "tables"]  # NaN: the others still come


def test_names_from_outside_do_not_grow_the_metrics() -> None:
    metrics = Metrics()
    for i in range(10_000):
        metrics.request("trino", f"garbage{i}", 0)
        metrics.query("gateway", "unchanged", f"why {i}")
    values = samples(metrics)
    assert len([key for key in values if key[0] == "requests_total"]) == 65
    assert values["requests_total", "other", "ok", "trino"] == 10_000 - 64
    assert len([key for key in values if key[0] == "queries_total"]) == 65


def test_ready_only_while_queries_are_taken() -> None:
    server = StatusServer("trino", Metrics(), QueryLog())

    async def use(get: Callable[[str], Awaitable[Answer]]) -> None:
        assert (await get("/health"))[0] == 200
        assert (await get("/ready"))[0] == 503
        server.ready = True
        assert (await get("/ready"))[0] == 200
        server.ready = False
        assert (await get("/ready"))[0] == 503
        assert (await get("/health"))[0] == 200
        assert (await get("/secrets"))[0] == 404

    with_server(server, use)


def test_a_failing_check_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_CHECK_AGE", 0)
    broken = True

    def check() -> None:
        if broken:
            raise OSError("s3://lake: not reachable")

    server = StatusServer("trino", Metrics(), QueryLog(), checks={"warehouse": check, "fine": lambda: None})

    async def use(get: Callable[[str], Awaitable[Answer]]) -> None:
        nonlocal broken
        server.ready = True
        status, text = await get("/ready")
        assert status == 503
        assert "s3://lake: not reachable" in text
        assert '"fine": "ok"' in text
        broken = False
        assert (await get("/ready"))[0] == 200

    with_server(server, use)


def test_probes_share_an_answer_and_hanging_checks_hold_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_CHECK_SECONDS", 0.2)
    calls = []
    hang = threading.Event()

    def slow() -> None:
        calls.append(1)
        hang.wait(10)

    server = StatusServer("trino", Metrics(), QueryLog(), checks={"slow": slow})

    async def use(get: Callable[[str], Awaitable[Answer]]) -> None:
        server.ready = True
        answers = await asyncio.gather(*(get("/ready") for _ in range(20)))
        assert {status for status, _ in answers} == {503}
        assert "no answer within" in answers[0][1]
        monkeypatch.setattr(status, "_CHECK_AGE", 0)
        assert (await get("/ready"))[0] == 503
        assert len(calls) == 1
        hang.set()
        assert (await get("/ready"))[0] == 200

    with_server(server, use)


def test_metrics_and_page_over_http(plan: Plan) -> None:
    metrics = Metrics()
    log = QueryLog(None, metrics)
    log.planned("trino", "shop.orders", plan)
    server = StatusServer("trino", metrics, log, facts={"warehouse": "s3://lake"})

    async def use(get: Callable[[str], Awaitable[Answer]]) -> None:
        status, text = await get("/metrics")
        assert status == 200
        assert 'hudi_catalog_planned_scans_total{service="trino"} 1.0' in text
        status, text = await get("/")
        assert status == 200
        assert "shop.orders" in text
        assert "s3://lake" in text

    with_server(server, use)


def test_a_taken_port_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"127.0.0.1:{port}: .*--http-port"):
            asyncio.run(StatusServer("trino", Metrics(), QueryLog(), port=port).start())


def test_stopping_does_not_wait_for_idle_clients() -> None:
    async def run() -> None:
        server = StatusServer("trino", Metrics(), QueryLog())
        port = await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HT")
        await writer.drain()
        async with asyncio.timeout(20):  # less than the client may be idle
            await server.stop()
            await server.stop()
        writer.close()

    asyncio.run(run())


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_shows_hostile_text_as_text(plan: Plan) -> None:
    log = QueryLog()
    evil = "<script>alert(1)</script>"
    log.planned("trino", evil, plan)
    log.query("gateway", outcome=evil, reason=evil, sql=evil)
    log.event("trino", "refused", error=evil)
    log.planned("trino", "t", plan, expression=None, stages="cut", files_in="odd")
    page = status_page("trino", {"warehouse": evil}, log.recent(), ready=True)
    parser = Texts()
    parser.feed(page)
    assert "script" not in parser.tags
    assert parser.tags.count("details") == 4
    assert sum(evil in text for text in parser.texts) >= 5
