"""Files that are written as a whole: the first of a file group, and merged ones that surgery does not pay for."""

from __future__ import annotations

import pyarrow as pa

from table_format.base_file.footer import footer
from table_format.base_file.writer import BaseFileResult, write_base_file
from table_format.codecs.arrow_numpy import one_chunk
from table_format.meta_columns import FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from table_format.table.schema_history import read_columns
from table_writer.files.few_values import few_valued_columns
from table_writer.files.merge_request import FileFacts, MergeRequest, NewVersion
from table_writer.files.written import EncodedWork
from table_writer.metadata.column_statistics import collect_statistics
from table_writer.plan.plan import FilePlan
from table_writer.rows.merge import merged_rows
from table_writer.rows.values import merged_values, with_constants


def write_first(request: MergeRequest) -> NewVersion | None:
    """Write the first file of a file group; None when there are no rows for it."""
    incoming = request.incoming
    if len(incoming.keys) == 0:
        return None
    result, statistics = _store(request, request.added)
    none = incoming.keys.slice(0, 0)
    work = encoded_whole(result)
    return NewVersion(result.size, result.row_count, incoming.keys, none, 0, 0, work, statistics)


def rewrite_whole(request: MergeRequest) -> NewVersion | None:
    """Decode a file, merge the rows into it, encode it; None when nothing changes."""
    old = current_rows(request.plan, request.path)
    old_keys = one_chunk(old.column(RECORD_KEY))
    changes = request.changes(old, old_keys)
    if not changes.changed:
        return None
    merged = merged_rows(old_keys, request.incoming.keys, changes)
    added = old.slice(0, 0) if request.plan.delete else request.added
    values = merged_values(old, added, merged.rows, merged.places, request.incoming.kept_columns)
    result, statistics = _store(request, with_constants(values, request.partition, request.name))
    facts = FileFacts(result.size, result.row_count, encoded_whole(result), statistics)
    return NewVersion.of(request, old_keys, changes, facts)


def current_rows(plan: FilePlan, path: str) -> pa.Table:
    """A file's rows in the table's schema, without the two columns that are one text in each file."""
    schema = pa.schema([*META_FIELDS, *plan.schema])
    names = [name for name in schema.names if name not in (PARTITION_PATH, FILE_NAME)]
    few = few_valued_columns(footer(plan.storage, path)) if plan.history is None else ()
    rows = read_columns(plan.storage, path, pa.schema([schema.field(name) for name in names]), plan.history, few)
    return rows.unify_dictionaries().combine_chunks()


def encoded_whole(result: BaseFileResult) -> EncodedWork:
    """The work of a file all of whose column chunks were encoded."""
    groups = [result.metadata.row_group(number) for number in range(result.metadata.num_row_groups)]
    sizes = [group.column(index).total_compressed_size for group in groups for index in range(group.num_columns)]
    return EncodedWork(bytes_encoded=sum(sizes), chunks_encoded=len(sizes), groups_touched=len(groups))


def _store(request: MergeRequest, table: pa.Table) -> tuple[BaseFileResult, pa.Table | None]:
    plan = request.plan
    request.announce()
    result = write_base_file(
        plan.storage, request.target, table, plan.footer_schema, plan.file_options, footer_texts=plan.footer_texts
    )
    if plan.indexed is None:
        return result, None
    return result, collect_statistics(table, request.name, request.partition, plan.indexed, result.metadata)
