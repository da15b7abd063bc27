"""Make `hudi_types.tar.xz`: tables of Apache Hudi 1.2.0, by Spark SQL, with columns of its types VECTOR and BLOB."""

import sys
from pathlib import Path

from tests.golden.packing import Members, files_of, remake
from tests.support.apache_hudi_client import ApacheHudi

_FLOATS = "array(cast(1.5 AS float), cast(2.5 AS float), cast(-3.0 AS float))"
_DOUBLES = "array(cast(1.5 AS double), cast(2.5 AS double))"
_BYTES = "array(cast(1 AS tinyint), cast(2 AS tinyint), cast(-3 AS tinyint), cast(4 AS tinyint))"
_NO_REFERENCE = "cast(NULL AS struct<external_path: string, offset: bigint, length: bigint, managed: boolean>)"
_BLOB = f"named_struct('type', 'INLINE', 'data', cast('abc' AS binary), 'reference', {_NO_REFERENCE})"

#: By name: the type of column `x`, its value in the first row, rows (the second holds NULL), and the table's version.
TABLES = {
    "vec_cow": ("VECTOR(3)", _FLOATS, 2, 9),
    "vecd_cow": ("VECTOR(2, DOUBLE)", _DOUBLES, 1, 9),
    "vecb_cow": ("VECTOR(4, INT8)", _BYTES, 1, 9),
    "vec_mor": ("VECTOR(3)", _FLOATS, 2, 9),
    "blb_cow": ("BLOB", _BLOB, 2, 9),
    "blb_mor": ("BLOB", _BLOB, 2, 9),
    "v6": ("VECTOR(3)", _FLOATS, 2, 6),
}
#: Whose first row a second commit updates.
UPDATED = ("vec_mor", "blb_cow", "blb_mor")


def write(apache: ApacheHudi, folder: Path) -> Members:
    """A table `id`, `x`, `ts` with one insert."""
    name = folder.name
    kind, value, count, version = TABLES[name]
    properties = {
        "type": "mor" if name.endswith("mor") else "cow",
        "primaryKey": "id",
        "preCombineField": "ts",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": str(version != 6).lower(),
    }
    listed = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
    rows = [f"SELECT 1, {value}, 1L", "SELECT 2, NULL, 1L"]
    statements = [
        f"CREATE TABLE {name} (id int, x {kind}, ts bigint) USING hudi TBLPROPERTIES ({listed}) LOCATION '{folder}'",
        f"INSERT INTO {name} {' UNION ALL '.join(rows[:count])}",
        *([f"UPDATE {name} SET ts = 2 WHERE id = 1"] if name in UPDATED else []),
        f"DROP TABLE {name}",
    ]
    for statement in statements:
        apache.sql(statement)
    return files_of(folder)


if __name__ == "__main__":
    remake("hudi_types.tar.xz", dict.fromkeys(TABLES, ("1.2.0", write)), sys.argv[1:])
