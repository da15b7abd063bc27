"""The jars that PySpark brings along."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from table_format.errors import OptionError
from table_format.extras import require


def pyspark_jars() -> Path:
    """Folder of PySpark's jars; PySpark itself is not imported.

    Raises:
        MissingPackageError: PySpark is not installed.
        OptionError: it is, but without the jars of Hive.
    """
    require("a local Hive Metastore", "spark", "pyspark")
    found = importlib.util.find_spec("pyspark")
    folder = Path(found.origin).parent / "jars" if found is not None and found.origin else Path("pyspark")
    if not any(folder.glob("hive-metastore-*.jar")):
        raise OptionError(f"{folder} has no Hive Metastore; a PySpark from PyPI has: pip install 'hudi-catalog[spark]'")
    return folder
