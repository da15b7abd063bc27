"""A server with its status page beside it, started and stopped as one service."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from hudi_catalog.server.doors import Door
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status_server import StatusServer

_LOG = logging.getLogger(__name__)


class Server(Protocol):
    """What answers the clients."""

    async def start(self) -> int:
        """Listen; the port."""

    async def stop(self, drain_seconds: float = 0) -> None:
        """Close everything; requests in work get so many seconds."""


class ServiceBesideStatus:
    """All of a `hudi_catalog.server.hosting.Service` but whether it is busy.

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
        warnings: a line for each door that stands open beyond this machine, once it has started.
    """

    def __init__(self, server: Server, status: StatusServer, log: QueryLog, drain_seconds: float) -> None:
        self.port = self.http_port = 0
        self.log = log
        self.drain_seconds = drain_seconds
        self.warnings: tuple[str, ...] = ()
        self._server = server
        self._status = status

    @property
    def status_scheme(self) -> str:
        """`http` or `https`: how the status page is called."""
        return self._status.scheme

    def _doors(self) -> Sequence[Door]:
        """The service's own doors, once it has started; that of the status page is not among them."""
        return ()

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
        doors = [*self._doors(), _status_door(self._status, self.http_port)]
        self.warnings = tuple(warning for door in doors if (warning := door.warning()) is not None)
        for warning in self.warnings:
            _LOG.warning("%s", warning)
            self.log.event(self._status.service, "open door", message=warning)

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


def _status_door(status: StatusServer, port: int) -> Door:
    guard = status.guard
    return Door(
        "the status page",
        status.host,
        port,
        encrypted=guard.tls is not None,
        checked=guard.checks,
        anybody="sees queries with their filters",
        remedy="leave out --http-host, or give the service TLS and a secret or clients' certificates, which count here",
    )
