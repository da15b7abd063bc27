"""An edit of a Parquet file by reading and rewriting all of it, to compare surgery with."""

import math
import os

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.metadata.column_statistics import ColumnValues, collect_statistics, indexable_columns, statistics_of
from table_writer.metadata.file_contents import statistics_of_file
from table_writer.surgery.splice import FileEdit, NewColumns, splice
from tests.support.parquet_pages import check_pages


def expected_groups(path: str, edit: FileEdit) -> list[pa.Table]:
    """The rows that each row group should have."""
    file = pq.ParquetFile(path)
    groups = []
    for ordinal in range(file.num_row_groups):
        old = file.read_row_group(ordinal)
        change = edit.groups.get(ordinal)
        if change is None:
            groups.append(old)
        elif isinstance(change, NewColumns):
            changed = change.table
            names = old.column_names
            columns = [changed[name] if name in changed.column_names else old[name] for name in names]
            if len(changed) != len(old):
                columns = [
                    changed[n] if n in changed.column_names else pa.nulls(len(changed), old[n].type) for n in names
                ]
            groups.append(pa.table(columns, names=names).cast(old.schema))
    groups += [table.select(file.schema_arrow.names).cast(file.schema_arrow) for table in edit.appended]
    for name, text in edit.constants.items():
        groups = [_with_constant(table, name, text) for table in groups]
    return groups


def _with_constant(table, name, text):
    position = table.column_names.index(name)
    return table.set_column(position, table.schema.field(name), pa.array([text] * len(table), table[name].type))


def same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables hold the same; NaN is NaN, and zeros have their signs."""
    return left.schema.equals(right.schema) and repr(left.to_pylist()) == repr(right.to_pylist())


def check_splice(folder: str, edit: FileEdit, options: BaseFileOptions | None = None, source: str = "old.parquet"):
    """Splice `old.parquet` of a folder, check all of the result, and return it."""
    path, target = os.path.join(folder, source), os.path.join(folder, "new.parquet")
    expected = expected_groups(path, edit)
    storage = Storage(folder)
    result = splice(storage, source, "new.parquet", edit, options or BaseFileOptions())
    with open(target, "rb") as stream:
        data = stream.read()
    report = check_pages(data)
    assert result.size == len(data)
    assert result.bytes_copied + result.bytes_encoded == report.bytes_of_chunks
    assert result.row_count == report.rows == sum(map(len, expected))
    file = pq.ParquetFile(target, page_checksum_verification=True)
    assert file.num_row_groups == len(expected)
    for ordinal, rows in enumerate(expected):
        group = file.read_row_group(ordinal)
        assert same_rows(group, rows), (ordinal, group.to_pylist()[:5], rows.to_pylist()[:5])
    check_statistics(storage, "new.parquet", result.metadata)
    return result


def check_statistics(storage: Storage, name: str, metadata: pq.FileMetaData) -> None:
    """The statistics by the footer are those of the rows."""
    rows = pq.ParquetFile(storage.full_path(name), coerce_int96_timestamp_unit="us").read().replace_schema_metadata()
    indexed = indexable_columns(rows.schema, {"hoodie.populate.meta.fields": "false"})
    indexed += [column for column in rows.column_names if column.startswith("_hoodie_")]
    statistics = statistics_of_file(storage, name, metadata, rows.schema, indexed, file_name=name, partition="p")
    assert statistics.to_pylist() == statistics_by_values(rows, name, "p", indexed, metadata).to_pylist()
    assert statistics.to_pylist() == collect_statistics(rows, name, "p", indexed, metadata).to_pylist()


def statistics_by_values(
    rows: pa.Table, name: str, partition: str, columns: list[str], metadata: pq.FileMetaData
) -> pa.Table:
    """A file's statistics without the bounds in its footer."""
    values = [ColumnValues(column, rows[column], len(rows), rows[column].null_count) for column in columns]
    return statistics_of(values, name, partition, metadata)


def chunk_bytes(path: str, group: int, column: int) -> bytes:
    """The pages of a column chunk."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(column)
    start = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    with open(path, "rb") as stream:
        stream.seek(start)
        return stream.read(chunk.total_compressed_size)


def has_nan(values: list) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for value in values)
