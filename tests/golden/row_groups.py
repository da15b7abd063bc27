"""Make `tables/row_groups.tar.xz`: one file of ten row groups, whose merged column statistics lose rows."""

import sys
from pathlib import Path

from tests.engines.apache_tables import row_group_table
from tests.golden.packing import Members, files_of, remake
from tests.support.apache_hudi_client import ApacheHudi

#: By name in the archive.
TABLES = {"v6": "0.15.0", "v9": "1.2.0"}


def write(apache: ApacheHudi, folder: Path) -> Members:
    return files_of(row_group_table().write(apache, folder), without=None)


if __name__ == "__main__":
    remake("tables/row_groups.tar.xz", {name: (release, write) for name, release in TABLES.items()}, sys.argv[1:])
