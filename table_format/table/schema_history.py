"""Schema on read: maps columns of a data file to columns of the table after renames, drops and moves.

Where `ALTER TABLE` renamed or dropped a column, older files keep the old names. Hudi then records schemas with column
ids, in the commits (`latest_schema`) and in `.hoodie/.schema`: columns with one id are one column, columns with one
name and different ids are not.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from table_format.base_file.reader import only_nulls, read_base_file
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.instant import Instant
from table_format.schema.evolution import conform
from table_format.schema.internal_schema import (
    GONE,
    InternalSchema,
    SchemaColumn,
    parse_internal_schema,
    parse_schema_history,
    rename_field,
)
from table_format.slices.file_names import BaseFileName
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline

FOLDER: Final = ".hoodie/.schema"
KEY: Final = "latest_schema"
_FILE: Final = re.compile(r"([0-9]+)(?:_[0-9]+)?\.schemacommit", re.ASCII)


@dataclass(frozen=True, eq=False)
class SchemaHistory:
    """Schema versions of a table whose columns have ids.

    Attributes:
        timeline: the data table's.
        current: the schema of the query.
        versions: all recorded schemas, oldest first.
    """

    timeline: Timeline
    current: InternalSchema
    versions: tuple[InternalSchema, ...]
    _stored: dict[str, InternalSchema] = field(default_factory=dict)

    def stored_schema(self, instant: str) -> InternalSchema:
        """Schema of the files or log blocks written by an instant.

        Raises:
            UnsupportedTableError: their schema was not recorded.
        """
        if instant not in self._stored:
            self._stored[instant] = self._find(instant)
        return self._stored[instant]

    def physical_names(self, instant: str, columns: Iterable[str]) -> dict[str, str | None]:
        """Name of each of the table's columns in a file.

        Args:
            instant: that wrote the file.
            columns: names of the table's columns, at the top level.

        Returns:
            By column; None if the file lacks it, even if the file has another column of that name.

        Raises:
            UnsupportedTableError: as for `stored_schema`.
        """
        stored = {column.id: column.name for column in self.stored_schema(instant).columns}
        ids = {column.name: column.id for column in self.current.columns}
        return {name: stored.get(ids[name]) if name in ids else name for name in columns}

    def same_names(self, instant: str, columns: Iterable[str]) -> set[str]:
        """The columns whose name and sort order are the same in a file and now, at all levels.

        The file's statistics under any other column name may belong to another column, or use another order.

        Raises:
            UnsupportedTableError: as for `stored_schema`.
        """
        stored = {column.name: column for column in self.stored_schema(instant).columns}
        current = {column.name: column for column in self.current.columns}
        return {name for name in columns if name not in current or _same(stored.get(name), current[name])}

    def renamed(self, instant: str, table: pa.Table) -> pa.Table:
        """Rename the columns of a file or block to their current names.

        Dropped columns are left out; inside structs they get a reserved name. No data is
        copied. Types stay as they are.

        Raises:
            UnsupportedTableError: as for `stored_schema`.
        """
        stored = {column.name: column for column in self.stored_schema(instant).columns}
        current = self.current.by_id()
        columns: dict[str, Any] = {}
        for old in table.schema:
            # columns that are in no schema, such as those that Hudi adds itself
            new = rename_field(old, stored, current) if old.name in stored else old
            if not new.name.startswith(GONE):
                chunks = [chunk.view(new.type) for chunk in table[old.name].chunks]
                columns[new.name] = pa.chunked_array(chunks, new.type)
        return pa.table(columns)

    def pinned(self, current: InternalSchema, instants: Iterable[str]) -> SchemaHistory:
        """A small copy for workers: for another current schema, and files of some instants only.

        Raises:
            UnsupportedTableError: as for `stored_schema`.
        """
        history = replace(self, current=current, _stored={})
        stored = {instant: history.stored_schema(instant) for instant in instants}
        return SchemaHistory(Timeline(self.timeline.storage, ()), current, (), stored)

    def to_schema(self, current: InternalSchema) -> SchemaHistory:
        """The same for another current schema; workers take it, and read the commits whose files they meet."""
        return replace(self, current=current, timeline=replace(self.timeline), _stored={})

    def read(self, storage: Storage, path: str, schema: pa.Schema) -> pa.Table:
        """Read a base file in the table's columns.

        Args:
            storage: the table's.
            path: of the file.
            schema: the columns.

        Raises:
            CorruptFileError: the file or its name is not a base file's.
            SchemaError: a column cannot be cast to the schema's type.
            UnsupportedTableError: as for `stored_schema`.
        """
        instant = _instant_of(path)
        stored = [physical for physical in self.physical_names(instant, schema.names).values() if physical]
        table = read_base_file(storage, path, columns=stored)
        return conform(self.renamed(instant, table), schema) if table.num_columns else only_nulls(schema, len(table))

    def is_current(self, path: str) -> bool:
        """Whether a base file has exactly the table's current columns."""
        return self.stored_schema(_instant_of(path)).columns == self.current.columns

    def _find(self, instant: str) -> InternalSchema:
        write = next((write for write in self.timeline.writes if write.time == instant), None)
        own = _schema_of(self.timeline, write) if write else None
        if own is not None:
            return own
        older = [schema for schema in self.versions if schema.version <= int(instant)]
        if not older:
            raise UnsupportedTableError(
                f"{FOLDER}: columns were renamed or dropped, but no schema was recorded for files of {instant}"
            )
        if write is None:
            return older[-1]
        # A writer without column ids goes by names, and may have added columns that got an id later.
        known, names = older[-1].by_id(), {column.name for column in older[-1].columns}
        added = [column for column in self.current.columns if column.id not in known and column.name not in names]
        return InternalSchema(older[-1].version, (*older[-1].columns, *added))


