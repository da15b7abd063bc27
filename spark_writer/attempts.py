"""A write that met another one on its way is done again on what that one left."""

from __future__ import annotations

import itertools
import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from table_format.errors import ConflictError
from table_format.storage import Storage

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
_LONGEST_PAUSE: Final = 1.0


def with_retries(attempt: Callable[[int], _T], retries: int, repeatable: Callable[[], bool]) -> _T:
    """Do something again as long as other writers were faster.

    Args:
        attempt: does all of it anew, given the number of the attempt, from 1 on; one that fails leaves nothing.
        retries: how often to do it again, at most.
        repeatable: asked at the first conflict: whether doing it again is the same as doing it later.

    Raises:
        ConflictError: of the last attempt.
    """
    for number in itertools.count(1):
        started = time.monotonic()
        try:
            return attempt(number)
        except ConflictError as error:
            if number > retries:
                error.add_note(f"given up after {number} attempt(s): hoodie.catalog.write.retries={retries}")
                raise
            if number == 1 and not repeatable():
                error.add_note(
                    "not done again: the rows come from this very table as it was before; read it again, and write then"
                )
                raise
            _LOG.info("doing it again, attempt %d of %d: %s", number + 1, retries + 1, error)
            # writers that met each other would meet again; this spreads them
            pause = min(_LONGEST_PAUSE, time.monotonic() - started)
            time.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
    raise AssertionError  # not reached


def reads_table(df: DataFrame, storage: Storage, name: str) -> bool:
    """Whether a DataFrame's rows come from a table, as far as Spark tells; if it does not tell, they may.

    Such rows are of the state in which the table was when the DataFrame was made. To write them over a newer state
    would undo what another writer did in between.

    Args:
        df: the rows.
        storage: the table's.
        name: of the table, after which `snapshot` names its DataFrames.
    """
    try:
        files = df.inputFiles()
        plan = _plan_text(df)
    except (PySparkException, AttributeError, OSError):
        return True
    base = f"{storage.base.rstrip('/')}/"
    if any(_plain(file).startswith(base) for file in files):
        return True
    # a cached DataFrame tells no files
    return re.search(rf"SubqueryAlias {re.escape(name)}\s*$", plan, re.MULTILINE) is not None


def _plan_text(df: Any) -> str:
    try:
        return str(df._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - PySpark has no other way
    except (PySparkException, AttributeError):
        return str(df._explain_string(mode="extended"))  # noqa: SLF001 - Spark Connect's


def _plain(uri: str) -> str:
    parts = urlsplit(uri)
    return f"{parts.netloc}{unquote(parts.path)}"
