"""Make `timestamp_keys.tar.xz`: tables with the timestamp-based key generator on a column of numbers.

A job writes and updates rows, whose times are numbers, and Spark SQL, to which the column is text, updates one more.
"""

import sys
from pathlib import Path

import pyarrow as pa

from tests.golden.packing import Members, files_of, parquet, remake
from tests.support.apache_hudi_client import ApacheHudi

#: By name: the release, and the table's type and version.
TABLES = {
    "1.0.2__epoc_cow_6": ("1.0.2", "COPY_ON_WRITE", "6"),
    "1.0.2__unix_mor_6": ("1.0.2", "MERGE_ON_READ", "6"),
    "1.0.2__epoc_mor_8": ("1.0.2", "MERGE_ON_READ", "8"),
    "1.0.2__unix_cow_8": ("1.0.2", "COPY_ON_WRITE", "8"),
    "1.2.0__epoc_cow_9": ("1.2.0", "COPY_ON_WRITE", "9"),
    "1.2.0__unix_mor_9": ("1.2.0", "MERGE_ON_READ", "9"),
}
_FIRST, _STEP = 1_705_489_200, 40_000


def write(apache: ApacheHudi, folder: Path) -> Members:
    """Five rows in three days, two of them updated by the job, and one by SQL."""
    name = folder.name.partition("__")[2]
    _, kind, version = TABLES[folder.name]
    unit, factor = ("EPOCHMILLISECONDS", 1000) if name.startswith("epoc") else ("UNIX_TIMESTAMP", 1)
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "v",
        "hoodie.datasource.write.partitionpath.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": unit,
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.timezone": "GMT",
    }
    if version == "6":
        options["hoodie.write.auto.upgrade"] = "false"
    for operation, numbers, value in (("insert", range(5), 1), ("upsert", (1, 3), 2)):
        rows = [{"id": str(n), "v": value, "ts": (_FIRST + n * _STEP) * factor} for n in numbers]
        table = pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())]))
        options["hoodie.datasource.write.operation"] = operation
        apache.write(folder, table, options, "append" if folder.exists() else "overwrite")
    for statement in (
        f"CREATE TABLE {name} USING hudi LOCATION '{folder}'",
        f"UPDATE {name} SET v = 9 WHERE id = '2'",
        f"DROP TABLE {name}",
    ):
        apache.sql(statement)
    return {**files_of(folder, "table/"), "expected.parquet": parquet(apache.read(folder))}


if __name__ == "__main__":
    remake("timestamp_keys.tar.xz", {name: (release, write) for name, (release, *_) in TABLES.items()}, sys.argv[1:])
