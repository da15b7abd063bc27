"""The Hive Metastore of the product, as an engine for tests."""

from __future__ import annotations

from pathlib import Path

from hudi_catalog.local_metastore.server import LocalMetastore
from table_format.errors import HudiError
from tools.engines.artifacts import EngineMissingError


class MetastoreServer(LocalMetastore):
    """A Hive Metastore 2.3.10 that listens on 127.0.0.1."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        """Start it.

        Args:
            folder: Database, warehouse and log.
            port: Thrift port; 0 takes a free one.

        Raises:
            EngineMissingError: No JDK or no PySpark, or it does not start.
        """
        try:
            super().__init__(folder, port=port)
        except HudiError as error:
            raise EngineMissingError(str(error)) from error
