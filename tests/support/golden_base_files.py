"""Data files, key columns and schemas of tables that Apache Hudi wrote, with Apache's facts about their columns."""

import functools
import io
import json
import os
import tarfile
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.avro_schema import avro_to_arrow, without_meta_columns
from table_format.meta_columns import META_FIELDS
from table_format.storage import Storage
from tests.support import golden_metadata, golden_tables
from tests.support.paths import GOLDEN

_FILES_PER_TABLE = 8
#: Tables of all types, list layouts and schemas.
_ALL_KINDS = (
    *("v6_0150__bkt_complex", "v6_0150__bkt_evolve", "v6_0150__bkt_hive", "v6_0150__bkt_np_bulk"),
    *("v6_0150__bkt_np_types", "v6_0150__edge_stats", "v6_1200__bkt_complex", "v6_1200__bkt_keytypes"),
    *("v6_1200__edge_stats", "v6_1200__rli_part"),
)
with tarfile.open(GOLDEN / "tables/tables.tar.xz") as _tar:
    _MEMBERS = {m.name.removeprefix("./"): _tar.extractfile(m).read() for m in _tar.getmembers() if m.isfile()}

#: Tables whose rows have Hudi's columns.
KEY_TABLES = sorted(
    name
    for name in {path.partition("/")[0] for path in _MEMBERS}
    if golden_tables.facts(name)["properties"]["hoodie.populate.meta.fields"] == "true"
)


@dataclass(frozen=True)
class DataFile:
    """A data file.

    Attributes:
        table: that it belongs to.
        partition: its folder in the table.
        data: its bytes.
        live: whether it is of the latest file slices.
    """

    table: str
    partition: str
    data: bytes
    live: bool


@functools.cache
def properties_of(table):
    """As Apache reads them."""
    return golden_tables.facts(table)["properties"]


@functools.cache
def expected(table):
    """Rows for JSON, options of the writes, and file slices, as Apache says."""
    return json.loads(_MEMBERS[f"{table}/expected.json"])


def options_of(table):
    """Of the table's writes, about indexes."""
    return {key: value for key, value in expected(table)["write_options"].items() if "index" in key}


def _live(table):
    """Paths of the latest data files."""
    slices = expected(table)["file_slices"]
    return sorted(os.path.join(row["partition"], row["base_file"]) for row in slices if row["base_file"])


def _rows_in(data):
    return pq.read_metadata(io.BytesIO(data)).num_rows


def _data_files():
    files = {}
    for table in _ALL_KINDS:
        prefix, live = f"{table}/table/", _live(table)
        paths = [path.removeprefix(prefix) for path in _MEMBERS if path.startswith(prefix)]
        paths = [path for path in paths if path.endswith(".parquet") and not path.startswith(".hoodie/")]
        paths = [path for path in [*live, *sorted({*paths} - {*live})] if _rows_in(_MEMBERS[prefix + path])]
        for path in paths[:_FILES_PER_TABLE]:
            partition, name = os.path.split(path)
            files[name] = DataFile(table, partition, _MEMBERS[prefix + path], path in live)
    return files


FILES = _data_files()
DATA_FILES = sorted(FILES)
LIVE = [name for name in DATA_FILES if FILES[name].live]


@functools.cache
def keys_of(table):
    """Hudi's columns and the key columns of each row."""
    properties = properties_of(table)
    named = [properties.get(f"hoodie.table.{kind}.fields") or "" for kind in ("recordkey", "partition")]
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    columns += dict.fromkeys(field for text in named for field in text.split(",") if field)
    files = [pq.ParquetFile(io.BytesIO(_MEMBERS[f"{table}/table/{path}"])) for path in _live(table)]
    return pa.concat_tables(file.read(columns).replace_schema_metadata(None) for file in files)


@functools.cache
def statistics_of(name):
    """Statistics of a data file's columns as Apache's reader shows them."""
    stats = golden_metadata.facts(FILES[name].table)["column_stats"]
    return [row for row in stats if row["fileName"] == name]


def schemas_of(table):
    """Avro schemas in the table's commits, from the oldest on; a delete of partitions writes Hudi's columns too."""
    commits = [
        json.loads(data)
        for path, data in sorted(golden_tables.timeline_files(table, "commit"))
        if path.endswith((".commit", ".deltacommit")) and data
    ]
    texts = [commit["extraMetadata"].get("schema") for commit in commits]
    return list(dict.fromkeys(text for text in texts if text))


def table_schema(table):
    """The columns of a table's files, Hudi's own among them."""
    user = without_meta_columns(avro_to_arrow(schemas_of(table)[-1]))
    return pa.schema([*META_FIELDS, *user])


def lay_out(folder):
    """All data files in one folder."""
    for name, file in FILES.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(file.data)
    return Storage(str(folder))
