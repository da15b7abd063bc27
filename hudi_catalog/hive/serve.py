"""The service that Hive's storage handler calls: Thrift contract, authentication, replies, port and status page."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import posixpath
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from hudi_catalog.hive.options import SCAN_KEYS, SERVICE_KEYS, HiveOptions
from hudi_catalog.hive.planning import HivePlanner, TableFolders
from hudi_catalog.server.endpoints import Endpoint
from hudi_catalog.server.hosting import hosted
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.thrift_calls import Buffers, Call, ThriftCalls, encode_reply, load_service
from hudi_catalog.server.thrift_structs import ReadStruct, Source, register_reader
from hudi_catalog.server.warehouse_service import WarehouseComponents, WarehouseService, WarehouseSettings
from table_format.errors import HudiError, ServiceError

IDL: Final = "hudi_hive.thrift"
VERSION: Final = 2
_SIGNED_VERSION: Final = 2
"""First version whose signature covers the whole request."""

_PURPOSE = "hive 2"
_SKEW_MS = 5 * 60_000
_NONCE_BYTES = 16
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


@functools.cache
def hive_service() -> ModuleType:
    """The Thrift contract; a `ScanRequest` that was read has its raw bytes in `encoded`."""
    service = load_service(posixpath.join(posixpath.dirname(__file__), IDL))
    register_reader(service.ScanRequest, _read_request)
    return service


def _read_request(_kind: Any, source: Source, at: int, read: ReadStruct) -> tuple[Any, int]:
    request, end = read(source, at)
    request.encoded = source.data[at:end]
    return request, end


def signature(secret: Secret, method: str, encoded: bytes, time_ms: int, nonce: bytes) -> bytes:
    """The signature that a storage handler with the shared secret sends with a request.

    Args:
        secret: shared with the service.
        method: the method called.
        encoded: the request's struct as encoded in the call.
        time_ms: milliseconds since 1970-01-01 UTC.
        nonce: 16 bytes, new for each call.
    """
    name = method.encode()
    parts = (_TIME.pack(time_ms), nonce, _LENGTH.pack(len(name)), name, encoded)
    return secret.for_purpose(_PURPOSE).sign(b"".join(parts))


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
        secret: shared with callers; None admits everybody.
        clock: seconds since 1970-01-01 UTC.
    """

    def __init__(self, secret: Secret | None, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._nonces = Nonces()

    def check(self, method: str, request: Any, credential: Any) -> None:
        """Refuse a request of an unknown version or without a valid signature.

        Args:
            method: the method called.
            request: a `ScanRequest` as read by `hive_service`.
            credential: a `Credential` or None.

        Raises:
            ServiceError: the version is unsupported or signs only parts of the request; or the signature is missing,
                wrong, outdated or was used before.
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
            raise ServiceError(f"the request was signed {off:+.0f} s from the service's time; synchronize the clocks")
        nonce = credential.nonce or b""
        expected = signature(secret, method, request.encoded, credential.time, nonce)
        if len(nonce) != _NONCE_BYTES or not hmac.compare_digest(expected, credential.signature):
            raise ServiceError(
                "Hive's secret is not the service's (see hoodie.catalog.hive.secret.file), or the request was changed "
                "in transit"
            )
        if not self._nonces.is_new(nonce, now):
            raise ServiceError("the same signed request was received before: Hive's requests are being replayed")


_NAME = "hive"


class HiveService(ThriftCalls):
    """Answers the storage handler's calls; thread-safe.

    Args:
        tables: of the warehouse.
        options: splits, leases.
        log: query log; None to keep it in memory only.
        secret: shared with callers; None admits everybody.
        metrics: counts requests and planned scans; None for no metrics.
    """

    def __init__(
        self,
        tables: TableFolders,
        options: HiveOptions | None = None,
        log: QueryLog | None = None,
        secret: Secret | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(_NAME, metrics)
        self._log = log or QueryLog()
        self._admission = Admission(secret)
        self._planner = HivePlanner(tables, options or HiveOptions(), self._log)
        self._structs: Any = hive_service()

    def close(self) -> None:
        """Start no work that outlives a request."""
        self._planner.close()

    def _contract(self, frame: bytes) -> ModuleType:  # noqa: ARG002
        return hive_service()

    def _answer(self, contract: ModuleType, call: Call) -> Buffers:
        request = call.arguments.request
        try:
            self._admission.check(call.name, request, call.arguments.credential)
            result = self._planner.pin(request) if call.name == "pin" else self._splits(request)
        except HudiError as error:
            details = (
                {}
                if request is None
                else {"table": request.table, "query": request.queryId, "location": request.location}
            )
            self._log.event(_NAME, "refused", method=call.name, message=str(error), **details)
            raise
        return [encode_reply(contract, call, result)]

    def _splits(self, request: Any) -> Any:
        scan = self._planner.splits(request)
        root = request.location.rstrip("/")
        split = self._structs.Split
        return self._structs.Splits(
            request.version,
            scan.pin,
            [split(f"{root}/{one.base}", one.start, one.length) for one in scan.splits],
            scan.files_total,
            scan.files_kept,
        )

    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:  # noqa: ARG002
        refusal: Any = contract
        return refusal.Refusal(message, retryable)


class HiveSettings(WarehouseSettings):
    """Settings of the service; its secret authenticates callers, None admits everybody."""


class ServingHive(WarehouseService):
    """The service with its port, status page, log and metrics.

    Args:
        settings: see `HiveSettings`.

    Attributes:
        port: of the service, once it has started.
        http_port: of the status page, once it has started.
        log: of planned scans.
        metrics: counts.

    Raises:
        OptionError: an invalid option, certificate or log file.
        TableNotFoundError: the warehouse does not exist.
    """

    def __init__(self, settings: HiveSettings) -> None:
        parts = WarehouseComponents(_NAME, settings, (*SERVICE_KEYS, *SCAN_KEYS))
        options = HiveOptions.parse(parts.options)
        tables = TableFolders(parts.warehouse, parts.limits, table_options=parts.table_options)
        self.service = HiveService(tables, options, parts.log, settings.secret, parts.metrics)
        super().__init__(parts, self.service, tables)
        self._settings = settings

    def _endpoints(self) -> list[Endpoint]:
        tls, secret = self._settings.tls, self._settings.secret
        return [
            Endpoint(
                "the service for Hive",
                self._settings.host,
                self.port,
                encrypted=tls is not None,
                authenticated=secret is not None or (tls is not None and tls.client_ca is not None),
                exposure="learns the files of all tables of the warehouse and what filters keep of them",
                remedy="give it --tls-certificate, and --secret-file or --tls-client-ca",
            )
        ]

    async def stop(self, drain_seconds: float, /) -> None:
        """Stop, giving requests in progress this many seconds."""
        await super().stop(drain_seconds)
        await asyncio.to_thread(self.service.close)


@contextlib.contextmanager
def running_hive(settings: HiveSettings) -> Iterator[ServingHive]:
    """Run the service in a thread of its own while the `with` block lasts.

    Raises:
        HudiError: it fails to start.
    """
    serving = ServingHive(settings)
    with hosted(serving):
        yield serving
