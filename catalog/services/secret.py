"""The secret that services share, and what is signed with it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping

from table_format.errors import OptionError

ENVIRONMENT = "HUDI_CATALOG_SECRET"
_LEAST = 16
SIGNATURE_BYTES = 32


class Secret:
    """Bytes that only the services of one installation know.

    Args:
        value: the secret.
        purpose: signatures for one purpose are not valid for another.
    """

    def __init__(self, value: bytes, purpose: str = "") -> None:
        self._value = value
        self._key = hmac.new(value, purpose.encode(), hashlib.sha256).digest() if purpose else value

    def __repr__(self) -> str:
        return "Secret(...)"

    def for_purpose(self, purpose: str) -> Secret:
        """The same secret, whose signatures are valid for that purpose alone."""
        return Secret(self._value, purpose)

    def equals(self, given: str | bytes) -> bool:
        """Whether a client named the secret, in a time that does not tell how much of it was right."""
        value = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
        return hmac.compare_digest(hashlib.sha256(value).digest(), hashlib.sha256(self._value).digest())

    def sign(self, payload: bytes) -> bytes:
        """The HMAC-SHA256 of some bytes: 32 bytes."""
        return hmac.digest(self._key, payload, "sha256")

    def verify(self, payload: bytes, signature: bytes) -> bool:
        """Whether a signature is that of the bytes."""
        return hmac.compare_digest(self.sign(payload), signature)

    @classmethod
    def random(cls) -> Secret:
        """A secret that no other process knows and that ends with this one."""
        return cls(secrets.token_bytes(SIGNATURE_BYTES))


def load_secret(path: str | None = None, environment: Mapping[str, str] | None = None) -> Secret | None:
    """The configured secret.

    Args:
        path: of a file whose text is the secret, white space around it left out; None to look at the environment.
        environment: variables of the process; `HUDI_CATALOG_SECRET` counts when there is no path.

    Returns:
        None when none is configured.

    Raises:
        OptionError: the file cannot be read, or the secret is shorter than 16 bytes.
    """
    if path is None:
        text = (os.environ if environment is None else environment).get(ENVIRONMENT)
        if text is None:
            return None
        return _checked(text.strip().encode(), ENVIRONMENT)
    try:
        with open(path, "rb") as stream:
            return _checked(stream.read().strip(), path)
    except OSError as error:
        raise OptionError(f"secret file {path}: {error.strerror}") from error


def _checked(value: bytes, where: str) -> Secret:
    if len(value) < _LEAST:
        raise OptionError(f"{where}: a secret of {len(value)} bytes; it must have at least {_LEAST}")
    return Secret(value)
