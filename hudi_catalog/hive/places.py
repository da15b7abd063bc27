"""Where a table lies, as Hive says it, in the warehouse of the service."""

from __future__ import annotations

import re

from hudi_catalog.metastore.locations import Locations, normal_uri
from table_format.errors import TableNotFoundError

# Hadoop's names of S3, which is one store under all of them.
_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)
_DOTS = frozenset({".", ".."})


class Places:
    """Folders of a warehouse by Hive's locations.

    Args:
        warehouse: its URI.
        locations: how Hive spells places.
    """

    def __init__(self, warehouse: str, locations: Locations) -> None:
        self._warehouse = warehouse
        self._root = _plain(warehouse)
        self._locations = locations

    def path(self, location: str) -> str:
        """The path of a table's folder in the warehouse, "" for the warehouse itself.

        Args:
            location: a URI as Hive has it; paths in it are literal, without any escaping.

        Raises:
            TableNotFoundError: it lies elsewhere, or cannot be a table's.
        """
        if any(part in _DOTS for part in location.split("/")):
            raise TableNotFoundError(f"{location}: write the location without . and ..")
        place = _plain(self._locations.ours(location))
        if place != self._root and not place.startswith(self._root.rstrip("/") + "/"):
            raise TableNotFoundError(
                f"{location} is not in the warehouse {self._warehouse}; serve the warehouse that holds it, or set "
                "hoodie.catalog.hive.locations if Hive only calls it by another name"
            )
        path = place[len(self._root) :].strip("/")
        if any(part.startswith(".") for part in path.split("/")):
            raise TableNotFoundError(f"{location}: a folder in a hidden one is no table's")
        return path


def _plain(uri: str) -> str:
    """One text for all spellings of a folder."""
    place = _S3.sub("s3://", normal_uri(uri))
    scheme, slashes, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{slashes}{host}{slash}{'/'.join(part for part in path.split('/') if part)}"
