"""Golden files, and a slow, plain parser of HFiles to compare with."""

import gzip
import os
import struct
import zlib

from tests.support.paths import GOLDEN

FOLDER = str(GOLDEN / "metadata_files")
WRITERS = ("0150", "1200")
HFILES = tuple(f"{kind}_{writer}.hfile" for writer in WRITERS for kind in ("column_stats", "files", "record_index"))
DATA_LOGS = tuple(f"{kind}_{writer}.log" for writer in WRITERS for kind in ("column_stats_edge", "files_data"))


def golden(name):
    with gzip.open(os.path.join(FOLDER, f"{name}.gz")) as stream:
        return stream.read()


def plain_entries(data):
    """(key, value) of the data blocks at the front of an HFile with codec GZ, read one after the other."""
    entries = []
    position = 0
    while data[position : position + 8] == b"DATABLK*":
        on_disk, size = struct.unpack(">ii", data[position + 8 : position + 16])
        content = zlib.decompress(data[position + 33 : position + 33 + on_disk], 47)
        at = 0
        while at < size:
            key_length, value_length, row_length = struct.unpack(">iih", content[at : at + 10])
            row = content[at + 10 : at + 10 + row_length]
            value_start = at + 8 + key_length
            entries.append((row, content[value_start : value_start + value_length]))
            at = value_start + value_length + 1
        position += 33 + on_disk
    return entries
