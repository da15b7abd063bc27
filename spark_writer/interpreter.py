"""Which Python the workers of a session run."""

from __future__ import annotations

import os
import sys
from typing import Any

_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")


def use_this_interpreter(session: Any) -> None:
    """Let the workers of a local session run the driver's Python, unless the user chose one.

    Spark's default is the `python3` of the path, which in a virtual environment that is not activated lacks pyarrow and
    this package. On a cluster the choice stays with the user: `PYSPARK_PYTHON` or `spark.pyspark.python`.
    """
    if os.environ.get("PYSPARK_PYTHON"):
        return
    try:
        context = session.sparkContext
        chosen = any(context.getConf().get(key) for key in _SETTINGS)
        local = str(context.master).startswith("local")
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and raises its own kinds
        return
    if local and not chosen:
        context.pythonExec = sys.executable
