"""Whose an entry of a metastore is, so that a sync writes over none that is not its table's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hudi_catalog.metastore import entries
from hudi_catalog.metastore.locations import normal_uri
from hudi_catalog.metastore.metastore import (
    HANDLER_CLASSES,
    HUDI,
    HUDI_REAL_TIME,
    STORAGE_HANDLER,
    HiveTable,
    Metastore,
)
from hudi_catalog.metastore.options import APACHE, HANDLER, SYMLINK
from hudi_catalog.metastore.spark_properties import PROVIDER
from table_format.errors import MetastoreError

HIVE: Final = "hive"
PURGE: Final = "external.table.purge"
_HUDI_FORMATS: Final = frozenset(
    {HUDI.input_format, HUDI_REAL_TIME.input_format}
    # as releases before Apache's had them
    | {"com.uber.hoodie.hadoop.HoodieInputFormat", "com.uber.hoodie.hadoop.realtime.HoodieRealtimeInputFormat"}
)

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


def check_owner(before: HiveTable | None, target: str, base: str, location: str, metastore: Metastore) -> None:
    """Refuse to write over an entry that is not a table's, or that another engine's sync keeps.

    Entries that Apache Hudi's sync, Spark or a user made for the same table are taken over for Hive.

    Args:
        before: the entry as it is; None when there is none.
        target: of the sync: `hive`, `trino` or `hudi`.
        base: URI of the table's folder, as we spell it.
        location: the same as the engine spells it.
        metastore: for the message.

    Raises:
        MetastoreError: the entry is something else's.
    """
    if before is None:
        return
    said, kept = before.parameters.get(entries.BASE_PATH), before.parameters.get(entries.TARGET)
    if kept is None:
        if target == HIVE and hudi_format(before) and same_place(before.location, base, location):
            return
        what = "a table that the sync did not make"
    elif said != base:
        what = f"the Hudi table {said}"
    elif kept != target:
        what = f"this table's entry for {kept}"
    else:
        return
    raise MetastoreError(
        f"{metastore.uri}: {before.schema}.{before.name} is {what}; drop it, or choose another name or schema"
    )


def hudi_format(entry: HiveTable) -> str | None:
    """By what an entry reads a Hudi table: `handler`, `apache` or `symlink`; None for an entry of something else."""
    said = entry.parameters
    if said.get(STORAGE_HANDLER) in HANDLER_CLASSES.values():
        return HANDLER
    if said.get(entries.TARGET) == entries.TRINO:
        return SYMLINK
    is_hudi = entry.format.input_format in _HUDI_FORMATS or said.get(PROVIDER, "").lower() == "hudi"
    return APACHE if is_hudi else None


def same_place(there: str, *ours: str) -> bool:
    """Whether a location is one of some others, be it spelled otherwise.

    >>> same_place("s3a://b/t/", "s3://b/t"), same_place("file:/a", "file:///a"), same_place("s3://b/t", "s3://b/u")
    (True, True, False)
    """
    return _folded(there) in {_folded(uri) for uri in ours}


def lies_inside(place: str, folder: str) -> bool:
    """Whether a location is a folder or inside it, be it spelled otherwise.

    >>> lies_inside("s3a://b/t/x", "s3://b/t/"), lies_inside("s3://b/t", "s3://b/t"), lies_inside("s3://b/tx", "s3://b/t")
    (True, True, False)
    """
    return f"{_folded(place)}/".startswith(f"{_folded(folder)}/")


def deletions(metastore: Metastore, schema: str, made: Iterable[HiveTable], base: str) -> tuple[str, ...]:
    """By which statements Hive would delete a table's files, for a warning; Hive says nothing before it does.

    Args:
        metastore: with the entries.
        schema: of the entries.
        made: the entries, as they are now.
        base: URI of the table's folder, as we spell it.
    """
    found = []
    listed = list(made)
    for folder in metastore.schema_folders(schema):
        if any(lies_inside(place, folder) for place in (base, *(entry.location for entry in listed))):
            found.append(
                f"{normal_uri(base)} lies inside {folder}, the folder of database {schema}: DROP DATABASE {schema} "
                "deletes the table's files, be it registered there or not; give the database another folder "
                "(ALTER DATABASE … SET LOCATION), or let the metastore refuse that (hudicatalog.hive.FolderGuard)"
            )
            break
    found += [
        f"{schema}.{entry.name} has {PURGE}=true: DROP TABLE deletes the table's files; set it to false"
        for entry in listed
        if entry.parameters.get(PURGE, "").lower() == "true"
    ]
    return tuple(found)


def _folded(uri: str) -> str:
    scheme, slashes, rest = normal_uri(uri).partition("://")
    return f"{_SCHEMES.get(scheme.lower(), scheme)}{slashes}{rest}"
