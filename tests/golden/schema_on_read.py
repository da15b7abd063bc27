"""Make `schema_on_read.tar.xz`: tables whose columns were renamed, dropped and added between four inserts."""

import json
import sys
from pathlib import Path

import pyarrow as pa

from tests.golden.packing import Members, files_of, remake
from tests.support.apache_hudi_client import ApacheHudi

#: By name in the archive.
TABLES = {"v6_0150": "0.15.0", "v8_1020": "1.0.2", "v9_1200": "1.2.0"}

_SETTINGS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.spark.sql.insert.into.operation": "upsert",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.metadata.enable": "false",
    # it cannot read renamed members
    "spark.sql.parquet.enableVectorizedReader": "false",
}
_COLUMNS = (
    "id bigint, name string, price double, old int, s struct<a: int, b: string>, l array<struct<x: int, y: string>>, "
    "m map<string, struct<k: int, v: string>>, ts bigint"
)
#: `t` is the table; the names of members follow the changes.
_STATEMENTS = (
    (
        "INSERT INTO t SELECT 1L, 'one', 1.5D, 10, named_struct('a', 1, 'b', 'x'), "
        "array(named_struct('x', 1, 'y', 'p')), map('q', named_struct('k', 1, 'v', 'V')), 1L"
    ),
    "ALTER TABLE t RENAME COLUMN name TO title",
    "ALTER TABLE t RENAME COLUMN s.a TO aa",
    "ALTER TABLE t RENAME COLUMN l.element.x TO xx",
    "ALTER TABLE t RENAME COLUMN m.value.k TO kk",
    (
        "INSERT INTO t SELECT 2L, 'two', 2.5D, 20, named_struct('aa', 2, 'b', 'y'), "
        "array(named_struct('xx', 2, 'y', 'q')), map('q', named_struct('kk', 2, 'v', 'W')), 1L"
    ),
    "ALTER TABLE t DROP COLUMN old",
    "ALTER TABLE t ADD COLUMNS (old string AFTER id)",
    "ALTER TABLE t DROP COLUMN s.b",
    (
        "INSERT INTO t SELECT 3L, 'again', 'three', 3.25D, named_struct('aa', 3), "
        "array(named_struct('xx', 3, 'y', 'r')), map('q', named_struct('kk', 3, 'v', 'X')), 1L"
    ),
    "ALTER TABLE t ADD COLUMNS (name string)",
    (
        "INSERT INTO t SELECT 4L, 're', 'four', 4.25D, named_struct('aa', 4), array(named_struct('xx', 4, 'y', 's')), "
        "map('q', named_struct('kk', 4, 'v', 'Y')), 1L, 'new'"
    ),
)


def write(apache: ApacheHudi, folder: Path) -> Members:
    """The table `renames`, with one insert a file, and its rows as JSON."""
    properties = "type = 'cow', primaryKey = 'id', preCombineField = 'ts'"
    create = f"CREATE TABLE t ({_COLUMNS}) USING hudi TBLPROPERTIES ({properties}) LOCATION '{folder}'"
    for statement in (*(f"SET {key}={value}" for key, value in _SETTINGS.items()), create, *_STATEMENTS):
        apache.sql(statement.replace(" t ", " renames ", 1))
    rows = apache.query("SELECT * FROM renames ORDER BY id")
    for statement in ("DROP TABLE renames", *(f"RESET {key}" for key in _SETTINGS)):
        apache.sql(statement)
    return {**files_of(folder), "rows.json": json.dumps(_plain(rows)).encode()}


def _plain(rows: pa.Table) -> list[dict[str, object]]:
    maps = [field.name for field in rows.schema if pa.types.is_map(field.type)]
    return [row | {name: dict(row[name]) for name in maps if row[name] is not None} for row in rows.to_pylist()]


if __name__ == "__main__":
    remake("schema_on_read.tar.xz", {name: (release, write) for name, release in TABLES.items()}, sys.argv[1:])
