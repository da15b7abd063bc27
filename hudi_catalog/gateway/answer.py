"""An answer of Trino, whoever reads it from the wire."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hudi_catalog.gateway.headers import RawHeaders
from hudi_catalog.gateway.proxy_settings import ANSWER_TIMEOUT, CONNECT_TIMEOUT
from table_format.errors import ServiceError


class UpstreamError(ServiceError):
    """Trino did not answer.

    Attributes:
        status: for the client: 502 when Trino cannot be reached or broke off, 504 when it is too slow.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def too_slow(where: str) -> UpstreamError:
    """The error for a Trino that cannot be connected to, or does not answer, in the time that the options give it."""
    return UpstreamError(504, f"Trino at {where} did not answer in time (see {CONNECT_TIMEOUT} and {ANSWER_TIMEOUT})")


class Answer(ABC):
    """The head of an answer, and its body as it comes.

    Attributes:
        status: such as 200.
        reason: the words behind it, None for none.
        raw_headers: names and values as they arrived.
    """

    def __init__(self, status: int, reason: str | None, raw_headers: RawHeaders) -> None:
        self.status = status
        self.reason = reason
        self.raw_headers = raw_headers

    def header(self, name: str) -> str:
        """A header's first value in lower case, empty when it is absent."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1").lower() for key, value in self.raw_headers if key.lower() == wanted), "")

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of the body, none at its end.

        Raises:
            UpstreamError: it broke off.
        """

    async def read_whole(self) -> bytes:
        """The rest of a short body.

        Raises:
            UpstreamError: it broke off.
        """
        body = bytearray()
        while chunk := await self.read():
            body += chunk
        return bytes(body)
