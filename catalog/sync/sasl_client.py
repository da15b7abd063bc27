"""The client's side of SASL, by pure-sasl, in the form in which Thrift's transports want it."""

from __future__ import annotations

import struct
from typing import Any, Final

from puresasl.client import SASLClient

_LENGTH: Final = struct.Struct(">I")


class SaslClient:
    """One negotiation, and what protects the messages after it.

    Args:
        host: of the server's principal.
        service: of the server's principal; None where there is none.
        properties: of the mechanism: `username` and `password`.
    """

    def __init__(self, host: str, service: str | None = None, **properties: str) -> None:
        self._client = SASLClient(host, service, **properties)
        self._problem = ""

    def start(self, mechanism: str) -> tuple[bool, bytes, bytes | None]:
        """Choose the mechanism; gives the first message."""
        done, first = self._attempt(lambda: self._first(mechanism))
        return done, mechanism.encode(), first

    def step(self, challenge: bytes) -> tuple[bool, bytes | None]:
        """Answer a message of the server."""
        return self._attempt(lambda: self._client.process(challenge))

    def encode(self, message: bytes) -> tuple[bool, bytes | None]:
        """A message as it is sent: as it is, or protected and with its length before it."""

        def wrap() -> bytes:
            wrapped: bytes = self._client.wrap(message)
            return message if wrapped == message else _LENGTH.pack(len(wrapped)) + wrapped

        return self._attempt(wrap)

    def decode(self, message: bytes) -> tuple[bool, bytes | None]:
        """A protected message of the server, which comes with its length before it."""
        return self._attempt(lambda: self._client.unwrap(message[_LENGTH.size :]))

    def getError(self) -> str:  # noqa: N802  # Thrift's transports call it so
        """Why the last call failed."""
        return self._problem

    def _first(self, mechanism: str) -> Any:
        self._client.choose_mechanism([mechanism], allow_anonymous=False)
        return self._client.process()

    def _attempt(self, call: Any) -> tuple[bool, Any]:
        try:
            return True, call()
        except Exception as error:  # noqa: BLE001  # pure-sasl and Kerberos raise what they like
            self._problem = str(error) or type(error).__name__
            return False, None
