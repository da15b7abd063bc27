"""The client's side of SASL, by pure-sasl, in the form in which Thrift's transports want it."""

from __future__ import annotations

import struct
from typing import Any, Final

from puresasl.client import SASLClient

_LENGTH: Final = struct.Struct(">I")
_UNSPECIFIED: Final = "Unspecified GSS failure"


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

    @property
    def complete(self) -> bool:
        """Whether all messages were exchanged; until then the server of a mechanism such as Kerberos proved nothing."""
        return bool(self._client.complete)

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
            self._problem = _told(error)
            return False, None


def _told(error: Exception) -> str:
    """What an error says; those of Kerberos hold pairs of a text and a number, the general one first."""
    texts = [str(pair[0]) for pair in error.args if isinstance(pair, tuple) and pair]
    special = [text for text in texts if not text.startswith(_UNSPECIFIED)]
    return ": ".join(special or texts) or str(error) or type(error).__name__
