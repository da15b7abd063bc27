"""The Thrift contract with Hive's storage handler, loaded once, and who may call."""

from __future__ import annotations

import functools
import hmac
import posixpath
import struct
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from catalog.services.secret import Secret
from catalog.services.thrift_messages import load_service
from table_format.errors import ServiceError

IDL: Final = "hudi_hive.thrift"
VERSION: Final = 1
_PURPOSE = "hive"
_SKEW_MS = 5 * 60_000
_SIGNED = ("location", "table", "queryId", "pin", "filter")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


@functools.cache
def hive_service() -> ModuleType:
    """The structs and methods."""
    return load_service(posixpath.join(posixpath.dirname(__file__), IDL))


def signature(secret: Secret, method: str, request: Any, time_ms: int) -> bytes:
    """What a handler that knows the secret sends with a request.

    Args:
        secret: that it shares with the service.
        method: that is called.
        request: a `ScanRequest`.
        time_ms: milliseconds since 1970-01-01 UTC.
    """
    parts = [_TIME.pack(time_ms)]
    for text in (method, *(getattr(request, name) for name in _SIGNED)):
        if text is None:
            parts.append(_LENGTH.pack(-1))
        else:
            content = text.encode()
            parts.append(_LENGTH.pack(len(content)) + content)
    return secret.for_purpose(_PURPOSE).sign(b"".join(parts))


class Admission:
    """Tells who may ask.

    Args:
        secret: that callers have to know; None lets everybody in.
        clock: seconds since 1970-01-01 UTC.
    """

    def __init__(self, secret: Secret | None, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock

    def check(self, method: str, request: Any, credential: Any) -> None:
        """Refuse a request that this service does not answer.

        Args:
            method: that is called.
            request: a `ScanRequest`.
            credential: a `Credential`; None for none.

        Raises:
            ServiceError: it is of a newer version, or the secret of the caller is missing, another one, or not
                signed just now.
        """
        if request is None:
            raise ServiceError(f"{method}: the call has no request")
        if not 1 <= request.version <= VERSION:
            raise ServiceError(
                f"the storage handler speaks version {request.version}, and this service {VERSION}; "
                "take the handler's jar that `hudi-catalog hive-jar` of the service's installation names"
            )
        if self._secret is not None:
            self._check_secret(self._secret, method, request, credential)

    def _check_secret(self, secret: Secret, method: str, request: Any, credential: Any) -> None:
        if credential is None:
            raise ServiceError(
                "the service asks for the shared secret; set hoodie.catalog.hive.secret.file in Hive's configuration"
            )
        now = int(self._clock() * 1000)
        if abs(now - credential.time) > _SKEW_MS:
            off = (credential.time - now) / 1000
            raise ServiceError(f"the request was signed {off:+.0f} s from the service's time; set the clocks")
        if not hmac.compare_digest(signature(secret, method, request, credential.time), credential.signature):
            raise ServiceError("the secret of Hive is not that of the service; see hoodie.catalog.hive.secret.file")
