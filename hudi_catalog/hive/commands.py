"""The command `hudi-catalog hive-jar`."""

from __future__ import annotations

import sys

from hudi_catalog.hive.jar import handler_jar


def hive_jar() -> None:
    """Print the path of the storage handler's jar, which Hive needs to read tables."""
    sys.stdout.write(handler_jar() + "\n")
