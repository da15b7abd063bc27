"""A server with its status page beside it, started and stopped as one service."""

from __future__ import annotations

from typing import Protocol

from catalog.services.query_log import QueryLog
from catalog.services.status_server import StatusServer


class Server(Protocol):
    """What answers the clients."""

    async def start(self) -> int:
        """Listen; the port."""

    async def stop(self, drain_seconds: float = 0) -> None:
        """Close everything; requests in work get so many seconds."""


class ServiceBesideStatus:
    """All of a `catalog.services.hosting.Service` but whether it is busy.

    Args:
        server: answers the clients.
        status: tells of it.
        log: is closed at the end.
        drain_seconds: how long running queries are waited for at the end.

    Attributes:
        port: of the server, once it has started.
        http_port: of the status page, once it has started.
        log: what was given.
        drain_seconds: what was given.
    """

    def __init__(self, server: Server, status: StatusServer, log: QueryLog, drain_seconds: float) -> None:
        self.port = self.http_port = 0
        self.log = log
        self.drain_seconds = drain_seconds
        self._server = server
        self._status = status

    async def start(self) -> None:
        """Listen.

        Raises:
            ServiceError: an address is taken, or not one of this machine.
        """
        self.port = await self._server.start()
        try:
            self.http_port = await self._status.start()
        except BaseException:
            await self._server.stop()
            raise

    def set_ready(self, ready: bool, /) -> None:
        """Say whether queries are to be sent here."""
        self._status.ready = ready

    async def stop(self, drain_seconds: float, /) -> None:
        """Close everything; requests in work get so many seconds."""
        self._status.ready = False
        await self._server.stop(drain_seconds)
        await self._status.stop()
        self.log.close()

    def reopen_log(self) -> None:
        """Open the log file anew."""
        self.log.reopen()
