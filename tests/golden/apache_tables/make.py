"""The tables of `tests/engines/apache_tables.py`, with what Apache Hudi reads of them, an archive for each release.

Run: python -m tests.golden.apache_tables.make [table, ...]
"""

import functools
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from tests.engines.apache_tables import apache_tables
from tests.engines.written_table import ARCHIVES, kept, label, packed
from tests.golden.packing import files_of, write_archive
from tests.support.apache_hudi_client import ALL_VERSIONS, ApacheHudi


def main(names: list[str]) -> None:
    """Pack the tables whose description is newer than the archive, and those that are named if they were written anew.

    A table that `.work/apache-tables` holds is not written again: delete it there first.
    """
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:

        @functools.cache
        def release(version: str) -> ApacheHudi:
            (Path(scratch) / version).mkdir()
            return stack.enter_context(closing(ApacheHudi(version, Path(scratch) / version)))

        for version in ALL_VERSIONS:
            archive = ARCHIVES / f"{version}.tar.xz"
            old = packed(version) if archive.exists() else {}
            members = {}
            for spec in apache_tables().values():
                if version not in spec.releases:
                    continue
                under = f"{label(version, spec)}/"
                same = {path: data for path, data in old.items() if path.startswith(under)}
                if not same or spec.name in names:
                    same = files_of(kept(release, version, spec), under, without=None)
                members |= same
            write_archive(archive, members)


if __name__ == "__main__":
    main(sys.argv[1:])
