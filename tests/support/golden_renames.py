"""Tables of Apache Hudi whose columns were renamed, dropped and added again between four inserts, one file each."""

import json
import os
import tarfile

from tests.support.paths import GOLDEN

_ARCHIVE = GOLDEN / "schema_on_read.tar.xz"

RELEASES = ("v6_0150", "v8_1020", "v9_1200")


def lay_out(release, folder):
    """Make the table below `folder`; its path, and its rows by id as Apache reads them."""
    base = os.path.join(folder, release)
    with tarfile.open(_ARCHIVE) as tar:
        for member in tar.getmembers():
            if member.name.startswith(f"{release}/"):
                path = os.path.join(folder, member.name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as stream:
                    stream.write(tar.extractfile(member).read())
    rows_path = os.path.join(base, "rows.json")
    with open(rows_path, encoding="utf-8") as stream:
        rows = json.load(stream)
    os.remove(rows_path)
    return base, {row["id"]: row for row in rows}
