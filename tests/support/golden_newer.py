"""Metadata tables of versions 6, 8 and 9 that Apache Hudi wrote, and facts about the data that they describe."""

import functools
import json
import os
import tarfile
import tempfile

from table_format.metadata_table.reader import MetadataTable
from table_format.table.client import TableClient
from tests.support.paths import GOLDEN

_ARCHIVE = GOLDEN / "metadata_tables/newer.tar.xz"

with tarfile.open(_ARCHIVE) as _tar:
    _FILES = {member.name: _tar.extractfile(member).read() for member in _tar.getmembers()}

NAMES = sorted({name.split("/", 1)[0] for name in _FILES})
_READ_ONLY = tempfile.TemporaryDirectory()


@functools.cache
def facts(name):
    return json.loads(_FILES[f"{name}/golden.json"])


def lay_out(name, folder):
    """The table's `.hoodie` below a folder; returns the table's base folder."""
    base = os.path.join(str(folder), name)
    prefix = f"{name}/table/"
    for path, data in _FILES.items():
        if path.startswith(prefix):
            target = os.path.join(base, path.removeprefix(prefix))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as stream:
                stream.write(data)
    return base


@functools.cache
def shared(name):
    """The table's base folder, for tests that only read; made once."""
    return lay_out(name, _READ_ONLY.name)


def open_table(base):
    client = TableClient.open(str(base))
    return MetadataTable.open(client, client.timeline())
