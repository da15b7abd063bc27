"""Writing files whole: the first file of a file group, and merges that surgery refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from table_format.base_file.footer import BaseFileFooter, footer
from table_format.codecs.arrow_numpy import one_chunk
from table_format.meta_columns import FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from table_format.table.schema_history import read_columns
from table_writer.encoding.base_file import BaseFileResult, same_key_texts, write_base_file, write_base_file_parts
from table_writer.execution.task_memory import again_from, release_free_memory
from table_writer.files.file_change import EncodedWork, FileChange, WrittenFile
from table_writer.metadata.column_statistics import GrowingBounds, collect_statistics, statistics_of, value_type
from table_writer.metadata.indexed_leaves import leaf_column
from table_writer.plan.plan import FilePlan
from table_writer.rows.merge import RowChanges, merged_rows, merged_values, with_constants
from table_writer.rows.several_rows import Several

ChangedKeys = Callable[[Any, Any], None]
"""Takes record keys that are new in a file, and record keys that it no longer holds."""

# Bytes per value in a dictionary-encoded chunk, dictionary included: about 1000 distinct values.
_FEW_VALUES_BYTES = 1.5


def few_valued_columns(base_file: BaseFileFooter) -> list[str]:
    """String columns of a base file with few distinct values, by the sizes in its footer.

    They are read as dictionaries, which are cheaper to merge and to write.
    """
    strings = {field.name for field in base_file.schema if pa.types.is_string(field.type)} - {RECORD_KEY}
    if base_file.metadata.num_row_groups == 0:
        return []
    group = base_file.metadata.row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in strings
        and not {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}.isdisjoint(chunk.encodings)
        and chunk.total_uncompressed_size < _FEW_VALUES_BYTES * max(1, chunk.num_values)
    ]


def write_first(change: FileChange) -> WrittenFile | None:
    """Write the first file of a file group; None if there are no rows for it."""
    incoming = change.incoming
    if len(incoming.keys) == 0:
        return None
    result, statistics = _store(change, change.added)
    deleted = incoming.keys.slice(0, 0)
    work = encoded_whole(result)
    return change.written(result.size, result.row_count, work, statistics, inserted=incoming.keys, deleted=deleted)


def write_first_in_parts(changes: Iterator[FileChange], changed_keys: ChangedKeys) -> WrittenFile | None:
    """Write the first file of a file group part by part, with one part in memory at a time.

    Args:
        changes: of the same file, each with rows, in key order.
        changed_keys: called with each part's changed keys, which the result does not have.
    """
    first = next(changes, None)
    if first is None:
        return None
    # keeps what is needed later, without the rows
    file = replace(first, incoming=first.incoming.without_rows())
    todo = again_from([first], changes)
    del first
    none = file.incoming.keys

    def parts() -> Iterator[pa.Table]:
        for change in todo:
            changed_keys(change.incoming.keys, none)
            rows = change.incoming.with_meta(change.task.number, change.partition, change.name)
            del change  # the batch's rows, before those of the file are encoded
            yield rows
            del rows

    result, statistics = store_parts(file, parts())
    return written_in_parts(file, result, statistics, inserted=result.row_count)


def written_in_parts(
    file: FileChange,
    result: BaseFileResult,
    statistics: pa.Table | None,
    *,
    inserted: int,
    updated: int = 0,
    deleted: int = 0,
    several: Several | None = None,
) -> WrittenFile:
    """A file that `store_parts` wrote, with counts of rows; its keys were reported part by part."""
    none: Any = pa.array([], pa.string())
    return file.written(
        result.size,
        result.row_count,
        encoded_whole(result),
        statistics,
        inserted=none,
        deleted=none,
        inserted_rows=inserted,
        updated_rows=updated,
        deleted_rows=deleted,
        several=several,
    )


def store_parts(file: FileChange, parts: Iterator[pa.Table]) -> tuple[BaseFileResult, pa.Table | None]:
    """Write a new version's rows, one table in memory at a time.

    Args:
        file: the change; its rows are not used.
        parts: rows with meta columns, at least one table.

    Returns:
        The file, and its statistics for the metadata table; None without them.
    """
    plan = file.plan
    bounds: dict[str, GrowingBounds] = {}

    def bounded() -> Iterator[pa.Table]:
        for part in parts:
            for name in plan.indexed or ():
                column = leaf_column(part, name)
                if column is not None:
                    bounds.setdefault(name, GrowingBounds(name, value_type(column.type))).add_rows(column)
                del column
            yield part
            del part  # before the next one is made
            release_free_memory()

    file.announce()
    result = write_base_file_parts(
        plan.storage, file.target, bounded(), plan.footer_schema, plan.file_options, footer_texts=plan.footer_texts
    )
    if plan.indexed is None:
        return result, None
    columns = (column.values() for column in bounds.values())
    return result, statistics_of(columns, file.name, file.partition, result.metadata)


def write_moved(change: FileChange, rows: pa.Table) -> WrittenFile:
    """Write rows of other files, which keep their commit times, into the first file of a file group.

    Args:
        change: of the new file; its own rows are not used.
        rows: in the order of the file, of `current_schema`.
    """
    result, statistics = _store(change, with_constants(rows, change.partition, change.name))
    return written_in_parts(change, result, statistics, inserted=result.row_count)


def write_moved_in_parts(change: FileChange, parts: Iterator[pa.Table]) -> WrittenFile:
    """`write_moved` for rows that come part by part, at least one."""

    def completed() -> Iterator[pa.Table]:
        for rows in parts:
            yield with_constants(rows, change.partition, change.name)
            del rows  # before the next ones are read

    result, statistics = store_parts(change, completed())
    return written_in_parts(change, result, statistics, inserted=result.row_count)


def rewrite_whole(change: FileChange) -> WrittenFile | None:
    """Decode a file, merge the rows into it, encode it; None if nothing changes."""
    old = current_rows(change.plan, change.path)
    old_keys = one_chunk(old.column(RECORD_KEY))
    changes = change.row_changes(old, old_keys)
    if not changes.changed:
        return None
    return rewrite_rows(change, old, old_keys, changes, footer(change.plan.storage, change.path))


def rewrite_rows(
    change: FileChange, old: pa.Table, old_keys: Any, changes: RowChanges, old_footer: BaseFileFooter
) -> WrittenFile:
    """Merge the rows into those of a file, and encode all.

    Args:
        change: of the file.
        old: all its rows, see `current_rows`.
        old_keys: their record keys, in one array.
        changes: of these rows.
        old_footer: of the file.
    """
    merged = merged_rows(old_keys, change.incoming.keys, changes)
    added = old.slice(0, 0) if change.plan.delete else change.added
    values = merged_values(old, added, merged.rows, merged.places, change.incoming.kept_columns)
    same_keys = not merged.inserted and not merged.deleted
    texts = same_key_texts(old_footer, change.plan.file_options) if same_keys else None
    result, statistics = _store(change, with_constants(values, change.partition, change.name), texts)
    work = encoded_whole(result)
    return change.merged(
        old_keys, changes, size=result.size, row_count=result.row_count, work=work, statistics=statistics
    )


def current_schema(plan: FilePlan) -> pa.Schema:
    """The table's schema without the constant meta columns of partition and file name."""
    return pa.schema([field for field in (*META_FIELDS, *plan.schema) if field.name not in (PARTITION_PATH, FILE_NAME)])


