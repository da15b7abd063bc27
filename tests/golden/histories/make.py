"""Make tables with long lives by Apache Hudi, and record what they hold after each write.

Run where the engines are (`make engines`): python -m tests.golden.histories.make [name of a table, ...]
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.packing import files_of, write_archive
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.long_life import make

#: By name in the archive: the release, the life of `LIVES`, and further options.
TABLES = {
    "clustered_v6": ("0.15.0", "clustered", {}),
    "saved_v6": ("0.15.0", "saved", {}),
    "beyond_v6": ("0.15.0", "beyond", {}),
    "renamed_v8": ("1.0.2", "renamed", {}),
    "clustered_v9": ("1.2.0", "clustered", {"hoodie.metadata.enable": "false"}),
}


def main(names: list[str]) -> None:
    folder = Path(__file__).parent
    for release in sorted({release for release, *_ in TABLES.values()}):
        wanted = [name for name, (of, *_) in TABLES.items() if of == release and name in (names or TABLES)]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            apache = ApacheHudi(release, Path(scratch))
            try:
                for name in wanted:
                    _, life_name, options = TABLES[name]
                    life = make(apache, life_name, Path(scratch) / name, options)
                    _pack(folder / f"{name}.tar.xz", life.path, life.facts())
            finally:
                apache.close()


def _pack(archive: Path, table: Path, facts: dict[str, Any]) -> None:
    members = files_of(table, "table/", without=None)
    write_archive(archive, {**members, "facts.json": json.dumps(facts, sort_keys=True).encode()})


if __name__ == "__main__":
    main(sys.argv[1:])
