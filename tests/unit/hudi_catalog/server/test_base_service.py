"""A server and its status page start and stop together."""

import asyncio

import pytest

from hudi_catalog.server.hosting import BaseService
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status import StatusServer
from table_format.errors import ServiceError


class Recorder:
    def __init__(self) -> None:
        self.calls: list[str] = []

    async def start(self) -> int:
        self.calls.append("start")
        return 4711

    async def stop(self, drain_seconds: float = 0) -> None:
        self.calls.append(f"stop {drain_seconds}")


def beside(server: Recorder, port: int = 0) -> BaseService:
    log = QueryLog()
    return BaseService(server, StatusServer("trino", Metrics(), log, port=port), log, 9)


def test_ports_are_known_after_the_start() -> None:
    server = Recorder()
    service = beside(server)

    async def run() -> None:
        await service.start()
        assert service.port == 4711
        assert service.http_port > 0
        await service.stop(2.5)

    asyncio.run(run())
    assert server.calls == ["start", "stop 2.5"]


def test_without_its_status_page_a_server_does_not_stay() -> None:
    server = Recorder()
    first = beside(Recorder())

    async def run() -> None:
        await first.start()
        with pytest.raises(ServiceError, match="--http-port"):
            await beside(server, first.http_port).start()
        await first.stop(0)

    asyncio.run(run())
    assert server.calls == ["start", "stop 0"]
