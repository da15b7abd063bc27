"""Index definitions of a table: `.hoodie/.index_defs/index.json`.

Tables from version 8 on have them; Apache Hudi 1.x writes them for tables of version 6 too.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError, MissingFileError
from table_format.storage import Storage

PATH_KEY: Final = "hoodie.table.index.defs.path"
DEFAULT_PATH: Final = ".hoodie/.index_defs/index.json"
_DEFINITIONS: Final = "indexDefinitions"


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """Definition of an index, which is a partition of the metadata table.

    Attributes:
        name: of the metadata table's partition, such as `column_stats` or `secondary_index_by_city`.
        kind: `column_stats`, `partition_stats`, `record_index`, `bloom_filters`, `secondary_index`, `expr_index`…
        function: function of the source fields that is indexed: `identity` or the name of an expression.
        source_fields: the indexed columns.
        options: further settings.
        version: version of the entries' encoding: 1 or 2.
    """

    name: str
    kind: str
    function: str = ""
    source_fields: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 1


def load_index_definitions(storage: Storage, config: TableConfig) -> dict[str, IndexDefinition]:
    """Load a table's index definitions, by the name of their partition in the metadata table.

    Returns:
        Empty for tables of older versions and tables without definitions.

    Raises:
        CorruptFileError: the file is damaged.
    """
    path = _path(storage, config)
    definitions = _load(storage, path)[_DEFINITIONS]
    try:
        return {name: _definition(name, values) for name, values in definitions.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise _corrupt(path, error) from error


def define_index(storage: Storage, config: TableConfig, definition: IndexDefinition) -> dict[str, str]:
    """Add or replace an index definition.

    Callers hold the table's lock.

    Returns:
        Table properties to set for it.

    Raises:
        CorruptFileError: the file is damaged.
    """
    path = _path(storage, config)
    content = _load(storage, path)
    content[_DEFINITIONS][definition.name] = {
        "indexName": definition.name,
        "indexType": definition.kind,
        "indexFunction": definition.function,
        "sourceFields": list(definition.source_fields),
        "indexOptions": dict(definition.options),
        "version": f"V{definition.version}",
    }
    _save(storage, path, content)
    return {PATH_KEY: path}


def forget_indexes(storage: Storage, config: TableConfig, names: Collection[str]) -> None:
    """Remove index definitions, if there are any. Callers hold the table's lock.

    Raises:
        CorruptFileError: the file is damaged.
    """
    path = _path(storage, config)
    content = _load(storage, path)
    definitions = content[_DEFINITIONS]
    content[_DEFINITIONS] = {name: values for name, values in definitions.items() if name not in names}
    if content[_DEFINITIONS] != definitions:
        _save(storage, path, content)


def _load(storage: Storage, path: str) -> dict[str, Any]:
    """Parse the whole file; it has at least an empty object of definitions."""
    try:
        data = storage.read(path)
    except MissingFileError:
        data = b""
    try:
        content = json.loads(data) if data.strip() else {}
        return {**content, _DEFINITIONS: dict(content.get(_DEFINITIONS) or {})}
    except (AttributeError, TypeError, ValueError) as error:
        raise _corrupt(path, error) from error


def _save(storage: Storage, path: str, content: Mapping[str, Any]) -> None:
    storage.overwrite(path, json.dumps(content, indent=2).encode())


def _corrupt(path: str, error: Exception) -> CorruptFileError:
    return CorruptFileError(path, 0, f"not a file of index definitions: {error!r}")


def _path(storage: Storage, config: TableConfig) -> str:
    """Path of the file; the configured one is relative to the base folder, or absolute and below it."""
    path = config.raw.get(PATH_KEY, "").strip()
    if not path:
        return DEFAULT_PATH
    if "://" not in path and not path.startswith(("/", "file:")):
        return posixpath.normpath(path)
    place = "/" + path.split("://", 1)[-1].removeprefix("file:").lstrip("/")
    base = "/" + storage.base.strip("/") + "/"
    # a copied table still has its old absolute path
    return place.removeprefix(base) if place.startswith(base) else DEFAULT_PATH


def _definition(name: str, values: Mapping[str, Any]) -> IndexDefinition:
    version = str(values.get("version") or "V1").upper().removeprefix("V")
    return IndexDefinition(
        name=str(values.get("indexName") or name),
        kind=str(values.get("indexType") or "").lower(),
        function=str(values.get("indexFunction") or ""),
        source_fields=tuple(str(source) for source in values.get("sourceFields") or ()),
        options={str(key): str(value) for key, value in (values.get("indexOptions") or {}).items()},
        version=int(version),
    )
