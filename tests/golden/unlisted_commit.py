"""Make `unlisted_commit.tar.xz`: a table whose metadata table lacks a completed commit."""

import contextlib
import json
import sys
from pathlib import Path

import pyarrow as pa

from tests.engines.apache_tables import MERGE_ON_READ, NONPARTITIONED
from tests.golden.packing import Members, files_of, remake
from tests.support.apache_hudi_client import ApacheError, ApacheHudi

_OPTIONS = {
    **NONPARTITIONED,
    **MERGE_ON_READ,
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "o",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}


def write(apache: ApacheHudi, folder: Path) -> Members:
    """The table, and the keys that Apache reads without its metadata table.

    The last rollback, of a compaction, fails in the metadata table, which was just compacted. The insert after it
    completes, but its instant in the metadata table is rolled back in its stead.
    """

    def change(operation: str, order: int, numbers: list[int]) -> None:
        rows = pa.table({"id": [f"k{number}" for number in numbers], "o": [order] * len(numbers)})
        apache.write(folder, rows, {**_OPTIONS, "hoodie.datasource.write.operation": operation})

    def call(procedure: str, argument: str) -> None:
        timeline = folder / ".hoodie"
        last = max(path.name.split(".")[0] for path in timeline.iterdir() if path.suffix in {".commit", ".deltacommit"})
        apache.sql(f"CREATE TABLE unlisted USING hudi LOCATION '{folder}'")
        try:
            apache.sql(f"CALL {procedure}(table => 'unlisted', {argument} => '{last}')")
        finally:
            apache.sql("DROP TABLE unlisted")

    change("bulk_insert", 0, [0, 1])
    call("rollback_to_instant", "instant_time")
    for _ in range(3):
        with contextlib.suppress(ApacheError):  # the first finds no schema
            change("delete", 0, [0])
    change("upsert", 1, list(range(9)))
    call("create_savepoint", "commit_time")
    change("upsert", 2, [3, 10, 11, 12])
    with contextlib.suppress(ApacheError):  # "is earlier than the latest compaction"
        call("rollback_to_instant", "instant_time")
    change("insert", 3, [20, 21, 22])
    times = [
        {path.name.split(".")[0] for path in done.glob("*.deltacommit")}
        for done in (folder / ".hoodie", folder / ".hoodie/metadata/.hoodie")
    ]
    assert times[0] - times[1], "the metadata table has all commits"
    rows = apache.read(folder, options={"hoodie.metadata.enable": "false"})
    return {**files_of(folder, without=None), "keys.json": json.dumps(sorted(rows["id"].to_pylist())).encode()}


if __name__ == "__main__":
    remake("unlisted_commit.tar.xz", {"v6_0150": ("0.15.0", write)}, sys.argv[1:])
