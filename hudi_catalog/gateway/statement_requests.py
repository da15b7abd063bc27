"""Statement requests on their way to Trino: the text in the body, or a prepared statement in a header, is rewritten.

A statement never fails here: if it cannot be read, takes too long or an error occurs, Trino gets it unchanged. While
every thread is at a statement that took too long, further ones are forwarded at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from multidict import CIMultiDict

from catalog.concurrency.workers import Workers
from hudi_catalog.gateway.headers import prepared_statement, replace_prepared, session_names, text_limit
from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.statement import SessionNames, prepared_call
from table_format.errors import LateTableError

_LOGGER = logging.getLogger(__name__)
_MAY_EXECUTE = re.compile(r"(?:\s++|--[^\r\n]*+|(?>/\*.*?\*/))*+execute\b", re.IGNORECASE | re.DOTALL)
_Result = TypeVar("_Result")


class RewrittenStatement(Protocol):
    """Result of rewriting a statement."""

    @property
    def sql(self) -> str:
        """The statement for Trino."""

    @property
    def changed(self) -> bool:
        """Whether it differs from the client's statement."""

    @property
    def not_understood(self) -> tuple[str, ...]:
        """Conditions on Hudi tables by which no file was left out."""

    @property
    def refusal(self) -> str:
        """Why the statement is not for Trino; empty if it is."""


class StatementRewriter(Protocol):
    """Rewrites statements; implemented by `hudi_catalog.gateway.rewrite.Rewriter`, whose signature it repeats."""

    def rewrite(
        self,
        sql: str,
        session: SessionNames,
        *,
        parameters: Sequence[str] | None = None,
        length_limit: int | None = None,
    ) -> RewrittenStatement:
        """The statement for Trino; `parameters` are the SQL texts of its `?`, in order."""


@dataclass(frozen=True)
class ForwardedStatement:
    """A statement as sent to Trino, with what the rewriter's own log does not contain.

    Attributes:
        body: for Trino.
        sql: as the client sent it; None if it was not read.
        unplanned: why it is forwarded unchanged if the rewriter has not logged that itself, one of few values; None if
            the rewriter finished.
        detail: details for people.
        refusal: why the client gets an error instead; empty if Trino gets the statement.
        not_understood: conditions on Hudi tables by which no file was left out.
    """

    body: bytes
    sql: str | None = None
    unplanned: str | None = None
    detail: str = ""
    refusal: str = ""
    not_understood: tuple[str, ...] = ()


class StatementHandler:
    """Rewrites statement requests in worker threads.

    Args:
        rewriter: rewrites statements.
        settings: threads, timeout and header size.
    """

    def __init__(self, rewriter: StatementRewriter, settings: ProxySettings) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._workers = Workers(settings.rewrite_threads, "rewrite")
        # Jobs that go on though nobody waits for them, and when they should have been done.
        self._left: dict[Future[Any], float] = {}

    def close(self) -> None:
        """Rewrite no more statements, without waiting for those in progress."""
        self._workers.close()

    async def for_trino(self, body: bytes, headers: CIMultiDict[str]) -> ForwardedStatement:
        """The statement for Trino; a prepared statement is replaced in `headers`.

        Args:
            body: as the client sent it.
            headers: of the request for Trino.
        """
        sql = _text_of(body, headers)
        if sql is None or self._is_busy():
            return ForwardedStatement(body, sql, "not read" if sql is None else "busy")
        try:
            async with asyncio.timeout(self._settings.rewrite_timeout):
                call = await self._call(sql)
                if call is not None:
                    return await self._prepared(body, sql, call, headers)
                session = session_names(headers)
                done = await self._in_thread(lambda: self._rewriter.rewrite(sql, session))
                return _forwarded(done.sql.encode() if done.changed else body, sql, done)
        except TimeoutError:
            _LOGGER.warning("statement forwarded unchanged: no plan within %g s", self._settings.rewrite_timeout)
            return ForwardedStatement(body, sql, "timeout")
        except LateTableError as error:
            _LOGGER.warning("statement forwarded unchanged: %s", error)
            return ForwardedStatement(body, sql, "failed", f"{type(error).__name__}: {error}")
        except Exception as error:
            _LOGGER.exception("statement forwarded unchanged: rewriting failed")
            return ForwardedStatement(body, sql, "failed", f"{type(error).__name__}: {error}")

    async def _call(self, sql: str) -> tuple[str, tuple[str, ...]] | None:
        """Name and values of the prepared statement to run; in a thread, since statements may be long."""
        return await self._in_thread(lambda: prepared_call(sql)) if _MAY_EXECUTE.match(sql) else None

    async def _prepared(
        self, body: bytes, sql: str, call: tuple[str, tuple[str, ...]], headers: CIMultiDict[str]
    ) -> ForwardedStatement:
        """Rewrite the prepared statement that an EXECUTE runs, in its header."""
        name, values = call
        prepared = prepared_statement(headers, name)
        if prepared is None or _MAY_EXECUTE.match(prepared.text):
            return ForwardedStatement(body, sql, unplanned="no prepared statement")
        size = self._settings.prepared_header_size
        session, limit = session_names(headers), text_limit(prepared, size)
        done = await self._in_thread(
            lambda: self._rewriter.rewrite(prepared.text, session, parameters=values, length_limit=limit)
        )
        if done.changed and not replace_prepared(headers, prepared, done.sql, size):
            return ForwardedStatement(body, sql, unplanned="header size")
        return _forwarded(body, sql, done)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        # A worker is free when its work ends or is abandoned, not when its caller stops waiting.
        due = time.monotonic() + self._settings.rewrite_timeout
        job = self._workers.submit(work)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if job.running():
                self._left[job] = due
                job.add_done_callback(lambda ended: self._left.pop(ended, None))
            raise

    def _is_busy(self) -> bool:
        """Whether every thread is at a statement that should have been done."""
        now = time.monotonic()
        return sum(due <= now for due in [*self._left.values()]) >= self._settings.rewrite_threads


def _forwarded(body: bytes, sql: str, done: RewrittenStatement) -> ForwardedStatement:
    return ForwardedStatement(body, sql, refusal=done.refusal, not_understood=done.not_understood)


def _text_of(body: bytes, headers: CIMultiDict[str]) -> str | None:
    """The statement in a body; None if Trino might decode it differently."""
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        return None
    if any(name.lower().startswith("x-presto-") for name in headers):
        return None  # Presto, which compares dates and times by other rules
    charset = headers.get("Content-Type", "").lower().partition("charset=")[2].strip('"; ')
    if charset not in {"", "utf-8", "utf8", "us-ascii"}:
        return None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None
