"""Merge-on-read tables of Apache Hudi with what it reads of them."""

import os
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.merge.file_slice import read_file_slice
from table_format.merge.rules import MergeRules
from table_format.meta_columns import META_FIELDS
from table_format.slices.file_slices import latest_file_slices, list_data_files
from table_format.table.client import TableClient
from tests.support.paths import GOLDEN

_ARCHIVE = GOLDEN / "merge_on_read.tar.xz"
NAMES = (
    "0.15.0__mor_event_time",
    "0.15.0__mor_log_compacted",
    "0.15.0__mor_nested_order",
    "0.15.0__mor_parquet_blocks",
    "1.0.2__mor_duplicates",
    "1.0.2__mor_partial",
    "1.2.0__mor_duplicates",
    "1.2.0__mor_log_compacted",
    "1.2.0__mor_nested_order",
    "1.2.0__mor_null_dates",
    "1.2.0__mor_partial",
    "1.2.0__mor_types",
)


def unpack(folder):
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return str(folder)


def expected(folder, name):
    return pq.read_table(os.path.join(folder, name, "expected.parquet"))


def read_table(folder, name, columns=None, as_of=None):
    """All rows of a table, slice by slice, without the catalog."""
    client = TableClient.open(os.path.join(folder, name, "table"))
    timeline = client.timeline()
    schema = pa.schema([*META_FIELDS, *client.table_schema(timeline)])
    rules = MergeRules.of(client.config)
    pieces = []
    for one in latest_file_slices(list_data_files(client.storage), timeline, as_of=as_of).to_pylist():
        folder_of = f"{one['partition']}/" if one["partition"] else ""
        logs = [folder_of + log["file_name"] for log in one["logs"]]
        pieces.append(
            read_file_slice(
                client.storage,
                one["path"],
                logs,
                schema=schema,
                columns=columns,
                rules=rules,
                timeline=timeline,
                as_of=as_of,
            )
        )
    return pa.concat_tables(pieces)
