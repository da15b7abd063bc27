"""The client protocol of Trino and Presto, as far as asking for rows needs it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


class StatementError(Exception):
    """The server refused or failed a statement."""


def run_statement(
    server: str,
    sql: str,
    *,
    product: str = "Trino",
    headers: Mapping[str, str] | None = None,
    seconds: float = 120.0,
) -> list[list[Any]]:
    """Rows of a statement, as the server's JSON spells them.

    Args:
        server: Address such as `http://127.0.0.1:8080`.
        sql: The statement.
        product: `Trino` or `Presto`: how the headers are named.
        headers: More headers.
        seconds: Longest time in all.

    Raises:
        StatementError: The server answered with an error, or not in time.
        OSError: It cannot be reached.
    """
    sent = {f"X-{product}-User": "hudi-catalog", "Content-Type": "text/plain", **(headers or {})}
    end = time.monotonic() + seconds
    page = _ask(urllib.request.Request(f"{server}/v1/statement", sql.encode(), sent), end)
    rows: list[list[Any]] = page.get("data", [])
    while "nextUri" in page:
        page = _ask(urllib.request.Request(page["nextUri"], headers=sent), end)
        rows += page.get("data", [])
    if "error" in page:
        raise StatementError(page["error"].get("message", "no message"))
    return rows


def _ask(request: urllib.request.Request, end: float) -> dict[str, Any]:
    """One page; a busy server is asked again."""
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                page: dict[str, Any] = json.loads(response.read())
                return page
        except urllib.error.HTTPError as error:
            if error.code not in {429, 502, 503, 504}:
                raise StatementError(f"HTTP {error.code}: {error.read()[:500]!r}") from error
            time.sleep(0.1)
    raise StatementError(f"no answer in time from {request.full_url}")
