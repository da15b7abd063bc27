"""Make `merge_on_read.tar.xz`: merge-on-read tables of `tests/engines/apache_tables.py`, and their rows."""

import sys
from pathlib import Path

from tests.engines.apache_tables import apache_tables
from tests.golden.packing import Members, files_of, parquet, remake
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.golden_slices import NAMES


def write(apache: ApacheHudi, folder: Path) -> Members:
    table = apache_tables()[folder.name.partition("__")[2]]
    table.write(apache, folder)
    rows = apache.read(folder, options=table.apache_reads_with)
    return {**files_of(folder, "table/"), "expected.parquet": parquet(rows)}


if __name__ == "__main__":
    remake("merge_on_read.tar.xz", {name: (name.partition("__")[0], write) for name in NAMES}, sys.argv[1:])
