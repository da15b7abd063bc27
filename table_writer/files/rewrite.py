"""Writing files whole: the first file of a file group, and merges that surgery does not do."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from table_format.base_file.footer import BaseFileFooter, footer
from table_format.base_file.writer import BaseFileResult, write_base_file, write_base_file_parts
from table_format.codecs.arrow_numpy import one_chunk, pc
from table_format.meta_columns import FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from table_format.table.schema_history import read_columns
from table_writer.files.file_change import EncodedWork, FileChange, WrittenFile
from table_writer.metadata.column_statistics import ColumnValues, collect_statistics, statistics_of
from table_writer.plan.plan import FilePlan
from table_writer.rows.merge import merged_rows, merged_values, with_constants

# Bytes a value in a dictionary-encoded chunk, dictionary included: about 1000 distinct values.
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
    """Write the first file of a file group; None when there are no rows for it."""
    incoming = change.incoming
    if len(incoming.keys) == 0:
        return None
    result, statistics = _store(change, change.added)
    deleted = incoming.keys.slice(0, 0)
    work = encoded_whole(result)
    return change.written(result.size, result.row_count, work, statistics, inserted=incoming.keys, deleted=deleted)


def write_first_in_parts(changes: Iterator[FileChange]) -> WrittenFile | None:
    """Write the first file of a file group part by part, so that one part is in memory at a time.

    Args:
        changes: of the same file, none without rows, their record keys rising.
    """
    first = next(changes, None)
    if first is None:
        return None
    started, plan = first.started, first.plan
    # all that is needed of it later, without its rows
    file = replace(first, incoming=first.incoming.without_rows())
    bounds = None if plan.indexed is None else GrowingBounds(plan.indexed)
    keys: list[Any] = []

    def parts() -> Iterator[pa.Table]:
        for change in todo:
            keys.append(change.incoming.keys)
            table = change.incoming.with_meta(change.task.number, change.partition, change.name)
            if bounds is not None:
                bounds.add(table)
            yield table

    todo = itertools.chain([first], changes)
    del first
    file.announce()
    result = write_base_file_parts(
        plan.storage, file.target, parts(), plan.footer_schema, plan.file_options, footer_texts=plan.footer_texts
    )
    statistics = None if bounds is None else statistics_of(bounds.columns(), file.name, file.partition, result.metadata)
    return replace(file, started=started).written(
        result.size,
        result.row_count,
        encoded_whole(result),
        statistics,
        inserted=pa.chunked_array(keys),
        deleted=keys[0].slice(0, 0),
    )


class GrowingBounds:
    """What column statistics need of rows that come table by table.

    Args:
        names: columns with statistics.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._values: dict[str, list[Any]] = {}
        self._rows = 0
        self._nulls: Counter[str] = Counter()

    def add(self, table: pa.Table) -> None:
        """Take some rows in."""
        self._rows += len(table)
        for name in self._names:
            if name in table.column_names:
                column = table.column(name)
                self._nulls[name] += column.null_count
                self._values.setdefault(name, []).append(_extremes(column))

    def columns(self) -> Iterator[ColumnValues]:
        """The columns, each with a few values of the same bounds."""
        for name, values in self._values.items():
            yield ColumnValues(name, pa.concat_arrays(values), self._rows, self._nulls[name])


def _extremes(column: Any) -> Any:
    """Some values of a column: the least, the greatest and a NaN where there is one; a null where all are null."""
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(
            [chunk.dictionary.take(pc.unique(chunk.indices)) for chunk in column.chunks], column.type.value_type
        )
    if column.null_count == len(column):
        return pa.nulls(1, column.type)
    if pa.types.is_floating(column.type):
        nan = pc.is_nan(column).fill_null(False)
        numbers = column.filter(pc.invert(nan)).drop_null()
        least = pc.min_max(numbers)
        some: list[Any] = [least["min"], least["max"]] if len(numbers) else []
        if len(numbers) < len(column) - column.null_count:
            some.append(pa.scalar(float("nan"), column.type))
        return pa.array(some, column.type)
    bounds = pc.min_max(column)
    return pa.array([bounds["min"], bounds["max"]], column.type)


def rewrite_whole(change: FileChange) -> WrittenFile | None:
    """Decode a file, merge the rows into it, encode it; None when nothing changes."""
    old = current_rows(change.plan, change.path)
    old_keys = one_chunk(old.column(RECORD_KEY))
    changes = change.row_changes(old, old_keys)
    if not changes.changed:
        return None
    merged = merged_rows(old_keys, change.incoming.keys, changes)
    added = old.slice(0, 0) if change.plan.delete else change.added
    values = merged_values(old, added, merged.rows, merged.places, change.incoming.kept_columns)
    result, statistics = _store(change, with_constants(values, change.partition, change.name))
    work = encoded_whole(result)
    return change.merged(
        old_keys, changes, size=result.size, row_count=result.row_count, work=work, statistics=statistics
    )


def current_rows(plan: FilePlan, path: str) -> pa.Table:
    """A file's rows in the table's schema, without the constant meta columns of partition and file name."""
    schema = pa.schema([*META_FIELDS, *plan.schema])
    names = [name for name in schema.names if name not in (PARTITION_PATH, FILE_NAME)]
    few = few_valued_columns(footer(plan.storage, path)) if plan.history is None else ()
    rows = read_columns(plan.storage, path, pa.schema([schema.field(name) for name in names]), plan.history, few)
    return rows.unify_dictionaries().combine_chunks()


def encoded_whole(result: BaseFileResult) -> EncodedWork:
    """The work of a file with all column chunks encoded."""
    groups = [result.metadata.row_group(number) for number in range(result.metadata.num_row_groups)]
    sizes = [group.column(index).total_compressed_size for group in groups for index in range(group.num_columns)]
    return EncodedWork(bytes_encoded=sum(sizes), chunks_encoded=len(sizes), groups_touched=len(groups))


def _store(change: FileChange, table: pa.Table) -> tuple[BaseFileResult, pa.Table | None]:
    plan = change.plan
    change.announce()
    result = write_base_file(
        plan.storage, change.target, table, plan.footer_schema, plan.file_options, footer_texts=plan.footer_texts
    )
    if plan.indexed is None:
        return result, None
    return result, collect_statistics(table, change.name, change.partition, plan.indexed, result.metadata)
