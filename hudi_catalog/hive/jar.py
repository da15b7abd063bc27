"""The jar of Hive's storage handler, which comes with this package."""

from __future__ import annotations

from pathlib import Path

from table_format.errors import ServiceError

NAME = "hudi-hive-handler.jar"


def handler_jar(folder: Path | None = None) -> str:
    """Path of the jar that HiveServer2 and its tasks need.

    Args:
        folder: where it is looked for; this package when None.

    Raises:
        ServiceError: it is not there, since nothing built it yet.
    """
    path = (folder or Path(__file__).parent).absolute() / NAME
    if not path.is_file():
        raise ServiceError(
            f"{path} is missing: in a checkout run `make hive-jar`, which needs Maven and a JDK; "
            "else install a wheel of hudi-catalog, which has it"
        )
    return str(path)
