"""`connect`, which imports Trino's client only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from table_format.errors import MissingPackageError

if TYPE_CHECKING:
    from hudi_catalog.trino.dbapi import Connection


def connect(*arguments: Any, **named: Any) -> Connection:
    """Connect to Trino in place of `trino.dbapi.connect`; for the arguments see `hudi_catalog.trino.dbapi.connect`.

    Raises:
        MissingPackageError: Trino's Python client is not installed.
        OptionError: an option is invalid.
    """
    try:
        from hudi_catalog.trino import dbapi
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"hudi_catalog.trino.connect needs {error.name}: pip install 'hudi-catalog[trino]'", name=error.name
        ) from error
    return dbapi.connect(*arguments, **named)
