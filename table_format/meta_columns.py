"""Hudi's five meta columns, the first columns of every data file."""

from __future__ import annotations

import pyarrow as pa

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""The meta columns in file order."""

META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)
IS_DELETED = "_hoodie_is_deleted"
"""A boolean user column: true in a batch deletes the record."""
