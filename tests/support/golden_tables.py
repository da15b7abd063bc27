"""Timelines and listings of tables that Apache Hudi wrote, laid out in a folder as empty data files of true size."""

import json
import os
import tarfile

from tests.support.paths import GOLDEN


def _archive(name):
    with tarfile.open(os.path.join(GOLDEN, name)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}


def _tables(files):
    return sorted({name.split("/", 1)[0] for name in files})


_OLD, _NEW = _archive("timelines.tar.xz"), _archive("timelines_2.tar.xz")
FILES = _OLD | _NEW
#: Copy-on-write tables of version 6.
NAMES = _tables(_OLD)
#: Merge-on-read tables of version 6, and tables of versions 8 and 9; the slices in their facts end with log files.
NEW_NAMES = _tables(_NEW)


def facts(name):
    return json.loads(FILES[f"{name}/golden.json"])


def timeline_files(name, action):
    """(path, content) of the files of one table's timeline whose name has `action`."""
    prefix = f"{name}/.hoodie/"
    return [(path, data) for path, data in FILES.items() if path.startswith(prefix) and action in path]


def lay_out(name, folder):
    """Make the table below `folder`; data files are holes of the right size."""
    base = os.path.join(folder, name)
    for path, data in FILES.items():
        if path.startswith(f"{name}/.hoodie/"):
            _write(os.path.join(folder, path), data)
    for path, size in facts(name)["files"].items():
        _write(os.path.join(base, path), b"")
        os.truncate(os.path.join(base, path), size)
    return base


def _write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(data)
