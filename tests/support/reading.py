"""The current rows of a table, read file by file without the catalog."""

from typing import Any

import pyarrow as pa

from table_format.base_file.reader import read_base_file
from table_format.meta_columns import META_FIELDS
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.table.client import TableClient


def current_paths(client: TableClient) -> list[str]:
    return latest_base_files(list_data_files(client.storage), client.timeline())["path"].to_pylist()


def current_rows(client: TableClient) -> pa.Table:
    schema = pa.schema([*META_FIELDS, *client.table_schema()]).remove_metadata()
    tables = [read_base_file(client.storage, path, schema=schema) for path in current_paths(client)]
    return pa.concat_tables([schema.empty_table(), *tables])


def user_rows(client: TableClient) -> list[dict[str, Any]]:
    rows = current_rows(client)
    return rows.select([name for name in rows.column_names if not name.startswith("_hoodie_c")][3:]).to_pylist()