def read_columns(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    history: SchemaHistory | None,
    dictionary_columns: Sequence[str] = (),
) -> pa.Table:
    """Read a base file in the table's columns, matched by id if the table has a schema history.

    Args:
        storage: the table's.
        path: of the file.
        schema: the columns.
        history: see `SchemaHistory`.
        dictionary_columns: see `read_base_file`.

    Raises:
        HudiError: as for `read_base_file` and `SchemaHistory.read`.
    """
    if history is None:
        return read_base_file(storage, path, schema=schema, dictionary_columns=dictionary_columns)
    return history.read(storage, path, schema)


def internal_schemas(
    timeline: Timeline, as_of: str | None = None, *, newest: Timeline | None = None
) -> SchemaHistory | None:
    """Load a table's schemas with column ids; None if it has none, and columns are matched by name.

    Args:
        timeline: the data table's.
        as_of: instant of the query; None for the newest.
        newest: the current timeline, if `timeline` was cut to an earlier time. Releases from 1.0 on
            keep a single file of recorded schemas, written by the newest of these writes.

    Raises:
        CorruptFileError: a recorded schema is damaged.
    """
    recorded = _recorded(newest or timeline)
    if not recorded:
        return None
    current = next(
        (
            schema
            for write in reversed(timeline.writes)
            if as_of is None or write.time <= as_of
            if (schema := _schema_of(timeline, write))
        ),
        None,
    )
    if current is None:
        current = [schema for schema in recorded if as_of is None or schema.version <= int(as_of)][-1]
    return SchemaHistory(timeline, current, tuple(recorded))


def _recorded(timeline: Timeline) -> list[InternalSchema]:
    """Schemas in the newest file of the folder that a completed write made."""
    newest = newest_history(timeline)
    return (
        [] if newest is None else sorted(parse_schema_history(newest[1], newest[0]), key=lambda schema: schema.version)
    )


def newest_history(timeline: Timeline) -> tuple[str, str] | None:
    """Path and text of the newest schema history by a completed write; None if there is none."""
    newest: tuple[str, str] | None = None
    for entry in timeline.storage.list(FOLDER):
        match = _FILE.fullmatch(entry.name)
        if match and timeline.is_committed(match[1]):
            newest = max(newest or ("", ""), (match[1], entry.path))
    if newest is None:
        return None
    return newest[1], timeline.storage.read(newest[1]).decode("utf-8", "replace")


def _instant_of(path: str) -> str:
    name = BaseFileName.parse(posixpath.basename(path))
    if name is None:
        raise CorruptFileError(path, 0, "not the name of a base file")
    return name.instant


def _schema_of(timeline: Timeline, write: Instant) -> InternalSchema | None:
    text = timeline.extra_metadata(write).get(KEY)
    return parse_internal_schema(text, timeline.path(write)) if text else None


def _same(stored: SchemaColumn | None, current: SchemaColumn) -> bool:
    """Whether a stored column is the current one with the same sort order, and members have kept their names."""
    if stored is None or stored.id != current.id or stored.name != current.name:
        return False
    if stored.kind != current.kind and not (_is_number(stored) and _is_number(current)):
        return False
    by_id = {member.id: member for member in stored.members}
    names = {member.name for member in stored.members}
    return all(
        _same(by_id[member.id], member) if member.id in by_id else member.name not in names
        for member in current.members
    )


def _is_number(column: SchemaColumn) -> bool:
    return column.kind in ("int", "long", "float", "double") or column.kind.startswith("decimal")