def current_rows(plan: FilePlan, path: str) -> pa.Table:
    """A file's rows in `current_schema`."""
    few = few_valued_columns(footer(plan.storage, path)) if plan.history is None else ()
    rows = read_columns(plan.storage, path, current_schema(plan), plan.history, few)
    return rows.unify_dictionaries().combine_chunks()


def encoded_whole(result: BaseFileResult) -> EncodedWork:
    """The work of a file with all column chunks encoded."""
    groups = [result.metadata.row_group(number) for number in range(result.metadata.num_row_groups)]
    sizes = [group.column(index).total_compressed_size for group in groups for index in range(group.num_columns)]
    return EncodedWork(bytes_encoded=sum(sizes), chunks_encoded=len(sizes), groups_touched=len(groups))


def _store(
    change: FileChange, table: pa.Table, key_texts: Mapping[str, str] | None = None
) -> tuple[BaseFileResult, pa.Table | None]:
    plan = change.plan
    change.announce()
    result = write_base_file(
        plan.storage,
        change.target,
        table,
        plan.footer_schema,
        plan.file_options,
        footer_texts=plan.footer_texts,
        key_texts=key_texts,
    )
    if plan.indexed is None:
        return result, None
    return result, collect_statistics(table, change.name, change.partition, plan.indexed, result.metadata)
