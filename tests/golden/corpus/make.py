"""Make tables of the corpus, and the archives that hold them.

Run where the engines are (`make engines`): python -m tests.golden.corpus.make [--tables FOLDER] [archive, ...]

The tables lie in the folder, those that are there from an earlier run are taken as they are, so that a run that was
broken off goes on. Without archives all are made.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.golden.corpus.archives import ARCHIVES, pack
from tests.golden.corpus.metadata_tables import FACTS, NEWER_METADATA_TABLES
from tests.golden.corpus.written import Written, ask, write
from tests.support.apache_hudi_client import ApacheHudi


def write_missing(folder: Path, names: Iterable[str]) -> dict[str, Written]:
    """Let each release write its tables that are not in the folder."""
    written = {name: Written(folder / name) for name in names}
    missing = [one for one in written.values() if not one.is_done]
    for release in sorted({one.release for one in missing}):
        with tempfile.TemporaryDirectory() as scratch:
            apache = ApacheHudi(release, Path(scratch))
            try:
                for one in (one for one in missing if one.release == release):
                    if not one.is_written:
                        print(f"{one.name} …", flush=True)
                        shutil.rmtree(one.folder, ignore_errors=True)
                        write(apache, one)
                    facts = ask(apache, one.path, statistics=one.name in {*FACTS, *NEWER_METADATA_TABLES})
                    (one.folder / "apache.json").write_text(json.dumps(facts))
            finally:
                apache.close()
    return written


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.corpus.make", description=__doc__)
    parser.add_argument("--tables", type=Path, help="folder that keeps the tables; a temporary one else")
    parser.add_argument("archives", nargs="*", metavar="archive", choices=[[], *ARCHIVES], help=", ".join(ARCHIVES))
    arguments = parser.parse_args()
    chosen = arguments.archives or list(ARCHIVES)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.tables or Path(scratch)
        written = write_missing(folder, dict.fromkeys(name for archive in chosen for name in ARCHIVES[archive][0]))
        for archive in chosen:
            pack(archive, written)


if __name__ == "__main__":
    main()
