"""Answers the frames of a Thrift service: reads the call, has it answered, and turns errors into its exceptions."""

from __future__ import annotations

import abc
import logging
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.thrift_messages import (
    Call,
    MessageError,
    encode_failure,
    encode_message_error,
    encode_refusal,
    read_call,
)
from table_format.errors import AlreadyExistsError, HudiError, LateTableError, MissingFileError, StorageError

_LOG = logging.getLogger(__name__)

Parts: TypeAlias = "Sequence[bytes | memoryview]"


class ThriftCalls(abc.ABC):
    """One call in, one reply out; threads may share it.

    Args:
        name: of the service, for its metrics.
        metrics: counts requests; None for nobody.
    """

    def __init__(self, name: str, metrics: Metrics | None = None) -> None:
        self._name = name
        self._counted = metrics

    @abc.abstractmethod
    def _contract(self, frame: bytes) -> ModuleType:
        """The service, as loaded, that a frame calls."""

    @abc.abstractmethod
    def _answer(self, contract: ModuleType, call: Call) -> Parts:
        """The reply to a call.

        Raises:
            HudiError: the call is refused.
        """

    @abc.abstractmethod
    def _exception(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Any:
        """The exception that a method of the contract declares, for a call that is refused or failed."""

    def _method(self, call: Call) -> str:
        """Under which name a call is counted."""
        return call.name

    def dispatch(self, frame: bytes) -> Parts | None:
        """The reply to a request, in parts to be sent one behind the other.

        Args:
            frame: a message without its length.

        Returns:
            None for a frame that is no call, and does not tell which reply it waits for: the connection is of no use.
        """
        contract = self._contract(frame)
        begin = time.perf_counter()
        try:
            call = read_call(contract, frame)
        except MessageError as error:
            _LOG.warning("a request that is not understood: %s", error)
            self._count("unknown", begin, "refused")
            reply = encode_message_error(error)
            return None if reply is None else [reply]
        outcome = "ok"
        try:
            return self._answer(contract, call)
        except HudiError as error:
            outcome = "late" if isinstance(error, LateTableError) else "refused"
            _LOG.warning("%s: %s", call.name, error)
            return self._failure(contract, call, str(error), retryable=_may_pass(error))
        except Exception:  # noqa: BLE001  # whatever it is, the client gets an answer
            outcome = "failed"
            _LOG.exception("%s failed", call.name)
            return self._failure(contract, call, "the service failed; its log says why", retryable=False)
        finally:
            self._count(self._method(call), begin, outcome)

    def given_up(self, frame: bytes, error: HudiError) -> Parts | None:
        """The reply to a request whose work is not waited for any longer."""
        contract = self._contract(frame)
        try:
            call = read_call(contract, frame)
        except MessageError:
            return None
        return self._failure(contract, call, str(error), retryable=_may_pass(error))

    @staticmethod
    def refuse(beginning: bytes, message: str) -> bytes | None:
        """The reply to a request of which only the beginning was taken; None when that tells nothing."""
        return encode_refusal(beginning, message)

    def _failure(self, contract: ModuleType, call: Call, message: str, *, retryable: bool) -> Parts:
        return [encode_failure(contract, call, self._exception(contract, call, message, retryable=retryable))]

    def _count(self, method: str, begin: float, outcome: str) -> None:
        if self._counted is not None:
            self._counted.request(self._name, method, time.perf_counter() - begin, outcome)


def _may_pass(error: HudiError) -> bool:
    """Whether the same request may succeed a little later."""
    return isinstance(error, StorageError) and not isinstance(error, MissingFileError | AlreadyExistsError)
