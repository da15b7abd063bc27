"""Statements on their way to Trino: the text in the body, or the prepared text in a header, is rewritten or left alone.

A statement is never failed here: what cannot be read, takes too long or goes wrong reaches Trino as the client sent it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from multidict import CIMultiDict

from catalog.concurrency.workers import Workers
from hudi_catalog.gateway.headers import prepared_statement, room_for, session_of, with_prepared
from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.statement import SessionNames, prepared_call
from table_format.errors import LateTableError

_LOGGER = logging.getLogger(__name__)
_MAY_EXECUTE = re.compile(r"(?:\s++|--[^\r\n]*+|(?>/\*.*?\*/))*+execute\b", re.IGNORECASE | re.DOTALL)
_Result = TypeVar("_Result")


class RewrittenStatement(Protocol):
    """What became of a statement."""

    @property
    def sql(self) -> str:
        """The statement for Trino."""

    @property
    def changed(self) -> bool:
        """Whether it differs from the client's."""


class StatementRewriter(Protocol):
    """Puts the files that a statement needs into it; `hudi_catalog.gateway.rewrite.Rewriter` does."""

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
class Passed:
    """A statement as it goes to Trino, and what the rewriter's own log does not say of it.

    Attributes:
        body: for Trino.
        sql: as the client sent it; None for one that was not read.
        unplanned: why it goes on unchanged without that the rewriter has said so, of a small set of words; None for a
            statement that the rewriter has seen to its end.
        detail: more of that, for people.
    """

    body: bytes
    sql: str | None = None
    unplanned: str | None = None
    detail: str = ""


class Statements:
    """Rewrites statements in threads of its own.

    Args:
        rewriter: changes statements.
        settings: threads, time and header size.
    """

    def __init__(self, rewriter: StatementRewriter, settings: ProxySettings) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._workers = Workers(settings.rewrite_threads, "rewrite")

    def close(self) -> None:
        """Rewrite no more statements; what is under way is not waited for."""
        self._workers.close()

    async def for_trino(self, body: bytes, headers: CIMultiDict[str]) -> Passed:
        """The statement for Trino; a prepared statement is exchanged in `headers`.

        Args:
            body: as the client sent it.
            headers: of the request for Trino.
        """
        sql = _text_of(body, headers)
        if sql is None:
            return Passed(body, unplanned="not read")
        try:
            async with asyncio.timeout(self._settings.rewrite_timeout):
                call = await self._call(sql)
                if call is not None:
                    return Passed(body, sql, unplanned=await self._prepared(*call, headers))
                session = session_of(headers)
                done = await self._in_thread(lambda: self._rewriter.rewrite(sql, session))
                return Passed(done.sql.encode() if done.changed else body, sql)
        except TimeoutError:
            _LOGGER.warning("a statement goes on unchanged: no plan within %g s", self._settings.rewrite_timeout)
            return Passed(body, sql, "timeout")
        except LateTableError as error:
            _LOGGER.warning("a statement goes on unchanged: %s", error)
            return Passed(body, sql, "failed", f"{type(error).__name__}: {error}")
        except Exception as error:
            _LOGGER.exception("a statement goes on unchanged: rewriting it failed")
            return Passed(body, sql, "failed", f"{type(error).__name__}: {error}")

    async def _call(self, sql: str) -> tuple[str, tuple[str, ...]] | None:
        """The prepared statement that runs, and the values for it; in a thread, as statements may be long."""
        return await self._in_thread(lambda: prepared_call(sql)) if _MAY_EXECUTE.match(sql) else None

    async def _prepared(self, name: str, values: Sequence[str], headers: CIMultiDict[str]) -> str | None:
        """Exchange the statement that an EXECUTE runs; why not, None when the rewriter has been asked."""
        prepared = prepared_statement(headers, name)
        if prepared is None or _MAY_EXECUTE.match(prepared.text):
            return "no prepared statement"
        size = self._settings.prepared_header_size
        session, limit = session_of(headers), room_for(prepared, size)
        done = await self._in_thread(
            lambda: self._rewriter.rewrite(prepared.text, session, parameters=values, length_limit=limit)
        )
        return "header size" if done.changed and not with_prepared(headers, prepared, done.sql, size) else None

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        # A place is free when the work has ended or is given up, not when nobody waits for it any more.
        return await asyncio.wrap_future(self._workers.submit(work))


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
