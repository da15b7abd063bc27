"""Timelines and listings of tables that Apache Hudi wrote, laid out in a folder as empty data files of true size."""

import functools
import io
import json
import os
import tarfile

import fastavro

from tests.support.paths import GOLDEN

with tarfile.open(os.path.join(GOLDEN, "timelines.tar.xz")) as _tar:
    FILES = {member.name: _tar.extractfile(member).read() for member in _tar.getmembers()}


@functools.cache
def facts(name):
    return json.loads(FILES[f"{name}/golden.json"])


def _is_plain(name):
    properties = facts(name)["properties"]
    return properties["hoodie.table.version"] == "6" and properties["hoodie.table.type"] == "COPY_ON_WRITE"


_TABLES = sorted({name.split("/", 1)[0] for name in FILES})
#: Copy-on-write tables of version 6.
NAMES = [name for name in _TABLES if _is_plain(name)]
#: Merge-on-read tables of version 6, and tables of versions 8 and 9.
NEW_NAMES = [name for name in _TABLES if not _is_plain(name)]


def instants(name, action):
    """Times of one table's completed instants with an action, as Apache lists them."""
    return [time for time, kind, state in facts(name)["timeline"] if (kind, state) == (action, "COMPLETED")]


def taken_back(name):
    """Times of the writes that completed rollbacks and restores of a table took back, by another Avro library."""
    times = []
    for ending, field in ((".rollback", "commitsRollback"), (".restore", "instantsToRollback")):
        for path, data in timeline_files(name, ending):
            if path.endswith(ending):
                [record] = fastavro.reader(io.BytesIO(data))
                times += record[field]
    return times


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
