"""The jars that PySpark brings along."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from table_format.errors import OptionError


def pyspark_jars() -> Path:
    """Folder of PySpark's jars; PySpark itself is not imported.

    Raises:
        OptionError: PySpark is not installed, or without the jars of Hive.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.origin:
        raise OptionError("a local Hive Metastore runs from PySpark's jars: pip install 'hudi-catalog[spark]'")
    folder = Path(found.origin).parent / "jars"
    if not any(folder.glob("hive-metastore-*.jar")):
        raise OptionError(f"{folder} has no Hive Metastore; a PySpark from PyPI has: pip install 'hudi-catalog[spark]'")
    return folder
