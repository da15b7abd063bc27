"""Opens a metastore by its URI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.metastore import Metastore
from hudi_catalog.metastore.metastore_options import MetastoreOptions
from table_format.errors import MissingPackageError, OptionError

_PORT: Final = 9083
_BARE: Final = re.compile(r"[^:/\\\[\]]+:[0-9]+")
_ADDRESS: Final = re.compile(r"(?:thrift://)?(\[[0-9a-fA-F:.]+\]|[^:/\[\]]+)(?::([0-9]+))?/?")


def open_metastore(
    uri: str, storage_options: Mapping[str, Any] | None = None, options: Mapping[str, str] | None = None
) -> Metastore:
    """Open a metastore; a Hive Metastore is connected on first use.

    Args:
        uri: `thrift://host:port` of a Hive Metastore, several comma-separated; or the folder of Trino's file
            metastore, as a path or URI.
        storage_options: keyword arguments for the `pyarrow.fs` file system of a file metastore.
        options: `hoodie.catalog.metastore.*`, of a Hive Metastore, see `MetastoreOptions`.

    Raises:
        OptionError: a malformed URI or an invalid option.
        MissingPackageError: a library is missing.
    """
    parsed = MetastoreOptions.parse(options)
    text = uri.strip()
    if not text:
        raise OptionError("the metastore's URI is empty; write thrift://host:port or the folder of a file metastore")
    addresses = hive_addresses(text)
    if not addresses:
        if _BARE.fullmatch(text):
            raise OptionError(f"the metastore {text!r} is no folder; write thrift://{text}, or ./{text} for a folder")
        if "/" not in text and not Path(text).is_dir():  # a host, or a name that is misspelt
            raise OptionError(
                f"the metastore {text!r}: there is no such folder; write thrift://{text} for a Hive Metastore on that "
                f"host, or ./{text} to make the folder"
            )
        return FileMetastore(text, storage_options)
    try:
        from hudi_catalog.metastore.thrift_metastore import ThriftMetastore
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"a Hive Metastore needs {error.name}: pip install 'hudi-catalog[services]'", name=error.name
        ) from error
    return ThriftMetastore(addresses, parsed)


def hive_addresses(uri: str) -> list[tuple[str, int]]:
    """Hosts and ports of a Hive Metastore; empty for a file metastore.

    Raises:
        OptionError: the URI is malformed.
    """
    text = uri.strip()
    if not text.startswith("thrift:"):
        return []
    addresses = []
    for part in text.split(","):
        match = _ADDRESS.fullmatch(part.strip())
        port = int(match[2] or _PORT) if match else 0
        if match is None or not 0 < port <= 65535:
            raise OptionError(f"{part.strip()!r} is not an address of a Hive Metastore; write thrift://host:port")
        addresses.append((match[1].strip("[]"), port))
    return addresses
