"""Whether the rows of a DataFrame come from the very table that they are written to."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from table_format.storage import Storage


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
