"""Make `hbase_indexes.tar.xz`: HFiles whose index has two to four levels, by HBase's writer in Apache Hudi 0.15.0."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.packing import write_archive
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.hbase_entries import texts
from tests.support.paths import GOLDEN

#: By name, whose parts are the arguments of `texts`: sizes of data and index blocks; without, Apache Hudi's own.
FILES: dict[str, dict[str, Any]] = {
    "defaults_3000_2000_late": {"block_size": 65_536},
    "shortened_1500_20_early": {"block_size": 512, "index_size": 512},
    "three_1500_60_late": {"block_size": 512, "index_size": 1024},
    "deep_400_100_mixed": {"block_size": 300, "index_size": 256, "codec": "NONE"},
}


def main() -> None:
    members = {}
    with tempfile.TemporaryDirectory() as scratch:
        apache = ApacheHudi("0.15.0", Path(scratch))
        try:
            for name, sizes in FILES.items():
                _, count, length, differing = name.split("_")
                path = Path(scratch) / f"{name}.hfile"
                levels = apache.write_hfile(path, texts(int(count), int(length), differing), **sizes)
                sys.stdout.write(f"{name}: {levels} levels\n")
                members[path.name] = path.read_bytes()
        finally:
            apache.close()
    write_archive(GOLDEN / "hbase_indexes.tar.xz", members)


if __name__ == "__main__":
    main()
