"""Data files, key columns and schemas of tables that Apache Hudi wrote."""

import functools
import io
import json
import os
import tarfile

import pyarrow.parquet as pq

from table_format.storage import Storage
from tests.support.paths import GOLDEN

_ARCHIVE = GOLDEN / "base_files.tar.xz"

with tarfile.open(_ARCHIVE) as _tar:
    FILES = {m.name.removeprefix("./"): _tar.extractfile(m).read() for m in _tar.getmembers() if m.isfile()}

FACTS = json.loads(FILES["facts.json"])
KEY_TABLES = sorted(name[5:-8] for name in FILES if name.startswith("keys/"))
DATA_FILES = sorted(FACTS["files"])


@functools.cache
def keys_of(table):
    return pq.read_table(io.BytesIO(FILES[f"keys/{table}.parquet"]))


@functools.cache
def rows_of(table):
    return pq.read_table(io.BytesIO(FILES[f"files/{table}__rows.parquet"])).replace_schema_metadata(None)


def lay_out(folder):
    """All data files in one folder."""
    for name in DATA_FILES:
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(FILES[f"files/{name}"])
    return Storage(str(folder))
