"""What a Hudi table's entry in a metastore says, made from one snapshot of the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.metastore.hive_types import hive_columns
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.metastore import SYMLINK, HiveTable
from hudi_catalog.metastore.reading_rules import TRINO as TRINO_RULES
from hudi_catalog.metastore.reading_rules import ReadingRules
from hudi_catalog.metastore.stored_names import differing_names
from hudi_catalog.metastore.stored_types import StoredTypes
from table_format.errors import UnsupportedTableError
from table_format.meta_columns import META_COLUMNS

BASE_PATH: Final = "hoodie.catalog.base.path"
ENTRY_ID: Final = "hoodie.catalog.sync.id"
TARGET: Final = "hoodie.catalog.sync.target"
QUERY_TYPE: Final = "hoodie.catalog.query.type"
INSTANT: Final = "hoodie.catalog.instant"
LOCATIONS: Final = "hoodie.catalog.sync.locations"
MANIFESTS: Final = "hoodie.catalog.sync.manifests"
META_FIELDS: Final = "hoodie.catalog.sync.meta.fields"
PINNED: Final = "hoodie.catalog.pinned"
TRINO: Final = "trino"

_ID: Final = re.compile("[0-9a-f]{1,64}")
_EXTERNAL: Final = {"EXTERNAL": "TRUE"}


def symlink_entry(entry: HiveTable, snapshot: Snapshot, location: str) -> HiveTable:
    """An entry brought to a snapshot: its columns, and the list of its files.

    Args:
        entry: as it was; its parameters stay, and comments that somebody gave to columns which have none of their own.
        snapshot: of the table.
        location: of the list, as the engine spells it.

    Raises:
        UnsupportedTableError: a column that Hive has no type for.
    """
    fields = [field for field in snapshot.schema if keeps_meta_fields(entry) or field.name not in META_COLUMNS]
    own = column_comments(snapshot)
    given = {column.name: column.comment for column in entry.columns if column.comment}
    comments = {field.name: own.get(field.name) or given.get(field.name.lower()) or "" for field in fields}
    parameters = {**entry.parameters, **_EXTERNAL, INSTANT: snapshot.instant or ""}
    columns = hive_columns(pa.schema(fields), comments)
    form = replace(SYMLINK, serde_parameters=entry.format.serde_parameters)
    return replace(entry, columns=columns, location=location, format=form, parameters=parameters)


def keeps_meta_fields(entry: HiveTable) -> bool:
    """Whether Hudi's meta columns are among an entry's columns."""
    return entry.parameters.get(META_FIELDS) != "false"


def is_ours(entry: HiveTable) -> bool:
    """Whether an entry was made by the sync for Trino, and is no pinned snapshot."""
    said = entry.parameters
    return BASE_PATH in said and said.get(TARGET) == TRINO and PINNED not in said and entry_id(entry) is not None


def told_locations(found: Iterable[HiveTable | None], base: str) -> Locations | None:
    """How entries of a table say that their engine spells places; None where none of them says it.

    Args:
        found: the entries that are there.
        base: URI of the table's folder, as we spell it.
    """
    for entry in found:
        text = entry.parameters.get(LOCATIONS) if entry is not None else None
        if entry is not None and text and entry.parameters.get(BASE_PATH) == base:
            return Locations.parse(text)
    return None


def entry_id(entry: HiveTable) -> str | None:
    """The number after which an entry's lists are named; None for what cannot be one, for it becomes a folder."""
    number = entry.parameters.get(ENTRY_ID, "")
    return number if _ID.fullmatch(number) else None


def column_comments(snapshot: Snapshot) -> Mapping[str, str]:
    """What the table's Avro schema says of its columns."""
    text = snapshot.client.table_schema_json(snapshot.timeline, snapshot.as_of)
    fields: list[Any] = json.loads(text).get("fields", []) if text else []
    return {field["name"]: field["doc"] for field in fields if isinstance(field.get("doc"), str) and field["doc"]}


def check_files_have_columns(snapshot: Snapshot, rules: ReadingRules) -> None:
    """Refuse a snapshot of which some files hold a column under another name, or something else under its name.

    Engines that read Parquet files by the names of columns would see nulls, or a column that was dropped.

    Args:
        snapshot: of the table.
        rules: of the engine, for the message.

    Raises:
        UnsupportedTableError: there is such a file; the message names the column.
    """
    if snapshot.schema_history is None:
        return
    instants: list[Any] = snapshot.take_files(snapshot.live_rows).column("instant").unique().to_pylist()
    for instant in instants:
        odd = differing_names(snapshot, instant)
        if odd:
            raise UnsupportedTableError(
                f"{snapshot.config.name}: column {odd[0]} was renamed, replaced or changed since files of {instant} "
                f"were written, and {rules.engine}, which reads Parquet by names, would get it wrong; rewrite the "
                f"files (clustering), {rules.otherwise}"
            )


def check_servable(snapshot: Snapshot, types: StoredTypes) -> None:
    """Refuse tables whose base files an engine that goes by columns' names and types would misread.

    Args:
        snapshot: of the table.
        types: what is known of the columns of the table's files.

    Raises:
        UnsupportedTableError: it is such a table.
    """
    config = snapshot.config
    if config.drop_partition_columns and config.partition_fields:
        raise UnsupportedTableError(
            f"{config.name}: its files lack the partition columns {', '.join(config.partition_fields)} "
            "(hoodie.datasource.write.drop.partition.columns); read the table through `hudi-catalog serve trino`"
        )
    check_files_have_columns(snapshot, TRINO_RULES)
    types.check(snapshot)
