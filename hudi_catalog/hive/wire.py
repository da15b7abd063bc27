"""The Thrift contract with Hive's storage handler, loaded once, and who may call."""

from __future__ import annotations

import functools
import hmac
import posixpath
import struct
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from hudi_catalog.server.security import Secret
from hudi_catalog.server.thrift_calls import load_service
from hudi_catalog.server.thrift_structs import ReadStruct, Source, read_otherwise
from table_format.errors import ServiceError

IDL: Final = "hudi_hive.thrift"
VERSION: Final = 2
_SIGNED_VERSION: Final = 2
"""The first version whose signature covers the whole request."""
_PURPOSE = "hive 2"
_SKEW_MS = 5 * 60_000
_NONCE_BYTES = 16
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


@functools.cache
def hive_service() -> ModuleType:
    """The structs and methods; a `ScanRequest` that was read has its bytes in `encoded`."""
    service = load_service(posixpath.join(posixpath.dirname(__file__), IDL))
    read_otherwise(service.ScanRequest, _read_request)
    return service


def _read_request(_kind: Any, source: Source, at: int, read: ReadStruct) -> tuple[Any, int]:
    request, end = read(source, at)
    request.encoded = source.data[at:end]
    return request, end


def signature(secret: Secret, method: str, encoded: bytes, time_ms: int, nonce: bytes) -> bytes:
    """What a handler that knows the secret sends with a request.

    Args:
        secret: that it shares with the service.
        method: that is called.
        encoded: the struct of the request as it stands in the call.
        time_ms: milliseconds since 1970-01-01 UTC.
        nonce: 16 bytes, new for each call.
    """
    name = method.encode()
    parts = (_TIME.pack(time_ms), nonce, _LENGTH.pack(len(name)), name, encoded)
    return secret.for_purpose(_PURPOSE).sign(b"".join(parts))


class Nonces:
    """Those of the calls that were answered, kept for as long as their signatures are good. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0
        self._older: set[bytes] = set()
        self._newer: set[bytes] = set()

    def is_new(self, nonce: bytes, now_ms: int) -> bool:
        """Remember one; False for one that came before."""
        with self._lock:
            # a time may be as far ahead as it may be behind
            if now_ms - self._began >= 2 * _SKEW_MS:
                self._began, self._older, self._newer = now_ms, self._newer, set()
            if nonce in self._newer or nonce in self._older:
                return False
            self._newer.add(nonce)
            return True


class Admission:
    """Tells who may ask.

    Args:
        secret: that callers have to know; None lets everybody in.
        clock: seconds since 1970-01-01 UTC.
    """

    def __init__(self, secret: Secret | None, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._nonces = Nonces()

    def check(self, method: str, request: Any, credential: Any) -> None:
        """Refuse a request that this service does not answer.

        Args:
            method: that is called.
            request: a `ScanRequest` as `hive_service` reads it.
            credential: a `Credential`; None for none.

        Raises:
            ServiceError: it is of a newer version; or the caller's secret is missing or another one; or the request was
                not signed just now, was changed since, came before, or is of a version that signs only parts of it.
        """
        if request is None:
            raise ServiceError(f"{method}: the call has no request")
        if not 1 <= request.version <= VERSION:
            raise ServiceError(
                f"the storage handler speaks version {request.version}, and this service {VERSION}; "
                "take the handler's jar that `hudi-catalog hive-jar` of the service's installation names"
            )
        if self._secret is None:
            return
        if request.version < _SIGNED_VERSION:
            raise ServiceError(
                f"the storage handler speaks version {request.version}, whose signature leaves out parts of the "
                f"request, and the service asks for the shared secret; put the handler's jar of version {VERSION} into "
                "Hive, which `hudi-catalog hive-jar` of the service's installation names"
            )
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
        nonce = credential.nonce or b""
        expected = signature(secret, method, request.encoded, credential.time, nonce)
        if len(nonce) != _NONCE_BYTES or not hmac.compare_digest(expected, credential.signature):
            raise ServiceError(
                "the secret of Hive is not that of the service (see hoodie.catalog.hive.secret.file), or the request "
                "was changed on its way"
            )
        if not self._nonces.is_new(nonce, now):
            raise ServiceError("the same signed request came before: somebody sends copies of Hive's requests")
