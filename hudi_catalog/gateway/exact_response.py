"""An answer whose header lines are not UTF-8, sent to the client byte for byte.

Trino writes header lines as Latin-1, such as the schema that USE has chosen. aiohttp writes UTF-8 and leaves out what
is none, which would make another schema of it. Such an answer is written to the connection directly, which then ends.
"""

from __future__ import annotations

import asyncio

from aiohttp import web
from multidict import CIMultiDict

from hudi_catalog.gateway.answer import Answer

_MOST_WAITING = 1_048_576
_POLL_SECONDS = 0.01


class ExactResponse:
    """Written like aiohttp's `StreamResponse`.

    Args:
        answer: of Trino.
        headers: lines for the client; bytes that are no UTF-8 stand as lone surrogates.

    Attributes:
        headers: as given.
        prepared: whether the head has been sent.
    """

    def __init__(self, answer: Answer, headers: CIMultiDict[str]) -> None:
        self.headers = headers
        self.prepared = False
        self._status = f"HTTP/1.1 {answer.status} {answer.reason or ''}"
        self._transport: asyncio.WriteTransport | None = None

    async def prepare(self, request: web.Request) -> None:
        """Send the head; without a length of the body, its end is that of the connection."""
        transport = request.transport
        if not isinstance(transport, asyncio.WriteTransport):
            raise ConnectionResetError("the client is gone")
        self._transport = transport
        self.prepared = True
        lines = [self._status, *(f"{name}: {value}" for name, value in self.headers.items()), "Connection: close"]
        await self.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))

    async def write(self, data: bytes) -> None:
        """Send bytes of the body, once the client has taken most of those before.

        Raises:
            ConnectionResetError: the client is gone.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(data)
        while transport.get_write_buffer_size() > _MOST_WAITING and not transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    async def write_eof(self) -> None:
        """Send what is left, then end the connection."""
        if self._transport is not None:
            self._transport.close()
