"""Admission of requests from our own code in engines: versions of their contract, and signatures by the shared secret.

Hive's storage handler and Trino's connector speak one contract, `hudi_catalog.thrift`, which says what is signed. They
send a struct with a version and, where the service asks for its secret, a credential with it.
"""

from __future__ import annotations

import functools
import hmac
import posixpath
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from hudi_catalog.server.security import Secret
from hudi_catalog.server.thrift_calls import load_service
from hudi_catalog.server.thrift_structs import ReadStruct, Source, register_reader
from table_format.errors import ServiceError

IDL: Final = "hudi_catalog.thrift"
#: The newest version of the contract.
VERSION: Final = 3
#: What the shared secret signs for.
PURPOSE: Final = f"hudi-catalog {VERSION}"

_SKEW_MS = 5 * 60_000
_NONCE_BYTES = 16
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, kw_only=True)
class Callers:
    """Those who call from one engine.

    Attributes:
        earlier: what the secret signed for in earlier versions; those left out did not sign the whole request.
        name: of the callers, for messages, as in the next ones.
        possessive: the engine's name with an apostrophe.
        update: how to bring them to the newest version.
        setting: names their secret.
    """

    earlier: Mapping[int, str]
    name: str
    possessive: str
    update: str
    setting: str

    @property
    def purposes(self) -> Mapping[int, str]:
        """What the secret signs for, by version."""
        return {VERSION: PURPOSE, **self.earlier}

    def signature(
        self, secret: Secret, version: int, method: str, encoded: bytes, *, time_ms: int, nonce: bytes
    ) -> bytes:
        """The signature that a caller with the shared secret sends with a request.

        Args:
            secret: shared with the service.
            version: of the contract, as the request says it; one of `purposes`.
            method: the method called.
            encoded: the request's struct as encoded in the call.
            time_ms: milliseconds since 1970-01-01 UTC.
            nonce: 16 bytes, new for each call.
        """
        name = method.encode()
        parts = (_TIME.pack(time_ms), nonce, _LENGTH.pack(len(name)), name, encoded)
        return secret.for_purpose(self.purposes[version]).sign(b"".join(parts))


@functools.cache
def own_service() -> ModuleType:
    """The contract's structs and its service; a request that was read has its raw bytes in `encoded`."""
    service = load_service(posixpath.join(posixpath.dirname(__file__), IDL))
    for kind in (service.ScanRequest, service.ConnectorRequest):
        register_reader(kind, _read_request)
    return service


@functools.cache
def own_methods() -> frozenset[bytes]:
    """The names of its methods, none of which the Thrift connectors have."""
    contract: Any = own_service()
    return frozenset(name.encode() for name in contract.HudiCatalog.thrift_services)


def _read_request(_kind: Any, source: Source, at: int, read: ReadStruct) -> tuple[Any, int]:
    request, end = read(source, at)
    request.encoded = source.data[at:end]
    return request, end


class Nonces:
    """Nonces of answered calls, kept while their signatures are valid; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0
        self._older: set[bytes] = set()
        self._newer: set[bytes] = set()

    def is_new(self, nonce: bytes, now_ms: int) -> bool:
        """Record a nonce; False if it was used before."""
        with self._lock:
            # a request's time may be off in both directions
            if now_ms - self._began >= 2 * _SKEW_MS:
                self._began, self._older, self._newer = now_ms, self._newer, set()
            if nonce in self._newer or nonce in self._older:
                return False
            self._newer.add(nonce)
            return True


class Admission:
    """Checks versions and signatures of requests.

    Args:
        callers: who sends them.
        secret: shared with callers; None admits everybody.
        clock: seconds since 1970-01-01 UTC.
    """

    def __init__(self, callers: Callers, secret: Secret | None, clock: Callable[[], float] = time.time) -> None:
        self._callers = callers
        self._secret = secret
        self._clock = clock
        self._nonces = Nonces()

    def check(self, method: str, request: Any, credential: Any) -> None:
        """Refuse a request of an unknown version or without a valid signature.

        Args:
            method: the method called.
            request: a struct of `own_service`.
            credential: a `Credential` or None.

        Raises:
            ServiceError: the version is unsupported or signs only parts of the request; or the signature is missing,
                wrong, outdated or was used before.
        """
        callers = self._callers
        if request is None:
            raise ServiceError(f"{method}: the call has no request")
        if not 1 <= request.version <= VERSION:
            raise ServiceError(
                f"{callers.name} speaks version {request.version}, and this service {VERSION}; {callers.update}"
            )
        if self._secret is None:
            return
        if request.version not in callers.purposes:
            raise ServiceError(
                f"{callers.name} speaks version {request.version}, whose signature leaves out parts of the "
                f"request, and the service asks for the shared secret; {callers.update}"
            )
        self._check_secret(self._secret, method, request, credential)

    def _check_secret(self, secret: Secret, method: str, request: Any, credential: Any) -> None:
        callers = self._callers
        if credential is None:
            raise ServiceError(f"the service asks for the shared secret; set {callers.setting}")
        now = int(self._clock() * 1000)
        if abs(now - credential.time) > _SKEW_MS:
            off = (credential.time - now) / 1000
            raise ServiceError(f"the request was signed {off:+.0f} s from the service's time; synchronize the clocks")
        nonce = credential.nonce or b""
        expected = callers.signature(
            secret, request.version, method, request.encoded, time_ms=credential.time, nonce=nonce
        )
        if len(nonce) != _NONCE_BYTES or not hmac.compare_digest(expected, credential.signature):
            raise ServiceError(
                f"{callers.possessive} secret is not the service's (see {callers.setting}), or the request was changed "
                "in transit"
            )
        if not self._nonces.is_new(nonce, now):
            raise ServiceError(
                f"the same signed request was received before: {callers.possessive} requests are being replayed"
            )
