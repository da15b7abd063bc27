"""Schema on read as written: column ids in a commit, and the history of schemas beside it.

Apache's writers take a table's ids from its newest commit (`latest_schema`) and the history from the newest file of
`.hoodie/.schema` whose commit is on the active timeline. After a commit without them 0.15 refuses the next
write, and 1.x resolves columns by name, so renamed columns are empty. So every commit writes both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from table_format.codecs.avro_schema import avro_to_arrow, without_meta_columns
from table_format.schema.evolution import storage_schema
from table_format.schema.internal_schema import (
    evolve_schema,
    newest_of_history,
    parse_internal_schema,
    schema_history_with,
)
from table_format.storage import Storage
from table_format.table.schema_history import FOLDER, KEY, SchemaHistory, internal_schemas, newest_history
from table_format.timeline.timeline import Timeline


@dataclass(frozen=True)
class NextSchema:
    """A table's schema with column ids after a write.

    Attributes:
        text: of the schema, for the commit.
        history: text of all versions, for the file beside it.
    """

    text: str
    history: str


def next_schema(timeline: Timeline, instant: str, columns: pa.Schema) -> NextSchema | None:
    """The schema of a table after a write; None for a table whose columns are resolved by name.

    Args:
        timeline: as of the commit.
        instant: of the write.
        columns: of the table after it, without meta columns.

    Raises:
        CorruptFileError: a recorded schema is damaged.
        SchemaError: a new column of a type that such schemas do not have.
    """
    recorded = newest_history(timeline)
    if recorded is None:
        return None
    path, history = recorded
    written = ((timeline.path(write), timeline.extra_metadata(write).get(KEY)) for write in reversed(timeline.writes))
    place, text = next(((at, text) for at, text in written if text), (path, newest_of_history(history, path)))
    evolved = evolve_schema(text, place, storage_schema(columns), int(instant))
    return NextSchema(evolved, schema_history_with(history, path, evolved))


def schema_after(timeline: Timeline, instant: str, schema_json: str) -> NextSchema | None:
    """`next_schema` of a write after which the table has an Avro schema."""
    return next_schema(timeline, instant, without_meta_columns(avro_to_arrow(schema_json)))


def history_of_files(
    timeline: Timeline, instant: str, columns: pa.Schema, instants: Iterable[str]
) -> SchemaHistory | None:
    """The schemas by which a write reads files of some instants; None for a table whose columns are resolved by name.

    Args:
        timeline: as of the write's begin.
        instant: of the write.
        columns: the table's after it, without meta columns.
        instants: that wrote the files.

    Raises:
        CorruptFileError: a recorded schema is damaged.
        UnsupportedTableError: the schema of a file was not recorded.
    """
    following, history = next_schema(timeline, instant, columns), internal_schemas(timeline)
    if following is None or history is None:
        return None
    return history.pinned(parse_internal_schema(following.text, instant), instants)


def record_history(storage: Storage, instant: str, history: str) -> None:
    """Write the history of schemas of a commit that is about to be published; readers ignore it without the commit."""
    path = f"{FOLDER}/{instant}.schemacommit"
    for state in (".requested", ".inflight"):
        storage.overwrite(path + state, b"")
    storage.overwrite(path, history.encode())
