"""Statements on their way to Trino: the text in the body, or the prepared text in a header, is rewritten or left alone.

A statement is never failed here: what cannot be read, takes too long or goes wrong reaches Trino as the client sent it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from multidict import CIMultiDict

from catalog.gateway.execute import Execute, execute_of
from catalog.gateway.proxy_settings import ProxySettings
from catalog.gateway.session_names import SessionNames
from catalog.gateway.statement_headers import prepared_statement, room_for, session_of, with_prepared

_LOGGER = logging.getLogger(__name__)


class RewrittenStatement(Protocol):
    """What became of a statement."""

    @property
    def sql(self) -> str:
        """The statement for Trino."""

    @property
    def changed(self) -> bool:
        """Whether it differs from the client's."""


class StatementRewriter(Protocol):
    """Puts the files that a statement needs into it; `catalog.gateway.rewrite.Rewriter` does."""

    def rewrite(
        self,
        sql: str,
        session: SessionNames,
        *,
        parameters: Sequence[str] | None = None,
        length_limit: int | None = None,
    ) -> RewrittenStatement:
        """The statement for Trino; `parameters` are the SQL texts of its `?`, in order."""


class UnchangedCounter(Protocol):
    """Counts the statements that went on unchanged because rewriting did not come to an end."""

    def query(self, service: str, outcome: str, reason: str) -> None:
        """One more."""


class Statements:
    """Rewrites statements in threads of its own.

    Args:
        rewriter: None to pass everything on as it is.
        settings: threads, time and header size.
        counter: told of statements that could not be rewritten.
    """

    def __init__(
        self, rewriter: StatementRewriter | None, settings: ProxySettings, counter: UnchangedCounter | None = None
    ) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._counter = counter
        self._pool = ThreadPoolExecutor(settings.rewrite_threads, thread_name_prefix="rewrite")
        self._places = asyncio.Semaphore(settings.rewrite_threads)

    def close(self) -> None:
        """Take no more statements; one that is being rewritten is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def for_trino(self, body: bytes, headers: CIMultiDict[str]) -> bytes:
        """The body for Trino; a prepared statement is exchanged in `headers`.

        Args:
            body: as the client sent it.
            headers: of the request for Trino.
        """
        sql = _text_of(body, headers)
        rewriter = self._rewriter
        if rewriter is None or sql is None or not sql.strip():
            return body
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.rewrite_timeout):
                execute = execute_of(sql)
                if execute is not None:
                    await self._prepared(rewriter, execute, headers)
                    return body
                session = session_of(headers)
                changed = await self._in_thread(lambda: rewriter.rewrite(sql, session))
                return body if changed is None else changed.encode()
        except TimeoutError:
            _LOGGER.warning("a statement goes on unchanged: no plan within %.1f s", time.monotonic() - began)
            self._unchanged("timeout")
        except Exception:
            _LOGGER.exception("a statement goes on unchanged: rewriting it failed")
            self._unchanged("error")
        return body

    async def _prepared(self, rewriter: StatementRewriter, execute: Execute, headers: CIMultiDict[str]) -> None:
        prepared = prepared_statement(headers, execute.name)
        if prepared is None or execute_of(prepared.text) is not None:
            return
        size = self._settings.prepared_header_size
        session, text, values = session_of(headers), prepared.text, execute.parameters
        limit = room_for(prepared, size)
        changed = await self._in_thread(lambda: rewriter.rewrite(text, session, parameters=values, length_limit=limit))
        if changed is not None and not with_prepared(headers, prepared, changed, size):
            self._unchanged("header size")

    async def _in_thread(self, rewrite: Callable[[], RewrittenStatement]) -> str | None:
        """The changed text, None for an unchanged one."""
        await self._places.acquire()
        task = self._pool.submit(rewrite)
        # The place is free when the thread is, not when nobody waits for it any more.
        loop = asyncio.get_running_loop()
        task.add_done_callback(lambda _: _call_soon(loop, self._places.release))
        done = await asyncio.wrap_future(task)
        return done.sql if done.changed else None

    def _unchanged(self, reason: str) -> None:
        if self._counter is not None:
            self._counter.query("gateway", "unchanged", reason)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        _LOGGER.debug("a statement was rewritten after the gateway had stopped")


def _text_of(body: bytes, headers: CIMultiDict[str]) -> str | None:
    """The statement of a body; None for one that is not surely read as Trino reads it."""
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        return None
    if any(name.lower().startswith("x-presto-") for name in headers):
        return None  # Presto, or a server that answers to its headers: other rules for values of time
    charset = headers.get("Content-Type", "").lower().partition("charset=")[2].strip('"; ')
    if charset not in {"", "utf-8", "utf8", "us-ascii"}:
        return None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None
